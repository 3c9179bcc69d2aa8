"""Settings composed without Hydra equal those that Hydra composes."""

from __future__ import annotations

from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from unittest.mock import patch

import pytest
from builders import refusal
from commands.processes import run_python
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from nmt.commands.align import AlignOptions
from nmt.commands.distill import DistillOptions
from nmt.commands.evaluate import EvaluateOptions
from nmt.commands.export import ExportOptions
from nmt.commands.heatmap import HeatmapOptions
from nmt.commands.translate import TranslateOptions
from nmt.comparison.models import CompareOptions
from nmt.config.compose import compose_config, in_quotes, quoted, train_config
from nmt.config.multirun import quoted_sweep
from nmt.config.plain import read_options
from nmt.errors import UserError
from nmt.settings.build import build, problems

SCHEMAS: dict[str, Any] = {
    "align": AlignOptions,
    "compare": CompareOptions,
    "distill": DistillOptions,
    "evaluate": EvaluateOptions,
    "export": ExportOptions,
    "heatmap": HeatmapOptions,
    "translate": TranslateOptions,
}
REQUIRED = {
    "align": ["model"],
    "compare": ["name"],
    "distill": ["model", "src", "tgt", "output"],
    "evaluate": ["hypotheses", "tgt"],
    "export": ["model"],
    "heatmap": ["model", "src", "output"],
    "translate": ["model"],
}
FLOATS = ["0", "-1", "0.5", ".5", "1e3", "1_0.5", "-0.0", "inf", "nan", "1E-3", "007"]
BOOLEANS = ["true", "FALSE", "True", "yes", "1"]
ODD = st.sampled_from(
    "x|runs/a|../a.en|/tmp/a.b/c|~/a|a b|a,b|a=b|C:\\x|it's|'a,b'|\"a\\\"b\"|1e5|007||''|null|'null'|true".split("|")
    + "1_0|-inf|[1].en|{a}.en|a$b|日本語|jürgen|'s-Hertog|-".split("|")
)
NAMES = st.text(
    st.one_of(st.sampled_from("aü日😀 .-_=:'\"()[]{}#~%$\\/@!&;*?|+0e<>`^"), st.characters(codec="utf-8")), min_size=1
)


def is_one_name(name: str) -> bool:
    """Return whether the name alone is text, in which no comma separates elements."""
    reserved = name[0] + name[-1] in ("[]", "{}", "''", '""') or "${" in name or "," in name
    return not reserved and name == name.strip(" ")


def both(name: str, arguments: list[str]) -> tuple[object, object]:
    """Return the settings composed without Hydra and with Hydra, or None where they are refused."""
    schema = SCHEMAS[name]

    def by_hydra() -> Any:
        config = compose_config(name, arguments, lambda config: problems(config, schema, ""))
        for key in {"input", "output"} & config.keys():
            if config[key] == "-" and NoneType in get_args(get_type_hints(schema)[key]):
                config[key] = None  # the one word that commands read otherwise than Hydra: stdin, or stdout
        return build(schema, config)

    results = []
    for read in (lambda: read_options(name, schema, arguments), by_hydra):
        try:
            with patch("nmt.config.plain._unused", return_value=[]):  # a check of commands, which Hydra does not do
                results.append(read())
        except UserError:
            results.append(None)
    return results[0], results[1]


@st.composite
def overrides(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Return a command, and overrides of its settings with values of their types, or odd ones."""
    name = draw(st.sampled_from(sorted(SCHEMAS)))
    words = [f"{key}={draw(ODD)}" for key in REQUIRED[name]]
    for key, hint in draw(st.lists(st.sampled_from(keys_of(SCHEMAS[name], "")), max_size=4, unique=True)):
        words.append(f"{key}={draw(values(hint))}")
    return name, words


def keys_of(schema: Any, prefix: str) -> list[tuple[str, Any]]:
    """Return the dotted name and the type of every setting."""
    hints = get_type_hints(schema)
    nested = [pair for key, hint in hints.items() if is_dataclass(hint) for pair in keys_of(hint, f"{prefix}{key}.")]
    return nested + [(f"{prefix}{key}", hint) for key, hint in hints.items() if not is_dataclass(hint)]


def values(hint: Any) -> st.SearchStrategy[str]:
    """Return texts of values that fit the type, and of some that do not."""
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*(map(values, get_args(hint))))
    if get_origin(hint) is Literal:
        return st.sampled_from([str(choice) for choice in get_args(hint)])
    if get_origin(hint) is list:
        inner = st.one_of(values(get_args(hint)[0]), NAMES.filter(is_one_name).map(in_quotes))
        return st.builds(str.format, st.sampled_from(["[{}]", "[ {} ]"]), st.lists(inner, max_size=3).map(", ".join))
    simple = {int: st.integers(-3, 9).map(str), float: st.sampled_from(FLOATS), bool: st.sampled_from(BOOLEANS)}
    return simple.get(hint, st.one_of(ODD, NAMES.filter(is_one_name).map(in_quotes)))


@given(overrides())
@example(("export", ["model=x", "model=true"]))  # of a key that is given twice, the last value counts
def test_settings_equal_those_of_hydra(words: tuple[str, list[str]]) -> None:
    plain, hydra = both(*words)
    if hydra is not None:
        assert repr(plain) == repr(hydra)  # 1 is not 1.0


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_defaults_equal_those_of_hydra(name: str) -> None:
    plain, hydra = both(name, [f"{key}=x" for key in REQUIRED[name]])
    assert plain == hydra is not None


def test_reading_settings_imports_no_hydra() -> None:
    arguments = ["model='a b'", "engine=onnx-int8", "search=greedy", "search.max_length=20", "trust=[a,b]", "output="]
    code = (
        "import sys; from nmt.commands.options import read_options; from nmt.commands.translate import TranslateOptions"
    )
    code += f"\nread_options('translate', TranslateOptions, {arguments})"
    code += "\ntry: read_options('translate', TranslateOptions, ['modl=a', 'trust=1', '+a=1'])\nexcept UserError: pass"
    code += "\nsys.exit(bool({'hydra', 'omegaconf', 'antlr4'} & sys.modules.keys()))"
    code = f"from nmt.errors import UserError\n{code}"
    assert run_python(code).returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["engine=onxx"], "engine=onxx: must be auto | torch | onnx | onnx-int8; did you mean onnx?"),
        (["search.beam_size=0"], "search.beam_size=0: must be at least 1 (conf/search/beam.yaml)"),
        (["search=best"], "search=best: no such choice; choose from beam, greedy"),
        (["modl=a"], "modl: no such key; did you mean model?"),
        (["search.beam=2"], "search.beam: no such key; "),
        (["runs/demo"], "runs/demo: not a setting; write "),
        (["-x"], "-x: no such option; "),
        (["--config-dir=x"], "--config-dir=x: this command reads no other YAML files; remove it"),
        (["+scores=true"], "+scores=true: this command cannot add, remove or move a key; write scores=true"),
        (["search@x=beam"], "search@x=beam: this command cannot add, remove or move a key; write search=beam"),
        (["input=${oc.env:HOME}"], "input=${oc.env:HOME}: this command replaces no variables; write the value itself"),
        (["trust=[a,]"], "trust=[a,]: an element is empty; remove a comma"),
        (["trust=a"], "trust=a: must be a list, such as [a,b] (conf/translate.yaml)"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_settings_are_explained(words: list[str], message: str) -> None:
    assert refusal(read_options, "translate", TranslateOptions, ["model=a", *words]).startswith(message)


def test_all_wrong_settings_are_reported_at_once() -> None:
    with pytest.raises(UserError) as error:
        read_options("translate", TranslateOptions, ["engine=onxx", "modl=a", "threads=0"])
    faults = [problem.partition(":")[0] for problem in error.value.problems]
    assert faults == ["modl", "model", "engine=onxx", "threads=0"]


def test_the_last_value_of_a_key_counts() -> None:
    words = ["model=a", "search=beam", "search.n_best=2", "model=b", "search=beam"]
    options = read_options("translate", TranslateOptions, words)
    assert (options.model, options.search.n_best) == ("b", 2)


def by_grammar(word: str) -> Any:
    return OverridesParser.create().parse_override(quoted(word)).value()


def swept(word: str) -> list[Any]:
    parser = OverridesParser.create()
    sweep = parser.parse_override(quoted_sweep(word))
    assert sweep.is_sweep_override()
    return [parser.parse_override(f"key={text}").value() for text in sweep.sweep_string_iterator()]


@given(st.lists(NAMES.filter(is_one_name), min_size=1, max_size=3))
def test_names_that_work_alone_work_in_lists_mappings_and_sweeps(names: list[str]) -> None:
    alone = [by_grammar(f"key={name}") for name in names]
    assert all(value == name for value, name in zip(alone, names, strict=True) if isinstance(value, str))
    if not any(name.startswith(("'", '"', "[", "{")) for name in names):  # these may enclose what follows
        listed = ",".join(names)
        assert str(by_grammar(f"key=[{listed}]")) == str(alone)
        if not any(set("[]{}'\"") & set(name) or not name.isprintable() for name in names):
            assert str(by_grammar(f"key=[[{listed}],x]")) == str([alone, "x"])
            assert swept(f"key=[{listed}],[{listed}]") == [alone, alone]
    text = ",".join(in_quotes(name) for name in names)
    assert by_grammar(f"key=[{text}]") == names


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("key=[ü.en,tr.en]", ["ü.en", "tr.en"]),
        ("key=[a=b.en]", ["a=b.en"]),
        ("key=['a,b.en', c]", ["a,b.en", "c"]),
        ("key=['s-Hertogenbosch.en,it's.en]", ["'s-Hertogenbosch.en", "it's.en"]),
        ("key=[C:\\x\\ü,[1].en]", ["C:\\x\\ü", "[1].en"]),
        ("key=[[ü,b], [c]]", [["ü", "b"], ["c"]]),
        ("key={a: ü.en, b: [ö,x]}", {"a": "ü.en", "b": ["ö", "x"]}),
        ("key={a}.en", "{a}.en"),
        ("key=[a].en", "[a].en"),
        ("key=[1,2.5,true,null,x]", [1, 2.5, True, None, "x"]),
    ],
)
def test_lists_are_read_as_typed(word: str, value: Any) -> None:
    assert by_grammar(word) == value


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("key=[ü.en],[ö.en]", [["ü.en"], ["ö.en"]]),
        ("key=ü,ö", ["ü", "ö"]),
        ("key=choice(ü,a=b)", ["ü", "a=b"]),
        ("key='a,b',c", ["a,b", "c"]),
    ],
)
def test_sweeps_of_any_names_are_read_as_typed(word: str, values: list[Any]) -> None:
    assert swept(word) == values


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", ["1e5", "1_000", "0x10", "007", "1.10", "no", "yes", "on", "true", "2024", "inf", "NaN"]
)
def test_names_that_look_like_numbers_are_taken_as_typed(name: str) -> None:
    assert train_config([f"name={name}"]).name == name
    assert read_options("translate", TranslateOptions, [f"model={name}", f"trust=[a,{name}]"]).model == name
    assert read_options("translate", TranslateOptions, ["model=x", f"trust=[a, {name}]"]).trust == ["a", name]
