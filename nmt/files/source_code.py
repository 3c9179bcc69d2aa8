"""The source files that define the classes of a run, and whether they have changed since it was trained.

A configuration names classes by ``_target_``, but not what they do: a run trained with another version of an attention
has equal settings. So each run stores a SHA-256 of the files that define its targets.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from nmt.files.checksum import archive_fingerprint

Code = dict[str, dict[str, str]]
"""The fingerprint of each module, by the group of the configuration that needs it: ``{"attention": {"mine": …}}``."""

TOOLKIT = "nmt"
WITHOUT_CODE = ("logger",)  # groups that change no result
INSTALLED = ("site-packages", "dist-packages")


class _Source(NamedTuple):
    """The fingerprint of a module's file, and the names that it imports."""

    fingerprint: str
    imports: tuple[str, ...]


_looked_at: dict[str, tuple[ModuleSpec, _Source]] = {}
"""The sources of imported modules: this process runs their code, whatever happens to the files later."""


def code_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the version of the toolkit and the code of the targets of trusted packages and of nmt, as plain data.

    The code of a target is the module that defines it, those of its base classes, and all modules that these import,
    except for installed packages. A trusted package counts even if it is installed. Of the toolkit, only the modules of
    the classes count: its version stands for the others. The targets must have been imported.
    """
    trust = tuple(config.get("trust") or ())
    code = {}
    for group, block in config.items():
        if group in WITHOUT_CODE or not isinstance(block, Mapping):
            continue
        names = {name for target in _targets(block) for name in _defining_modules(target)}
        own = [name for name in sorted(names) if name.split(".")[0] != TOOLKIT]
        files = {name: file for name in names if name.startswith(f"{TOOLKIT}.") and (file := _file(name))}
        files |= _with_imports(own, lambda name, file: name.split(".")[0] in trust or not _is_installed(name, file))
        if files:
            code[group] = {name: _source(name, files[name]).fingerprint for name in sorted(files)}
    return {"toolkit": toolkit_version(), "code": code}


def changed_modules(stored: Any, *, groups: Iterable[str] | None = None, toolkit: bool = False) -> list[str]:
    """Return the modules in ``stored`` (from ``code_of``) whose files have changed or are missing.

    ``groups`` are those of the configuration that matter; None: all. Modules of the toolkit are compared with
    ``toolkit`` only, and only where its version is the same. Nothing is imported, so ``stored`` may be a stranger's.
    """
    try:
        version = stored["toolkit"]
        code = stored["code"]
        modules = {
            name: fingerprint
            for group in (code if groups is None else groups)
            for name, fingerprint in code.get(group, {}).items()
        }
    except (LookupError, TypeError, AttributeError):
        return []  # damaged
    own = toolkit and version == toolkit_version()
    return [
        name
        for name, fingerprint in sorted(modules.items())
        if (own or name.split(".")[0] != TOOLKIT) and _current(name) != fingerprint
    ]


def toolkit_version() -> str:
    """Return the version of the toolkit."""
    version: str = importlib.import_module(TOOLKIT).__version__  # a plain import would be circular
    return version


def _targets(block: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ``_target_`` of the block and of the blocks inside it."""
    for key, value in block.items():
        if key == "_target_":
            yield str(value)
        elif isinstance(value, Mapping):
            yield from _targets(value)


def _defining_modules(target: str) -> set[str]:
    """Return the modules of a class and of its base classes, or that of a function."""
    module, _, name = target.rpartition(".")
    plugin = getattr(sys.modules.get(module), name, None)
    classes = plugin.__mro__ if isinstance(plugin, type) else (plugin,)
    modules = (getattr(entry, "__module__", None) for entry in classes)
    return {defining for defining in modules if defining}


def _with_imports(names: Iterable[str], counts: Callable[[str, Path], bool]) -> dict[str, Path]:
    """Return the files of these modules and of all modules that they import, as far as ``counts`` accepts them."""
    files: dict[str, Path] = {}
    waiting = [*names]
    while waiting:
        parts = waiting.pop().split(".")
        for end in range(1, len(parts) + 1):  # importing a module runs its packages too
            name = ".".join(parts[:end])
            if name in files or (file := _file(name)) is None:  # None: also a folder without __init__.py
                continue
            if parts[0] == TOOLKIT or not counts(name, file):
                break
            files[name] = file
            waiting += _source(name, file).imports
    return files


def _imports(name: str, file: Path) -> Iterator[str]:
    """Yield the names that a module imports, also in functions. Some of them are not modules."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) + 1 - node.level] if node.level else []
            base += [node.module] if node.module else []
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _is_installed(name: str, file: Path) -> bool:
    """Return whether a file belongs to Python or to an installed package."""
    standard = {Path(sysconfig.get_path(key)).resolve() for key in ("stdlib", "platstdlib")}
    file = file.resolve()
    return name.split(".")[0] in sys.stdlib_module_names or any(
        folder in standard or folder.name in INSTALLED for folder in file.parents
    )


def _file(name: str) -> Path | None:
    """Return the source file of a module without importing it, or None."""
    top, *others = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for end in range(len(others)):
            if spec is None or spec.submodule_search_locations is None:
                return None
            spec = PathFinder.find_spec(".".join([top, *others[: end + 1]]), [*spec.submodule_search_locations])
    except (ImportError, ValueError, AttributeError):  # ValueError: a module without a spec, such as __main__
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _source(name: str, file: Path) -> _Source:
    """Return the fingerprint and the imports of a module's file. An imported module keeps those of its first read."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    known = _looked_at.get(name)
    if known is not None and known[0] is spec:
        return known[1]
    try:
        # The fingerprint of a file below 1 MB covers all its bytes.
        source = _Source(archive_fingerprint(file), tuple(_imports(name, file)))
    except OSError:
        return _Source("missing", ())
    if spec is not None:
        _looked_at[name] = (spec, source)
    return source


def _current(name: Any) -> str | None:
    file = _file(name) if isinstance(name, str) and name else None
    return None if file is None else _source(name, file).fingerprint
