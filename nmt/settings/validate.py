"""Find everything that is wrong with a configuration, before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, is_dataclass, replace
from typing import Annotated, Any, get_args, get_origin, is_typeddict

from nmt.errors import UserError
from nmt.settings.arguments import TypeCheck, annotations_of, base_constructors, optional_keys, parameters_of
from nmt.settings.build import Plugin
from nmt.settings.plugins import locate


def problems(value: Any, schema: Any, key: str, trust: Sequence[str] = ()) -> Iterator[str]:
    """Yield one message for each mismatch between ``value``, found at the dotted ``key``, and the type ``schema``.

    A plug-in's annotations may contain types that cannot be checked, such as ``dict``: any value is accepted there.
    """
    yield from ConfigCheck(trust).problems(value, schema, key)


@dataclass(frozen=True)
class ConfigCheck(TypeCheck):
    """Finds the problems of configurations, with the trusted packages and the innermost plug-in block."""

    trust: Sequence[str] = ()
    plugin: Plugin | None = None

    def problems(self, value: Any, schema: Any, name: str) -> Iterator[str]:
        notes = get_args(schema)[1:] if get_origin(schema) is Annotated else ()
        plugins = [note for note in notes if isinstance(note, Plugin)]
        if get_origin(schema) is Callable and self.plugin is not None:
            plugins = [self.plugin]  # constructs a part, such as the attention inside another one
        if is_dataclass(schema) or is_typeddict(schema):
            assert isinstance(schema, type)
            yield from self.group(value, schema, name)
        elif plugins:
            yield from self._plugin(value, plugins[0], name)
        else:
            quotes = ""
            if schema is str and isinstance(value, bool):
                quotes = "; YAML reads no, off, yes and on so: write it in quotes"
            elif schema is str and isinstance(value, int | float):
                quotes = "; write it in quotes"
            yield from (f"{message}{quotes}" for message in super().problems(value, schema, name))

    def show(self, value: Any) -> str:
        return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    def _plugin(self, value: Any, plugin: Plugin, key: str) -> Iterator[str]:
        """Yield the problems of a block with a ``_target_``, by the signature of that class or function."""
        if not isinstance(value, Mapping):
            yield f"{key}={self.show(value)}: must be a group of keys"
            return
        if not isinstance(value.get("_target_"), str):
            yield f"{key}._target_: missing; name a class, such as nmt.attention.MemoryAttention"
            return
        point = plugin.resolve()
        try:
            target = locate(value["_target_"], point, trust=self.trust)
        except UserError as error:
            yield f"{key}.{error}"
            return
        settings = {key: item for key, item in value.items() if key != "_target_"}
        parameters = parameters_of(target)
        named = set(parameters.named) | (set(settings) if parameters.takes_any else set())
        hints = {**dict.fromkeys(named, Any), **annotations_of(target)}
        hints = {name: plugin.bounds.get(name, hints[name]) for name in named - point.supplied}
        optional = point.defaults | {name for name, item in parameters.named.items() if item.default is not item.empty}
        yield from _dropped_arguments(target, point.supplied - named, key)
        if plugin.shared is not None:
            hints |= plugin.shared.shared_keys()
            optional |= optional_keys(plugin.shared)
        yield from replace(self, plugin=plugin).keys(settings, hints, optional, key)


def _dropped_arguments(target: Callable[..., Any], names: Set[str], key: str) -> Iterator[str]:
    """Yield the supplied arguments ``names`` that a base class uses, but that a constructor does not pass on to it.

    The base class would use its default, such as a maximum length of 100, whatever the text is.
    """
    for constructor in base_constructors(target):
        parameters = parameters_of(constructor).named
        for name in sorted(names & parameters.keys()):
            owner = constructor.__qualname__.rpartition(".")[0]
            yield (
                f"{key}._target_={target.__module__}.{target.__qualname__}: does not pass {name} on to {owner}, which "
                f"would use {name}={parameters[name].default}; add {name} or **rest to its constructor"
            )
        return
