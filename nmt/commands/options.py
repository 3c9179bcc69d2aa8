"""What a filter is told: its keys, checked against its dataclass, and the help that lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from nmt.config import compose_config, config_dir
from nmt.config.compose import Check
from nmt.search.options import SearchOptions

Options = TypeVar("Options")


def read_options(
    name: str, schema: type[Options], arguments: Sequence[str], check: Check = lambda config: ()
) -> Options:
    """conf/``name``.yaml with the command line's words as an instance of ``schema``.

    ``check`` may find more that is wrong than a schema can. Raises UserError naming every key that is unknown, missing
    or impossible, all at once.
    """
    from nmt.config.validate import problems

    config = compose_config(name, arguments, lambda config: [*problems(config, schema, ""), *check(config)])
    if "search" in config:
        config["search"] = SearchOptions(**config["search"])
    return schema(**config)


def asks_for_help(arguments: Sequence[str]) -> bool:
    return "--help" in arguments or "-h" in arguments


def show_help(text: str, name: str) -> None:
    """Print what the command is for, and its keys as the YAML explains them."""
    keys = (config_dir() / f"{name}.yaml").read_text(encoding="utf-8")
    print(f"{text}\n\nKeys, written key=value, and their defaults (conf/{name}.yaml):\n\n{keys}", end="")
