"""Compose the settings of a command without Hydra: its YAML file, the choices of its groups, and ``key=value``.

A value is ``null``, ``true`` or ``false``, a number, a list such as ``[a,b]``, or text. Where the default is text,
``1e5`` and ``true`` are text too, and quotes make text of anything. Of a key that is given twice, the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import yaml

from nmt.config.overrides import apply_values, config_dir, located, parse_value, put, require_overrides, unknown_choice
from nmt.errors import UserError
from nmt.settings.build import build, problems

Options = TypeVar("Options")


def read_options(name: str, schema: type[Options], arguments: Sequence[str]) -> Options:
    """Return conf/``name``.yaml with the overrides in ``arguments`` as an instance of the dataclass ``schema``.

    Raises one UserError that lists every unknown key, missing key and wrong value, or else every key without effect:
    ``schema.OWNERS`` maps settings to others, of which one must be given.
    """
    require_overrides(arguments)
    overrides = dict(argument.split("=", 1) for argument in arguments)
    choices: dict[str, str] = {}
    file = config_dir() / f"{name}.yaml"
    config = _load(file, overrides, choices)
    values = {key: text for key, text in overrides.items() if key not in choices}
    apply_values(config, values)
    for key in filter(partial(_takes_number, schema), values):
        put(config, key, parse_value(values[key], None))  # also where the default is text
    faults = [located(problem, name, choices, [config_dir()]) for problem in problems(config, schema, "")]
    if faults := faults or [*_unused(schema, config, overrides, _load(file, {}, {}))]:
        raise UserError(*faults)
    if config.get("output") == "-" and "input" not in config:
        raise UserError("output=-: this command writes a folder, not stdout; name the folder")
    for key in ("input", "output"):
        if config.get(key) == "-" and NoneType in get_args(get_type_hints(schema)[key]):
            config[key] = None  # stdin or stdout, as for other Unix commands
    return build(schema, config)


def _takes_number(schema: type[Any], key: str) -> bool:
    """Return whether the setting at the dotted key may be a number or something else, such as ``keep``."""
    hint: Any = schema
    for name in key.split("."):
        hint = get_type_hints(hint).get(name) if is_dataclass(hint) else None
    return not {int, float}.isdisjoint(get_args(hint))


def _load(file: Path, overrides: Mapping[str, str], choices: dict[str, str]) -> dict[str, Any]:
    """Return the content of a YAML file, merged with its defaults. Stores the choice of each group in ``choices``."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    merged: dict[str, Any] = {}
    for entry in content.pop("defaults", ["_self_"]):
        if entry == "_self_":
            _merge(merged, content)
        elif isinstance(entry, str):
            _merge(merged, _load(file.parent / f"{entry}.yaml", overrides, choices))
        else:
            ((group, default),) = entry.items()
            choice = choices[group] = overrides.get(group, default)
            if problem := unknown_choice(group, choice, [config_dir()]):
                raise UserError(problem)
            _merge(merged, {group: _load(config_dir() / group / f"{choice}.yaml", overrides, choices)})
    return merged


def _merge(tree: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def _unused(
    schema: type[Any], config: Mapping[str, Any], overrides: Mapping[str, str], defaults: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a message for each override that changes a setting whose owners are not given."""
    for key, text in overrides.items():
        group = key.partition(".")[0]
        owners = getattr(schema, "OWNERS", {}).get(group, ())
        if owners and all(config[owner] is None for owner in owners) and config[group] != defaults[group]:
            names = " or ".join(f"{owner}=" for owner in owners)
            yield f"{key}={text}: has an effect only with {names}; add it, or remove {key}="
