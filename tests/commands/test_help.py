"""``--help`` of every command shows all settings and starts quickly."""

from __future__ import annotations

import re
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path

import pytest
import yaml
from builders import expect_error
from commands.processes import ROOT, finish, run_without_torch
from commands.texts import Call

from nmt.commands.train import train
from nmt.config.compose import compose_train
from nmt.config.init_from import read_yaml
from nmt.config.overrides import config_dir

pytestmark = pytest.mark.thorough

COMMANDS = sorted(file.stem for file in (config_dir() / "..").resolve().glob("scripts/*.py"))


def test_ascii_terminal_shows_help_and_errors() -> None:
    code = (
        "import sys\nfrom importlib import import_module\nfrom nmt.commands.shell import run\n"
        "for name in sys.argv[1:]:\n"
        "    for argument, expected in (('--help', 0), ('s\\u00f6=1', 2)):\n"
        "        try: run(getattr(import_module('nmt.commands.' + name), name), [argument])\n"
        "        except SystemExit as end: assert end.code == expected, (name, argument, end.code)"
    )
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    status, out, error = finish(code, COMMANDS, env=environment)
    assert status == 0, error
    assert (out + error).isascii() and error.count(b"s\\xf6") == len(COMMANDS)


def test_version_is_that_of_the_installed_package() -> None:
    code = "import runpy; runpy.run_path('scripts/train.py', run_name='__main__')"
    line = f"nmt-memory-attention {version('nmt-memory-attention')}\n"
    assert finish(code, ["--version"], cwd=ROOT) == (0, line.encode(), b"")


@pytest.mark.parametrize(
    ("command", "phrases"),
    [
        ("align", ["nmt-align model=runs/demo src=test.en", "model: ???"]),
        ("compare", ["nmt-compare 'models=[runs/a,runs/b]'", "rounds: 3"]),
        ("doctor", ["nmt-doctor model=runs/demo", "model: null"]),
        ("distill", ["nmt-distill model=runs/teacher src=train.en", "rejected: reference", "beam_size: 5"]),
        ("encode", ["nmt-encode model=runs/demo output=memories", "output: ???"]),
        ("evaluate", ["nmt-evaluate hypotheses=out.txt", "links_base: 0", "beam_size: 5"]),
        ("export", ["nmt-export model=runs/demo", "shortlist: keep"]),
        ("heatmap", ["nmt-heatmap model=runs/demo", "granularity: word"]),
        ("prepare", ["nmt-prepare data=multi30k", "output: ???", "max_ratio: null", "vocab_size: "]),
        (
            "translate",
            ["nmt-translate model=runs/demo < in.txt", "length_penalty", "scores: false", "temperature", "Moses"],
        ),
    ],
)
def test_help_shows_every_setting_without_importing_torch(command: str, phrases: list[str]) -> None:
    shown = run_without_torch(command, ["--help"])
    keys = [f"\n{key}:" for key in read_yaml(config_dir() / f"{command}.yaml")]
    for phrase in [f"{command}: ", *phrases, *keys]:
        assert phrase in shown


def test_train_help_lists_groups_choices_and_described_keys_without_importing_torch() -> None:
    shown = run_without_torch("train", ["--help"])
    words = shown.split()
    files = [path for path in config_dir().glob("*/**/*.yaml") if path.parent.name != "filters"]  # included by data
    for file in files:
        name = Path(*file.relative_to(config_dir()).parts[1:]).with_suffix("").as_posix()
        assert name in words, file
        (heading, *_) = [line for line in file.read_text("utf-8").splitlines() if "@package" not in line]
        if heading.startswith("# "):
            assert heading.removeprefix("# ") in shown, file
    for group in {file.relative_to(config_dir()).parts[0] for file in files}:
        assert re.search(rf"\n  (\+|encoder\.)?{group}\s", shown), group
    for name in ("train", "attention/located_memory", "optimizer/adam", "training/default", "search/beam"):
        for line in (config_dir() / f"{name}.yaml").read_text("utf-8").splitlines():
            if "  # " in line and "[" not in line and not line.startswith("  - "):  # an entry of the defaults
                assert f"{line.strip()}\n" in shown


@pytest.mark.parametrize(
    "path", sorted(config_dir().rglob("*.yaml")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_sentences_do_not_end_after_the_line_that_help_shows(path: Path) -> None:
    lines = [line for line in path.read_text("utf-8").splitlines() if line != "# @package _global_"]
    shown, following, *_ = [*takewhile(lambda line: line.startswith("#"), lines), "", ""]
    assert shown.endswith(".") or not following[2:3].islower(), shown


def test_cfg_prints_the_checked_configuration_and_describes_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--cfg"], ["--cfg", "job", "attention=multi_head", "seed=7"], ["seed=7", "-c", "job"]):
        train(words)
        text = capsys.readouterr().out
        settings = [word for word in words if "=" in word]
        assert yaml.safe_load(text) == compose_train(settings)
        for line in text.splitlines():
            if not line.endswith(":") and "_target_" not in line and not line.lstrip().startswith("- "):
                assert "  # " in line, line
    train(["--cfg", "attention=multi_head", "attention@attention.inner=local"])
    assert "    window: 10  # source positions on each side of the predicted one\n" in capsys.readouterr().out


def test_cfg_keeps_values_that_look_like_comments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = f"{tmp_path}/{'a # b ' * 40}"
    train(["--cfg", f"runs={long}"])
    assert yaml.safe_load(capsys.readouterr().out)["runs"] == long


def test_help_is_equal_without_the_yaml_parser_in_c(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    expected = call(train, "--help")
    for module in ("help", "yaml_files"):
        monkeypatch.setattr(f"nmt.config.{module}.LOADER", yaml.SafeLoader)
    assert call(train, "--help") == expected


def test_help_shows_the_keys_of_the_given_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "attention").mkdir()
    (tmp_path / "attention" / "mine.yaml").write_text(
        "# My attention.\ndefaults: [local, _self_]\nwindow: 3  # words\n"
    )
    train(["--help", "--config-dir", str(tmp_path), "attention=mine"])
    help_text = capsys.readouterr().out
    assert "mine                 My attention.\n" in help_text
    assert "  window: 3  # words\n" in help_text and "  score: general  # dot | general | concat\n" in help_text


def test_other_kinds_of_cfg_are_refused() -> None:
    expect_error("--cfg all: only the job's configuration can be shown; use --cfg job", train, ["--cfg", "all"])
