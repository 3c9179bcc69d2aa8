"""``--help`` of every command shows all settings and starts quickly."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nmt.config import config_dir, read_yaml


@pytest.mark.parametrize(
    ("command", "phrases"),
    [
        ("align", ["nmt-align model=runs/demo src=test.en", "model: ???"]),
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
    code = f"import sys; from nmt.commands.{command} import {command}; {command}(['--help'])"
    check = f"{code}; assert 'torch' not in sys.modules"
    process = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    keys = [f"\n{key}:" for key in read_yaml(config_dir() / f"{command}.yaml")]
    for phrase in [f"{command}: ", *phrases, *keys]:
        assert phrase in process.stdout
