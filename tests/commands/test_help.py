"""``--help`` of every command shows all settings and starts quickly, and ``--cfg`` prints what would run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from commands.processes import MAIN, finish

from nmt.commands.train import train
from nmt.config.compose import compose_train
from nmt.config.overrides import config_dir

COMMANDS = sorted(path.stem for path in config_dir().glob("*.yaml"))
HELP = """
import sys
from importlib import import_module
for command in sys.argv[1:]:
    getattr(import_module(f"nmt.commands.{command}"), command)(["--help"])
    print(end="\\0")
assert "torch" not in sys.modules
"""


@pytest.mark.thorough
def test_help_shows_every_setting_without_importing_torch() -> None:
    status, out, error = finish(HELP, COMMANDS)
    assert status == 0, error
    for command, shown in zip(COMMANDS, out.decode().split("\0"), strict=False):
        text = (config_dir() / f"{command}.yaml").read_text("utf-8")
        assert f"nmt-{command} " in shown and text in shown
        defaults = [entry for entry in yaml.safe_load(text).get("defaults", []) if entry != "_self_"]
        for group, choice in (pair for entry in defaults for pair in entry.items()):
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
