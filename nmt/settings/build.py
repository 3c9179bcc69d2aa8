"""Checked settings as frozen dataclasses, and as the plain data that files and Hydra hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from nmt.settings.bounds import Size

Settings = TypeVar("Settings")
Block = Mapping[str, Any]
"""A class or function as ``_target_``, and its arguments."""
PYTHON_ONLY = {"configured": False}
"""Metadata of a field that configurations do not have."""


@dataclass(frozen=True, eq=False)  # compared and hashed by identity: typing hashes it in a union, and bounds is a dict
class Plugin:
    """Annotates a block: its ``_target_`` is looked up at a plug-in point, and its other keys are arguments of it."""

    point: str
    """The dotted name of its ``nmt.settings.plugins.PluginPoint``, resolved when the block is checked."""
    shared: type[PluginSettings] | None = None
    """The class of the settings that every block of this kind may have besides."""
    bounds: Mapping[str, Any] = field(default_factory=dict)
    """Bounded types of arguments whose own annotations have no bounds, as in torch's classes."""

    def resolve(self) -> Any:
        """Return the plug-in point."""
        module, _, name = self.point.rpartition(".")
        return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class PluginSettings:
    """A block, and settings that every block of its kind may have besides. Files hold both in one group."""

    block: Block

    @classmethod
    def shared_keys(cls) -> dict[str, Any]:
        """Return the annotation of each setting besides the block."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: hint for name, hint in hints.items() if name != "block"}


@dataclass(frozen=True)
class Embeddings:
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
        """Return those of a stored configuration, which has other groups too."""
        return build(ModelSettings, {item.name: config[item.name] for item in fields(ModelSettings)})


def build(schema: type[Settings], value: Mapping[str, Any]) -> Settings:
    """Return the dataclass ``schema`` with the settings ``value``, which have been checked. Groups become dataclasses.

    ``plain`` returns ``value`` again, with the defaults of keys that it lacks.
    """
    hints = get_type_hints(schema)
    if issubclass(schema, PluginSettings):
        keys = schema.shared_keys()
        shared = {key: item for key, item in value.items() if key in keys}
        value = {**shared, "block": {key: item for key, item in value.items() if key not in shared}}
    return schema(**{key: _built(hints[key], item) for key, item in value.items()})


def _built(hint: Any, item: Any) -> Any:
    kinds = (hint, *get_args(hint))  # of a union: its members
    if isinstance(item, Mapping):
        group = next((kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)), None)
        return item if group is None else build(group, item)
    if isinstance(item, list) and any(get_origin(kind) is tuple for kind in kinds):
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
    """Return a setting as text; a block as its class with its settings: ``CovarianceAttention(gated=true)``."""
    if isinstance(setting, Mapping) and "_target_" in setting:
        name = setting["_target_"].rpartition(".")[2]
        settings = ", ".join(f"{key}={describe_setting(value)}" for key, value in setting.items() if key != "_target_")
        return f"{name}({settings})" if settings else name
    return setting if isinstance(setting, str) else json.dumps(setting, default=str)
