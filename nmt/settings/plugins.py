"""Classes and functions that a configuration names by ``_target_``, such as ``nmt.attention.MemoryAttention``.

A configuration may come with a stranger's model folder, and importing a module runs its code. So each place in the
configuration declares which packages it accepts without trust. All others need ``trust=[package]``.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

from nmt.errors import UserError
from nmt.settings.arguments import annotations_of, parameters_of, text_list, type_hints

Block = Mapping[str, Any]
"""A class or function as ``_target_``, and its arguments."""

trusted_packages: set[str] = set()
"""Packages of the user from which this process has loaded a target. Errors in their code are the user's to fix."""


@dataclass(frozen=True)
class PluginPoint:
    """A place in the configuration where ``_target_`` names a class or a function."""

    base: type[Any] | None
    """The class that a target must inherit from; None accepts any class or function."""
    packages: tuple[str, ...]
    """Packages and modules that need no trust."""
    supplied: frozenset[str] = frozenset()
    """Constructor arguments that the builder supplies, and that a configuration therefore cannot set."""
    defaults: frozenset[str] = frozenset()
    """Constructor arguments that the builder supplies unless a configuration sets them."""


@dataclass(frozen=True, kw_only=True)
class PluginSettings:
    """A block, and settings that every block of its kind may have besides. Files hold both in one group."""

    block: Block

    @classmethod
    def shared_keys(cls) -> dict[str, Any]:
        """Return the annotation of each setting besides the block."""
        hints = type_hints(cls, include_extras=True)
        return {name: hint for name, hint in hints.items() if name != "block"}


@dataclass(frozen=True, eq=False)  # compared and hashed by identity: typing hashes it in a union, and bounds is a dict
class Plugin:
    """Annotates a block: its ``_target_`` is looked up at a plug-in point, and its other keys are arguments of it."""

    point: str
    """The dotted name of its ``PluginPoint``, resolved when the block is checked."""
    shared: type[PluginSettings] | None = None
    """The class of the settings that every block of this kind may have besides."""
    bounds: Mapping[str, Any] = field(default_factory=dict)
    """Bounded types of arguments whose own annotations have no bounds, as in torch's classes."""

    def resolve(self) -> Any:
        """Return the plug-in point."""
        module, _, name = self.point.rpartition(".")
        return getattr(importlib.import_module(module), name)


def locate(target: str, point: PluginPoint, *, trust: Sequence[str] = ()) -> Callable[..., Any]:
    """Return the class or function that ``target`` names.

    Raises UserError if its package is not trusted, if it does not exist, if it is defined in another package, if it
    does not inherit from ``point.base``, or if Python does not know its arguments.
    """
    accepted = (*point.packages, *text_list(trust, "trust", what="packages"))
    module, _, name = target.rpartition(".")
    package = target.partition(".")[0]
    if not (package and module and name):
        raise UserError(f"_target_={target}: not a name; write package.module.Name")
    if not _within(module, accepted):
        ours = {accepted.partition(".")[0] for accepted in point.packages}  # trusting all of torch would not help
        raise UserError(
            f"_target_={target}: not allowed here; name something of {' or '.join(point.packages)}"
            if package in ("nmt", *ours)
            else f"_target_={target}: package {package!r} is not trusted; if you trust it, add trust=[{package}]"
        )
    if not _within(module, point.packages):
        trusted_packages.add(package)
    try:
        plugin = getattr(importlib.import_module(module), name)
    except (ImportError, ValueError, AttributeError) as error:
        raise UserError(f"_target_={target}: not found ({error}); check the name and that it is installed") from None
    if not callable(plugin):
        raise UserError(f"_target_={target}: not a class or function; name one")
    # Names that a module only imports are refused: nmt.files.checkpoint.ZipFile would give access to classes outside
    # nmt.
    if not _within(getattr(plugin, "__module__", None) or "", accepted):
        raise UserError(f"_target_={target}: defined in {plugin.__module__}; name it there, and trust that package")
    if point.base is not None and not (isinstance(plugin, type) and issubclass(plugin, point.base)):
        raise UserError(f"_target_={target}: must be a subclass of {point.base.__module__}.{point.base.__name__}")
    try:
        inspect.signature(plugin)
    except ValueError:  # a TypedDict, some classes written in C
        raise UserError(f"_target_={target}: its arguments are unknown; name another class or function") from None
    return plugin  # type: ignore[no-any-return]


def locate_all(block: Block, point: PluginPoint, *, trust: Sequence[str]) -> Callable[..., Any]:
    """Return the target of the block. Raises UserError if ``locate`` refuses it, or that of a block inside it."""
    target = locate(block["_target_"], point, trust=trust)
    for key, value in block.items():
        if _is_block(value):
            locate_all(value, _point_inside(target, key, point), trust=trust)
    return target


def _point_inside(target: Callable[..., Any], key: str, point: PluginPoint) -> PluginPoint:
    """Return the plug-in point of the block ``key`` of a target: the one in its annotation, or the target's."""
    notes = get_args(annotations_of(target).get(key))
    return next((note.resolve() for note in notes if isinstance(note, Plugin)), point)


def construct(block: Block, point: PluginPoint, *, trust: Sequence[str] = (), **supplied: Any) -> Any:
    """Call the block's ``_target_`` with the block's other keys and with those ``supplied`` values that it accepts.

    A block inside the block becomes a function that constructs it later, because the outer class decides on its sizes.
    A key of the block overrides a supplied value. Raises UserError before anything is called if one of the blocks has a
    target that ``locate`` refuses.
    """
    target = locate_all(block, point, trust=trust)
    accepted = parameters_of(target)
    settings = {
        key: partial(construct, value, _point_inside(target, key, point), trust=trust, **supplied)
        if _is_block(value)
        else value
        for key, value in block.items()
        if key != "_target_"
    }
    wanted = {key: value for key, value in supplied.items() if accepted.takes_any or key in accepted.named}
    return target(**{**wanted, **settings})


def setting(block: Mapping[str, Any], key: str, point: PluginPoint, *, trust: Sequence[str]) -> Any:
    """Return the block's value of ``key``, or the default of its class; None where the class has no such key."""
    if key in block:
        return block[key]
    parameter = parameters_of(locate(block["_target_"], point, trust=trust)).named.get(key)
    return None if parameter is None or parameter.default is parameter.empty else parameter.default


def _within(module: str, packages: Sequence[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) and "_target_" in value
