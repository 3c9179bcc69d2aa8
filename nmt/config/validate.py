"""Find everything that is wrong with a configuration, before any work starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from nmt.bounds import violations
from nmt.config.schema import Plugin
from nmt.errors import UserError
from nmt.plugins import locate

PLAIN: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class Place:
    """The position of a value: its dotted key, the trusted packages, and the innermost plug-in block around it."""

    key: str
    trust: Sequence[str] = ()
    plugin: Plugin | None = None

    def child(self, name: str) -> Place:
        return replace(self, key=f"{self.key}.{name}" if self.key else name)


def problems(value: Any, schema: Any, key: str, trust: Sequence[str] = ()) -> Iterator[str]:
    """Yield one message for each mismatch between ``value``, found at the dotted ``key``, and the type ``schema``.

    A plug-in's annotations may contain types that cannot be checked, such as ``dict``: any value is accepted there.
    """
    yield from _problems(value, schema, Place(key, trust))


def _problems(value: Any, schema: Any, place: Place) -> Iterator[str]:
    if is_dataclass(schema) or is_typeddict(schema):
        assert isinstance(schema, type)
        yield from _mapping(value, schema, place)
        return
    origin = get_origin(schema)
    if origin is Annotated:
        yield from _annotated(value, schema, place)
    elif origin in (Union, UnionType):
        yield from _union(value, get_args(schema), place)
    elif origin is Literal:
        if value not in get_args(schema) or isinstance(value, bool):
            names = [str(choice) for choice in get_args(schema)]
            yield f"{place.key}={_show(value)}: must be {' | '.join(names)}{suggestion(str(value), names)}"
    elif origin is Callable and place.plugin is not None:  # constructs a part, such as the attention inside another one
        yield from _plugin(value, place.plugin, place)
    elif origin in (list, tuple):
        yield from _list(value, schema, place)
    elif schema in PLAIN:
        fits = isinstance(value, (int, float) if schema is float else schema)
        if not fits or (isinstance(value, bool) and schema is not bool):
            number = schema is str and isinstance(value, int | float)
            quoted = f"; put it into quotes, as '{place.key}=\"{_show(value)}\"'" if number else ""
            yield f"{place.key}={_show(value)}: must be {PLAIN[schema]}{quoted}"


def _annotated(value: Any, schema: Any, place: Place) -> Iterator[str]:
    inner, *notes = get_args(schema)
    if plugins := [note for note in notes if isinstance(note, Plugin)]:
        yield from _plugin(value, plugins[0], place)
        return
    messages = list(_problems(value, inner, place))
    if not messages and isinstance(value, int | float):  # text may be allowed too, as in Annotated[int | str, …]
        messages = [f"{place.key}={_show(value)}: {message}" for message in violations(value, notes)]
    yield from messages


def _union(value: Any, choices: Sequence[Any], place: Place) -> Iterator[str]:
    """Yield the problems with the only choice, or one message if none of several choices fits."""
    if value is None and NoneType in choices:
        return
    by_choice = [list(_problems(value, choice, place)) for choice in choices if choice is not NoneType]
    if len(by_choice) == 1:
        off = NoneType in choices and str(value).lower() in ("none", "off", "false", "-1")
        yield from (f"{message}; write null for off" if off else message for message in by_choice[0])
    elif all(by_choice):
        prefix = f"{place.key}={_show(value)}: "
        yield ", or ".join([by_choice[0][0], *(messages[0].removeprefix(prefix) for messages in by_choice[1:])])


def _list(value: Any, schema: Any, place: Place) -> Iterator[str]:
    if not isinstance(value, list | tuple):
        yield f"{place.key}={_show(value)}: must be a list, such as [a,b]"
        return
    types = get_args(schema) or (Any,)
    if get_origin(schema) is tuple and ... not in types:
        if len(value) != len(types):
            yield f"{place.key}={_show(value)}: must be a list of {len(types)}"
            return
    else:
        types = (types[0],) * len(value)
    for index, (item, kind) in enumerate(zip(value, types, strict=True)):
        yield from _problems(item, kind, replace(place, key=f"{place.key}[{index}]"))


def _mapping(value: Any, schema: type, place: Place) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{place.key}={_show(value)}: must be a group of keys"
        return
    hints = get_type_hints(schema, include_extras=True)
    yield from _keys(value, hints, _optional_keys(schema), place)


def _optional_keys(schema: type) -> frozenset[str]:
    if is_dataclass(schema):
        return frozenset(field.name for field in fields(schema) if field.default is not MISSING)
    return frozenset(getattr(schema, "__optional_keys__", ()))


def _plugin(value: Any, plugin: Plugin, place: Place) -> Iterator[str]:
    """Yield the problems of a block with a ``_target_``, by the signature of that class or function."""
    if not isinstance(value, Mapping):
        yield f"{place.key}={_show(value)}: must be a group of keys"
        return
    if not isinstance(value.get("_target_"), str):
        yield f"{place.key}._target_: missing; name a class, such as nmt.attention.MemoryAttention"
        return
    module, _, name = plugin.point.rpartition(".")
    point = getattr(import_module(module), name)
    try:
        target = locate(value["_target_"], point, trust=place.trust)
    except UserError as error:
        yield f"{place.key}.{error}"
        return
    settings = {key: item for key, item in value.items() if key != "_target_"}
    parameters = inspect.signature(target).parameters
    named = {name for name, item in parameters.items() if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)}
    if any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        named |= set(settings)  # it accepts any key
    hints = {**dict.fromkeys(named, Any), **_hints(target)}
    hints = {name: plugin.bounds.get(name, hints[name]) for name in named - point.supplied}
    optional = point.defaults | {name for name, item in parameters.items() if item.default is not item.empty}
    if plugin.shared is not None:
        hints |= get_type_hints(plugin.shared, include_extras=True)
        optional |= _optional_keys(plugin.shared)
    yield from _keys(settings, hints, optional, replace(place, plugin=plugin))


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of the arguments, except those whose types are imported under TYPE_CHECKING only."""
    constructor: Any = target
    function: Any = inspect.unwrap(constructor.__init__ if isinstance(target, type) else target)
    hints: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        with suppress(Exception):
            holder = SimpleNamespace(__annotations__={name: annotation})
            hints |= get_type_hints(holder, getattr(function, "__globals__", {}), include_extras=True)
    return hints


def _keys(
    value: Mapping[str, Any], hints: Mapping[str, Any], optional: set[str] | frozenset[str], place: Place
) -> Iterator[str]:
    for key, item in value.items():
        child = place.child(key)
        if key not in hints:
            yield f"{child.key}={_show(item)}: no such key{suggestion(str(key), hints)}"
        elif item == "???":
            yield f"{child.key}: must be given, as {child.key}=…"
        else:
            yield from _problems(item, hints[key], child)
    for key in hints:
        if key not in value and key not in optional:
            yield f"{place.child(key).key}: missing"


def suggestion(word: str, choices: Any) -> str:
    """Return "; did you mean X?", or nothing where no choice is similar."""
    near = get_close_matches(word, list(choices), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _show(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
