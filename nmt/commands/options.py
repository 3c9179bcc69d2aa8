"""Command-line settings, checked against a command's dataclass, and the help that lists them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, get_type_hints

from nmt.commands.streams import require_stdout
from nmt.config.plain import compose_plain, config_dir
from nmt.settings.build import build

Options = TypeVar("Options")
Check = Callable[[dict[str, Any]], Iterable[str]]


def read_options(
    name: str, schema: type[Options], arguments: Sequence[str], check: Check = lambda config: ()
) -> Options:
    """Return conf/``name``.yaml with the overrides in ``arguments`` as an instance of ``schema``.

    ``check`` yields further problems, those that a schema cannot express, unless a key is missing. Raises one UserError
    that lists every unknown key, missing key and wrong value.
    """
    from nmt.settings.validate import problems

    def all_problems(config: dict[str, Any]) -> Iterator[str]:
        yield from problems(config, schema, "")
        if all(key in config for key in get_type_hints(schema)):
            yield from check(config)

    config = compose_plain(name, arguments)
    if config is None or any(all_problems(config)):  # Hydra's messages name the file and similar keys
        from nmt.config.compose import compose_config

        config = compose_config(name, arguments, all_problems)
    for key in ("input", "output"):
        if config.get(key) == "-" and "None" in str(schema.__annotations__[key]):
            config[key] = None  # stdin or stdout, as for other Unix commands
    return build(schema, config)


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
