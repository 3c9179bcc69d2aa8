"""What a filter is told: its keys, checked against its dataclass, and the help that lists them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from nmt.config import compose_config, config_dir
from nmt.errors import UserError
from nmt.search.options import SearchOptions

Options = TypeVar("Options")


def read_options(name: str, schema: type[Options], arguments: Sequence[str]) -> Options:
    """conf/``name``.yaml with the command line's words as an instance of ``schema``.

    Raises UserError naming every key that is unknown, missing or impossible, all at once.
    """
    from nmt.config.validate import problems

    config: dict[str, Any] = compose_config(name, arguments)
    found = [f"{problem} ({_home(problem, name)})" for problem in problems(config, schema, "")]
    if found:
        raise UserError("\n       ".join(found))
    if "search" in config:
        config["search"] = SearchOptions(**config["search"])
    return schema(**config)


def _home(problem: str, name: str) -> str:
    """The file or folder where the key that ``problem`` begins with lives."""
    group = re.split(r"[.=:\[]", problem, maxsplit=1)[0]
    return f"conf/{group}/" if (config_dir() / group).is_dir() else f"conf/{name}.yaml"


def asks_for_help(arguments: Sequence[str]) -> bool:
    return "--help" in arguments or "-h" in arguments


def show_help(text: str, name: str) -> None:
    """Print what the command is for, and its keys as the YAML explains them."""
    keys = (config_dir() / f"{name}.yaml").read_text(encoding="utf-8")
    print(f"{text}\n\nKeys, written key=value, and their defaults (conf/{name}.yaml):\n\n{keys}", end="")
