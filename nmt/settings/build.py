"""Settings as frozen dataclasses: checked before any work starts, built from plain data, and turned back into it.

Files and Hydra hold plain data. ``problems`` checks it against a dataclass, and ``build`` makes the dataclass of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, TypeVar, get_args, get_origin, is_typeddict

from nmt.errors import UserError
from nmt.settings.arguments import Size, TypeCheck, annotations_of, optional_keys, parameters_of, type_hints
from nmt.settings.plugins import Block, Plugin, PluginSettings, locate

Settings = TypeVar("Settings")
PYTHON_ONLY = {"configured": False}
"""Metadata of a field that configurations do not have."""


@dataclass(frozen=True)
class Embeddings:
    """The vectors of the pieces."""

    size: Size
    shared: bool


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The groups of which a model consists."""

    embeddings: Embeddings
    encoder: Block
    attention: Block
    decoder: Block

    @staticmethod
    def of(config: Mapping[str, Any]) -> ModelSettings:
        """Return the groups of the model from a stored configuration, which has other groups too."""
        return build(ModelSettings, {name: config[name] for name in MODEL_GROUPS})


MODEL_GROUPS = tuple(item.name for item in fields(ModelSettings))


def problems(config: Mapping[str, Any], schema: type) -> Iterator[str]:
    """Yield one message for each mismatch between a configuration and the dataclass ``schema``.

    Its own ``trust`` names the packages from which plug-ins may be loaded, so a schema with plug-ins is for the user's
    configurations only. A plug-in's annotations may contain types that cannot be checked, such as ``dict``: any value
    is accepted there.
    """
    trust = config.get("trust")
    packages = [name for name in trust if isinstance(name, str)] if isinstance(trust, list) else []
    yield from ConfigCheck(packages).problems(config, schema, "")


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
            yield from self.keys(value, type_hints(schema, include_extras=True), optional_keys(schema), name)
        elif plugins:
            yield from self._plugin(value, plugins[0], name)
        else:
            quotes = "; write it in quotes" if schema is str and isinstance(value, bool | int | float) else ""
            yield from (f"{message}{quotes}" for message in super().problems(value, schema, name))

    def show(self, value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(self.show, value))}]"
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
        if plugin.shared is not None:
            hints |= plugin.shared.shared_keys()
            optional |= optional_keys(plugin.shared)
        yield from replace(self, plugin=plugin).keys(settings, hints, optional, key)


def build(schema: type[Settings], value: Mapping[str, Any]) -> Settings:
    """Return the dataclass ``schema`` with the settings ``value``, which have been checked. Groups become dataclasses.

    ``plain`` returns ``value`` again, with the defaults of keys that it lacks.
    """
    hints = type_hints(schema)
    if issubclass(schema, PluginSettings):
        keys = schema.shared_keys()
        shared = {key: item for key, item in value.items() if key in keys}
        value = {**shared, "block": {key: item for key, item in value.items() if key not in shared}}
    return schema(**{key: _built(hints[key], item) for key, item in value.items()})


def _built(hint: Any, item: Any) -> Any:
    for kind in (hint, *get_args(hint)):  # of a union: its members
        if isinstance(item, Mapping) and get_origin(kind) is dict:
            return {key: _built(get_args(kind)[1], value) for key, value in item.items()}
        if isinstance(item, Mapping) and isinstance(kind, type) and is_dataclass(kind):
            return build(kind, item)
        if isinstance(item, list) and get_origin(kind) is tuple:
            return tuple(item)
    return item


def plain(settings: Any) -> Any:
    """Return settings as dictionaries, lists, numbers and text, which ``build`` reads."""
    if is_dataclass(settings):
        items = {
            item.name: getattr(settings, item.name)
            for item in fields(settings)
            if item.metadata.get("configured", True)
        }
        return plain({**items.pop("block"), **items} if isinstance(settings, PluginSettings) else items)
    if isinstance(settings, Mapping):
        return {key: plain(item) for key, item in settings.items()}
    return [plain(item) for item in settings] if isinstance(settings, list | tuple) else settings


def describe_setting(setting: Any) -> str:
    """Return a setting as text; a block as its class with its settings: ``CovarianceAttention(gate=value)``."""
    if isinstance(setting, Mapping) and "_target_" in setting:
        name = setting["_target_"].rpartition(".")[2]
        settings = ", ".join(f"{key}={describe_setting(value)}" for key, value in setting.items() if key != "_target_")
        return f"{name}({settings})" if settings else name
    return setting if isinstance(setting, str) else json.dumps(setting, default=str)
