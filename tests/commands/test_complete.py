"""nmt-complete: every setting of every command can be completed, in bash as well."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from builders import expect_error
from commands.processes import ROOT
from commands.texts import Call

from nmt.commands.complete import COMMANDS, NAMES, SCRIPTS, complete, completions
from nmt.config.compose import compose_train
from nmt.config.overrides import config_dir, keys

ATTENTIONS = sorted(file.stem for file in (config_dir() / "attention").glob("*.yaml"))


def test_all_commands_are_completed() -> None:
    scripts = sorted(f"nmt-{file.stem}" for file in (ROOT / "scripts").glob("*.py") if file.stem != "complete")
    assert sorted(NAMES.split()) == scripts


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_all_settings_of_a_choice_are_offered(attention: str) -> None:
    chosen = f"attention={attention}"
    offered = completions("train", [chosen], "")
    settings = [key for key in keys(compose_train([chosen])) if not key.endswith("_target_")]
    assert {f"{key}=" for key in settings} <= set(offered)
    assert {f"attention={name}" for name in ATTENTIONS} <= set(offered)


@pytest.mark.parametrize("command", COMMANDS)
def test_all_settings_of_a_command_are_offered(command: str) -> None:
    tree = yaml.safe_load((config_dir() / f"{command}.yaml").read_text("utf-8"))
    tree.pop("defaults", None)
    assert {f"{key}=" for key in keys(tree)} <= set(completions(command, [], ""))


def test_only_settings_with_the_start_of_the_word_are_offered() -> None:
    assert completions("train", [], "attention=memory") == ["attention=memory_paper"]
    assert completions("train", ["encoder=lstm"], "encoder.hid") == ["encoder.hidden_size="]
    assert completions("unknown", [], "") == completions("train", [], "x=") == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_behind_the_equals_sign(tmp_path: Path) -> None:
    program = tmp_path / "nmt-complete"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nmt.commands.programs complete "$@"\n')
    program.chmod(0o755)
    line = "nmt-train attention=luong attention=memory_p"
    code = f'{SCRIPTS["bash"]}\nCOMP_LINE="{line}"\nCOMP_POINT={len(line)}\n_nmt_complete\necho "${{COMPREPLY[@]}}"'
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    out = subprocess.run(["bash", "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert out == "memory_paper\n"


def test_shells_and_errors(call: Call) -> None:
    assert "complete -o default" in "\n".join(call(complete, "bash").lines)
    for words in ([], ["tcsh"], ["words"]):
        expect_error("not a shell; give one of bash, zsh, fish$", call, complete, *words)
