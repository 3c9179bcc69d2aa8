"""The help of a command."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt.commands.streams import require_stdout
from nmt.config.overrides import config_dir


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Return whether the arguments contain ``--help`` or ``-h``."""
    return "--help" in arguments or "-h" in arguments


def show_help(text: str, name: str) -> None:
    """Print ``text``, then the YAML files that define and explain the settings: conf/``name``.yaml and its defaults."""
    require_stdout()
    settings = (config_dir() / f"{name}.yaml").read_text(encoding="utf-8")
    for group, choice in re.findall(r"^  - (\w+): (\w+)", settings, re.MULTILINE):
        keys = (config_dir() / group / f"{choice}.yaml").read_text(encoding="utf-8")
        for included, name_there in re.findall(r"^  - /(\w+)@_here_: (\w+)", keys, re.MULTILINE):
            keys += (config_dir() / included / f"{name_there}.yaml").read_text(encoding="utf-8").split("\n", 1)[1]
        settings += f"\nSettings of {group}, given as {group}.key=value (conf/{group}/{choice}.yaml):\n\n{keys}"
    print(
        f"{text}\n\nSettings, given as key=value, with defaults (conf/{name}.yaml; ???: required):\n\n{settings}",
        end="",
    )
