"""Settings composed without Hydra equal those that Hydra composes, and everything unusual is left to Hydra."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config import compose_config
from nmt.config.plain import compose_plain
from nmt.errors import UserError

COMMANDS = ["translate", "evaluate", "heatmap", "encode", "export", "prepare", "align"]


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
