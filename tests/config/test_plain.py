"""Settings composed without Hydra equal those that Hydra composes."""

from __future__ import annotations

from typing import Any

import pytest
from builders import expect_error

from nmt.commands.align import AlignOptions
from nmt.commands.distill import DistillOptions
from nmt.commands.evaluate import EvaluateOptions
from nmt.commands.export import ExportOptions
from nmt.commands.heatmap import HeatmapOptions
from nmt.commands.translate import TranslateOptions
from nmt.comparison.models import CompareOptions
from nmt.config.compose import compose_config
from nmt.config.overrides import config_dir, load_yaml, parse_settings, parse_value, read_options
from nmt.errors import UserError
from nmt.settings.build import build, problems

SCHEMAS: dict[str, tuple[Any, str]] = {
    "align": (AlignOptions, "model=x"),
    "compare": (CompareOptions, "name=x models=[a,b] beams=[1,2]"),
    "distill": (DistillOptions, "model=x src=x tgt=x output=x search.n_best=2"),
    "evaluate": (EvaluateOptions, "hypotheses=x tgt=x lowercase=true"),
    "export": (ExportOptions, "model=2024 shortlist=5"),
    "heatmap": (HeatmapOptions, "model=x src=x output=x limit=null search.max_length=20"),
    "translate": (TranslateOptions, "model=x search=greedy trust=[a,no] search.seed=1 threads=2"),
}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_settings_equal_those_of_hydra(name: str) -> None:
    schema, words = SCHEMAS[name]
    hydra = build(schema, compose_config(name, words.split(), lambda config: problems(config, schema)))
    assert repr(read_options(name, schema, words.split())) == repr(hydra)  # 1 is not 1.0


def test_files_are_read_as_yaml_reads_them() -> None:
    files = [*config_dir().rglob("*.yaml")]
    assert len(files) > 50
    others = ["a: 'b # c'", "a: 1 2", "a:", "a:\n  b:", "a:\n  b:\n    c: 1", "a:\n  - b", "defaults:\n- a: b", "- a"]
    for text in (*(file.read_text("utf-8") for file in files), *others):
        assert repr(parse_settings(text)) == repr(load_yaml(text))


WORDS = "null nUll TRUE -0 +7 007 1e5 .5E-3 1e -.inf .NaN .INF 1_000 0x1F no ??? [] é.1 日"


@pytest.mark.parametrize("word", WORDS.split())
def test_words_are_read_as_yaml_reads_them(word: str) -> None:
    assert repr(parse_value(word, None)) == repr(load_yaml(word))


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("engine=onxx modl=a threads=0", {"engine", "modl", "threads"}),
        ("search.beam_size=0 search.beam=2", {"search.beam_size", "search.beam"}),
        ("search=best", {"search"}),
        ("search=null", {"search"}),
        ("runs/demo -x", {"runs/demo", "-x"}),
        ("--config-dir=x", {"--config-dir"}),
        ("+scores=true", {"+scores"}),
        ("input=${oc.env:HOME}", {"input"}),
        ("trust=a", {"trust"}),
    ],
)
def test_wrong_settings_are_reported_at_once(words: str, keys: set[str]) -> None:
    with pytest.raises(UserError) as caught:
        read_options("translate", TranslateOptions, ["model=a", *words.split()])
    assert {problem.replace("=", ":").partition(":")[0] for problem in caught.value.problems} == keys


def test_setting_without_effect_is_refused() -> None:
    words = ["hypotheses=x", "tgt=x", "search.beam_size=2"]
    expect_error("search.beam_size", read_options, "evaluate", EvaluateOptions, words)
    read_options("evaluate", EvaluateOptions, ["hypotheses=x", "tgt=x", "search.beam_size=5"])  # the default


def test_the_last_value_of_a_key_counts() -> None:
    words = ["model=a", "search=beam", "search.n_best=2", "model=b", "search=beam", "input=-"]
    assert read_options("export", ExportOptions, ["model=2024", "shortlist=5"]).shortlist == 5
    options = read_options("translate", TranslateOptions, words)
    assert (options.model, options.search.n_best, options.input) == ("b", 2, None)
