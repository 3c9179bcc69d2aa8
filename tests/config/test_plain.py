"""Settings composed without Hydra equal those that Hydra composes, and everything unusual is left to Hydra."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from nmt.commands.options import read_options
from nmt.commands.translate_options import Translate
from nmt.config import compose_config
from nmt.config.compose import in_quotes, quoted, train_config
from nmt.config.multirun import quoted_sweep
from nmt.config.plain import compose_plain
from nmt.errors import UserError

COMMANDS = ["translate", "evaluate", "heatmap", "encode", "export", "align"]


def by_hydra(name: str, arguments: list[str]) -> dict[str, Any]:
    return compose_config(name, arguments, lambda config: ())


@pytest.mark.parametrize("name", COMMANDS)
def test_defaults_equal_those_of_hydra(name: str) -> None:
    assert compose_plain(name, []) == by_hydra(name, [])


WORDS = ["greedy", "null", "NULL", "True", "nan", "-inf", "0", "-3", "007", "1_0", "1.50", ".5", "1e3", "-0.0", "on"]
PATHS = [
    "runs/luong-2",
    "../a.en",
    "./a",
    "/tmp/a.b/c",
    "a.1e5",
    "1/a",
    "e5",
    "~/a",
    "a,b",
    "a b",
    "[a]",
    "${x}",
    "'a'",
]
VALUES = st.one_of(
    st.sampled_from([*WORDS, *PATHS]),
    st.integers(-(10**6), 10**6).map(str),
    st.floats(-1e4, 1e4).map(str),
    st.text("aeNULTRinf./-_0159+", min_size=1, max_size=6),
)
KEYS = [
    "model",
    "threads",
    "scores",
    "search",
    "search.beam_size",
    "search.length_penalty",
    "trust",
    "engine.x",
    "modl",
]


@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=4))
def test_settings_equal_those_of_hydra(settings: list[tuple[str, str]]) -> None:
    arguments = [f"{key}={value}" for key, value in settings]
    plain = compose_plain("translate", arguments)
    if plain is not None:
        expected = by_hydra("translate", arguments)
        assert plain == expected and repr(sorted(plain.items())) == repr(sorted(expected.items()))  # 1 is not 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        ["model=runs/demo", "engine=onnx-int8", "threads=1", "search=greedy", "search.max_length=20", "scores=true"],
        ["model=/tmp/x_1/run", "search.beam_size=8", "search.length_penalty=0.5", "input=a.en.gz"],
    ],
)
def test_usual_settings_need_no_hydra(arguments: list[str]) -> None:
    assert compose_plain("translate", arguments) == by_hydra("translate", arguments)
    code = f"import sys; from nmt.commands.translate import *; read_options('translate', Translate, {arguments})"
    code += "; sys.exit(bool({'hydra', 'omegaconf', 'antlr4'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["modl=a"], ["model"], ["--config-dir=x"], ["+a=1"], ["model=a", "model=b"], ["search=best"], ["trust=[a]"]],
    ids=" ".join,
)
def test_unusual_settings_are_left_to_hydra(arguments: list[str]) -> None:
    assert compose_plain("translate", arguments) is None


def test_wrong_values_are_reported_as_by_hydra() -> None:
    from nmt.commands.options import read_options
    from nmt.commands.translate import Translate

    with pytest.raises(UserError, match=r"^engine=onxx: must be auto .*; did you mean onnx\? \(conf/translate.yaml\)$"):
        read_options("translate", Translate, ["model=a", "engine=onxx"])


NAMES = st.text(
    st.one_of(st.sampled_from("aü日😀 .-_=:'\"()[]{}#~%$\\/@!&;*?|+0e<>`^"), st.characters(codec="utf-8")), min_size=1
)


def by_grammar(word: str) -> Any:
    return OverridesParser.create().parse_override(quoted(word)).value()


def swept(word: str) -> list[Any]:
    parser = OverridesParser.create()
    sweep = parser.parse_override(quoted_sweep(word))
    assert sweep.is_sweep_override()
    return [parser.parse_override(f"key={text}").value() for text in sweep.sweep_string_iterator()]


def is_one_name(name: str) -> bool:
    """Return whether the name alone is text, in which no comma separates elements."""
    reserved = name[0] + name[-1] in ("[]", "{}", "''", '""') or "${" in name or "," in name
    return not reserved and name == name.strip(" ")


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
        ("key=[en,日本語]", ["en", "日本語"]),
        ("key=['a,b.en', c]", ["a,b.en", "c"]),
        ("key=['s-Hertogenbosch.en,it's.en]", ["'s-Hertogenbosch.en", "it's.en"]),
        ("key=[C:\\x\\ü,[1].en]", ["C:\\x\\ü", "[1].en"]),
        ("key=[[ü,b], [c]]", [["ü", "b"], ["c"]]),
        ("key={a: ü.en, b: [ö,x]}", {"a": "ü.en", "b": ["ö", "x"]}),
        ("key=[]", []),
        ("key={}", {}),
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
        ("key=it's,b", ["it's", "b"]),
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
    assert read_options("translate", Translate, [f"model={name}", f"trust=[a,{name}]"]).model == name
    assert read_options("translate", Translate, ["model=x", f"trust=[a, {name}]"]).trust == ["a", name]
