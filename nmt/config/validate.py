"""All that is wrong with a configuration, found before any work starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from nmt.bounds import violations
from nmt.config.schema import Target
from nmt.errors import UserError
from nmt.plugins import locate

FROM_THE_BUILDER = {
    "state_size", "query_size", "max_length", "embedding_size", "embedding", "attention", "encoder_layers",
}  # fmt: skip
PLAIN: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def problems(value: Any, schema: Any, path: str, trust: Sequence[str] = ()) -> Iterator[str]:
    """One text for each thing that is wrong with ``value``, which should be what ``schema`` says.

    The annotations of a class of one's own may say what cannot be checked, such as ``dict``: everything goes there.
    """
    if schema is Any:
        return
    if is_dataclass(schema):
        assert isinstance(schema, type)
        yield from _mapping(value, schema, path, trust)
        return
    origin = get_origin(schema)
    if origin is Annotated:
        inner, *bounds = get_args(schema)
        found = list(problems(value, inner, path, trust))
        if not found and isinstance(value, int | float):  # what is bounded may be text as well
            found = [f"{path}={_show(value)}: {text}" for text in violations(value, bounds)]
        yield from found
    elif origin in (Union, UnionType):
        yield from _union(value, get_args(schema), path, trust)
    elif origin is Literal:
        if value not in get_args(schema) or isinstance(value, bool):
            names = [str(choice) for choice in get_args(schema)]
            yield f"{path}={_show(value)}: must be {' | '.join(names)}{suggestion(str(value), names)}"
    elif origin is Callable:  # what makes a part, such as the attention inside another one
        yield from _mapping(value, Target, path, trust)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{path}={_show(value)}: must be a list, such as [a,b]"
            return
        for place, item in enumerate(value):
            yield from problems(item, get_args(schema)[0], f"{path}[{place}]", trust)
    elif schema in PLAIN:
        fits = isinstance(value, (int, float) if schema is float else schema)
        if not fits or (isinstance(value, bool) and schema is not bool):
            number = schema is str and isinstance(value, int | float)
            quoted = f"; put it into quotes, as '{path}=\"{_show(value)}\"'" if number else ""
            yield f"{path}={_show(value)}: must be {PLAIN[schema]}{quoted}"


def _union(value: Any, choices: Sequence[Any], path: str, trust: Sequence[str]) -> Iterator[str]:
    """The problems with the only choice, or one text where none of several fits."""
    if value is None and NoneType in choices:
        return
    found = [list(problems(value, choice, path, trust)) for choice in choices if choice is not NoneType]
    if len(found) == 1:
        yield from found[0]
    elif all(found):
        begin = f"{path}={_show(value)}: "
        yield ", or ".join([found[0][0], *(one.removeprefix(begin) for one, *_ in found[1:])])


def _mapping(value: Any, schema: type, path: str, trust: Sequence[str]) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}={_show(value)}: must be a group of keys"
        return
    if schema is Target:
        yield from _target(value, path, trust)
        return
    hints = get_type_hints(schema, include_extras=True)
    optional = {one.name for one in fields(schema) if one.default is not MISSING}
    yield from _keys(value, hints, optional, path, trust)


def _target(value: Mapping[str, Any], path: str, trust: Sequence[str]) -> Iterator[str]:
    if not isinstance(value.get("_target_"), str):
        yield f"{path}._target_: missing; name a class, such as nmt.attention.MemoryAttention"
        return
    try:
        constructor = locate(value["_target_"], trust=trust)
    except UserError as error:
        yield f"{path}.{error}"
        return
    hints = _hints(constructor)
    parameters = inspect.signature(constructor).parameters
    rest = {key: item for key, item in value.items() if key != "_target_"}
    named = {name for name, one in parameters.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        named |= set(rest)  # it takes whatever it is given
    settable = {name: hints.get(name, Any) for name in named - FROM_THE_BUILDER}
    optional = {name for name, one in parameters.items() if one.default is not one.empty}
    yield from _keys(rest, settable, optional, path, trust)


def _hints(constructor: type[Any]) -> dict[str, Any]:
    """The annotations of its arguments, less those that name what is imported under TYPE_CHECKING alone."""
    function = inspect.unwrap(constructor.__init__)
    found: dict[str, Any] = {}
    for name, hint in getattr(function, "__annotations__", {}).items():
        with suppress(Exception):
            alone = SimpleNamespace(__annotations__={name: hint})
            found |= get_type_hints(alone, getattr(function, "__globals__", {}), include_extras=True)
    return found


def _keys(
    value: Mapping[str, Any], hints: Mapping[str, Any], optional: set[str], path: str, trust: Sequence[str]
) -> Iterator[str]:
    prefix = f"{path}." if path else ""
    for key, item in value.items():
        if key not in hints:
            yield f"{prefix}{key}={_show(item)}: no such key{suggestion(str(key), hints)}"
        elif item == "???":
            yield f"{prefix}{key}: must be given, as {prefix}{key}=…"
        else:
            yield from problems(item, hints[key], f"{prefix}{key}", trust)
    for key in hints:
        if key not in value and key not in optional:
            yield f"{prefix}{key}: missing"


def suggestion(word: str, choices: Any) -> str:
    """`, did you mean X?`, or nothing where nothing is near."""
    near = get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _show(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
