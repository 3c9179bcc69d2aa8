"""Our version and the code of trusted packages that a run uses, and whether they have changed since."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.files.checksum import fingerprint
from nmt.version import __version__


def code_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return our version, and a hash of each module of a trusted package that a ``_target_`` names.

    The settings do not tell them: a run trained with another version of an attention has equal settings. The targets
    must have been imported.
    """
    trusted = tuple(f"{package}." for package in config.get("trust") or ())
    names = {target.rpartition(".")[0] for target in _targets(config) if target.startswith(trusted)}
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in names}
    return {"nmt": __version__} | {name: fingerprint(Path(file).read_bytes()) for name, file in files.items() if file}


def changed_modules(stored: Any, config: Mapping[str, Any]) -> list[str]:
    """Return the modules whose code differs from ``stored``, the result of ``code_of`` when the run was started."""
    if not isinstance(stored, Mapping):
        return []  # damaged
    return sorted(name for name, code in code_of(config).items() if stored.get(name, code) != code)


def _targets(block: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ``_target_`` of the blocks inside the block."""
    for key, value in block.items():
        if key == "_target_":
            yield str(value)
        elif isinstance(value, Mapping):
            yield from _targets(value)
