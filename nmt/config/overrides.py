"""Overrides on the command line: settings as ``key=value``, choices as ``group=choice``, and the values in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.errors import UserError
from nmt.settings.arguments import suggestion

MISSING = object()
INSIDE = "self_attention@"


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without aliases, in which only null, true and false are special words: no and off remain text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("contains an alias")
        return super().compose_node(parent, index)


for _kind, _pattern in {
    "null": r"null|NULL|Null",
    "bool": r"(?i:true|false)",
    "int": r"[-+]?(0|[1-9][0-9]*)",
    "float": r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|nan)",
}.items():
    PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})$"), None)


def config_dir() -> Path:
    """Return the folder of the YAML files: inside an installed package, beside the package in a checkout."""
    inside = Path(__file__).resolve().parents[1] / "conf"
    return inside if inside.is_dir() else inside.parents[1] / "conf"


def key_of(argument: str) -> str:
    """Return ``name`` of ``name=value``, ``+name=value``, ``++name=value``, and of what ``choice_inside`` returns."""
    return argument.partition("=")[0].lstrip("+~").removeprefix(INSIDE)


def choice_inside(argument: str) -> str:
    """Return ``encoder.self_attention=name`` as Hydra writes the choice of a block that is inside another one."""
    is_choice = re.fullmatch(r"(encoder|decoder)\.self_attention=(?!null$)[\w/,-]+", argument)
    return INSIDE + argument if is_choice else argument


def require_overrides(arguments: Sequence[str]) -> None:
    """Raise UserError unless all ``arguments`` are ``key=value``."""
    wrong = [argument for argument in arguments if not re.match(r"[^-=\s][^=\s]*=", argument)]
    variables = [argument for argument in arguments if "${" in argument]
    if variables:
        raise UserError(*(f"{argument:.80}: variables are not replaced; write the value" for argument in variables))
    if wrong:
        raise UserError(*(f"{argument:.80}: not a setting; write key=value (see --help)" for argument in wrong))


def name_problems(name: str) -> Iterator[str]:
    """Yield a message unless ``name`` can be that of a folder."""
    if name.strip() in ("", "..") or Path(name).name != name:
        yield f"name={name}: must be the name of a folder, such as name=mine; use runs=FOLDER for its parent"


def parse_value(text: str, default: Any) -> Any:
    """Return the value of an override, as YAML reads it; where the ``default`` is text, plain text remains text."""
    if not re.match(r"""[\[{'"]|[-+.\w]*\w$""", text):
        return text
    try:
        value = yaml.load(text, PlainLoader)
    except yaml.YAMLError:
        return text
    return text if isinstance(default, str) and isinstance(value, bool | int | float) else value


def unknown_choice(group: str, choice: str, folders: Sequence[Path]) -> str | None:
    """Return a message unless one of the ``folders`` has the YAML file of this ``choice``."""
    entry, group = group, group.partition("@")[0]
    choices = {
        path.relative_to(folder / group).with_suffix("").as_posix()
        for folder in folders
        for path in (folder / group).rglob("*.yaml")
    }
    if choice in choices:
        return None
    advice = f"{suggestion(choice, choices)}; choose from {', '.join(sorted(choices))}"
    return f"{entry.removeprefix(INSIDE)}={choice}: no such choice{advice}"


def located(problem: str, name: str, choices: Mapping[str, str], folders: Sequence[Path]) -> str:
    """Return the problem with the YAML file of its key, searched in ``folders`` in this order."""
    group = re.split(r"[.=:\[]", problem, maxsplit=1)[0]
    files = [(folder, f"{group}/{choices.get(group)}.yaml") for folder in folders] + [(config_dir(), f"{name}.yaml")]
    folder, file = next((folder, file) for folder, file in files if (folder / file).is_file())
    return f"{problem} ({'conf' if folder == config_dir() else folder}/{file})"


def value_at(tree: Any, key: str) -> Any:
    """Return the value at the dotted key of nested dictionaries, or ``MISSING``."""
    for name in key.split("."):
        tree = tree.get(name, MISSING) if isinstance(tree, dict) else MISSING
    return tree


def put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at the dotted key of nested dictionaries, which may be new."""
    *path, last = key.split(".")
    for name in path:
        if not isinstance(tree.get(name), dict):
            tree[name] = {}
        tree = tree[name]
    tree[last] = value


def apply_values(config: dict[str, Any], values: Mapping[str, str]) -> None:
    """Put the override of each dotted key into ``config``; the check of the configuration finds unknown keys."""
    for key, text in values.items():
        put(config, key, parse_value(text, value_at(config, key)))
