"""Compose the settings of a command without Hydra: its YAML file, the choices of its groups, and ``key=value``.

A value is ``null``, ``true`` or ``false``, a number, a list such as ``[a,b]``, or text. Where text is needed, ``1e5``
and ``true`` are text too, and quotes make text of anything. Of a key that is given twice, the last value counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from nmt.config.overrides import (
    MISSING,
    QUOTED,
    config_dir,
    located,
    put,
    require_override,
    split_list,
    unknown_choice,
    unknown_key,
    unquoted,
    value_at,
)
from nmt.errors import UserError
from nmt.settings.build import build, problems

Options = TypeVar("Options")
CONSTANTS = {"true": True, "false": False}


def read_options(name: str, schema: type[Options], arguments: Sequence[str]) -> Options:
    """Return conf/``name``.yaml with the overrides in ``arguments`` as an instance of the dataclass ``schema``.

    Raises one UserError that lists every unknown key, missing key and wrong value, or else every key without effect:
    ``schema.OWNERS`` maps settings to others, of which one must be given.
    """
    overrides = _split(arguments)
    choices: dict[str, str] = {}
    config = _load(config_dir() / f"{name}.yaml", overrides, choices)
    faults = [*_override(config, schema, {key: text for key, text in overrides.items() if key not in choices})]
    faults += [located(problem, name, choices, [config_dir()]) for problem in problems(config, schema, "")]
    faults = faults or [*_unused(name, schema, config, overrides)]
    if faults:
        raise UserError(*faults)
    for key in ("input", "output"):
        if config.get(key) == "-" and NoneType in get_args(get_type_hints(schema)[key]):
            config[key] = None  # stdin or stdout, as for other Unix commands
    return build(schema, config)


def _split(arguments: Sequence[str]) -> dict[str, str]:
    """Return {key: text of its value}. Raises UserError with everything that is not ``key=value``."""
    overrides: dict[str, str] = {}
    faults: list[str] = []
    for argument in arguments:
        key, _, text = argument.partition("=")
        bare = re.sub(r"^[+~]+|@.*", "", key, flags=re.DOTALL)
        if argument.startswith("--config-dir"):
            faults.append(f"{argument}: this command reads no other YAML files; remove it")
        elif bare != key and not argument.startswith("-"):
            faults.append(f"{argument}: this command cannot add, remove or move a key; write {bare}={text or 'VALUE'}")
        elif "${" in text:
            faults.append(f"{argument}: this command replaces no variables; write the value itself")
        else:
            try:
                require_override(argument)
            except UserError as error:
                faults += error.problems
            overrides[key] = text
    if faults:
        raise UserError(*faults)
    return overrides


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
            files = {path.stem: path for path in (file.parent / group).glob("*.yaml")}
            if choice not in files:
                raise UserError(unknown_choice(group, choice, [config_dir()]))
            _merge(merged, {group: _load(files[choice], overrides, choices)})
    return merged


def _merge(tree: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def _override(config: dict[str, Any], schema: type[Any], overrides: Mapping[str, str]) -> Iterator[str]:
    """Change the ``config`` of the dataclass ``schema``, and yield one message for each unknown key."""
    for key, text in overrides.items():
        current = value_at(config, key)
        if current is MISSING or isinstance(current, dict):
            yield unknown_key(key, config, [config_dir()])
            continue
        hint: Any = schema
        for name in key.split("."):
            hint = get_type_hints(hint)[name]
        try:
            put(config, key, _value(text, hint))
        except ValueError as error:
            yield f"{key}={text}: {error}"


def _unused(name: str, schema: type[Any], config: Mapping[str, Any], overrides: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each override that changes a setting whose owners are not given."""
    for key, text in overrides.items():
        group = key.partition(".")[0]
        owners = getattr(schema, "OWNERS", {}).get(group)
        if owners is None or any(config[owner] is not None for owner in owners):
            continue
        if config[group] != _load(config_dir() / f"{name}.yaml", {}, {})[group]:
            names = " or ".join(f"{owner}=" for owner in owners)
            yield f"{key}={text}: has an effect only with {names}; add it, or remove {key}="


def _value(text: str, hint: Any) -> Any:
    """Return the value that ``text`` stands for where values have the type ``hint``."""
    kinds = (hint, *get_args(hint))  # of a union: its members
    if QUOTED.fullmatch(text):
        return unquoted(text)
    if text.startswith("[") and text.endswith("]"):
        elements = split_list(text[1:-1]) if text[1:-1].strip() else []
        if "" in elements:
            raise ValueError("an element is empty; remove a comma")
        element = next((get_args(kind)[0] for kind in kinds if get_origin(kind) is list), hint)
        return [_value(item, element) for item in elements]
    if text.lower() == "null":
        return None
    if str in kinds:
        return text
    for read in (lambda text: CONSTANTS[text.lower()], int, float):
        with suppress(ValueError, KeyError):
            return read(text)
    return text
