"""``--help`` of every command shows all settings and starts quickly, and ``--cfg`` prints what would run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from commands.processes import MAIN, finish, run_without_torch

from nmt.commands.train import train
from nmt.config.compose import compose_train
from nmt.config.overrides import config_dir

COMMANDS = sorted(path.stem for path in config_dir().glob("*.yaml"))


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_setting_without_importing_torch(command: str) -> None:
    shown = run_without_torch(command, ["--help"])
    text = (config_dir() / f"{command}.yaml").read_text("utf-8")
    assert f"nmt-{command} " in shown and text in shown
    groups = [pair for entry in yaml.safe_load(text).get("defaults", []) if entry != "_self_" for pair in entry.items()]
    for group, choice in groups:
        assert f"\n{group}= " in shown
        assert choice is None or (config_dir() / group / f"{choice}.yaml").read_text("utf-8") in shown


def test_help_shows_the_keys_of_the_given_choice(capsys: pytest.CaptureFixture[str]) -> None:
    train(["--help", "attention=memory_paper"])
    shown = capsys.readouterr().out
    for name in ("memory_paper", "memory"):  # which memory_paper includes
        assert (config_dir() / "attention" / f"{name}.yaml").read_text("utf-8") in shown


def test_cfg_prints_the_checked_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for settings in (["seed=7"], [f"runs={tmp_path}/{'a # b ' * 40}"]):
        train(["--cfg", *settings])
        assert yaml.safe_load(capsys.readouterr().out) == compose_train(settings)


@pytest.mark.thorough
def test_version_names_the_libraries() -> None:
    status, out, error = finish(MAIN.format("train"), ["--version"])
    assert (status, error) == (0, b"") and out.startswith(b"nmt-memory-attention ") and b"\ntorch " in out
