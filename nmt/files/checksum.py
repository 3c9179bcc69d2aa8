"""Checksums, fingerprints and format versions of files and code.

``checksum`` is a CRC-32 and finds damage, as the checksums inside zip archives do. ``fingerprint`` is a SHA-256 and
tells versions apart. Random seeds and sets of distinct sentences use other hash functions.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nmt.errors import UserError
from nmt.files.reading import open_regular, read_json
from nmt.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_BYTES = 1 << 17  # that a cache holds
END_BYTES = 1 << 20  # of an archive
_sources: dict[str, tuple[Any, bytes]] = {}
"""The ``__spec__`` of modules and their source, by file."""


def checksum(content: Path | bytes) -> int:
    """Return the CRC-32 of a file or of bytes. 80 MB take 20 ms, a third of the time of SHA-256."""
    if isinstance(content, bytes):
        return zlib.crc32(content)
    total = 0
    with open_regular(content) as stream:
        while block := stream.read(BLOCK_BYTES):
            total = zlib.crc32(block, total)
    return total


def verify_file(file: Path, checksums: Mapping[str, int], *, kind: str, fix: str) -> Path:
    """Return ``file`` if its checksum equals the one recorded under its name; raise UserError otherwise.

    The message says what the file should be (``kind``) and what to do about a damaged one (``fix``).
    """
    try:
        problem = None if checksum(file) == checksums.get(file.name) else "wrong checksum"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem is not None:
        raise UserError(f"{file}: cannot be read as {kind} ({problem}); {fix}")
    return file


def fingerprint(content: Any, tensors: Mapping[str, Tensor] | None = None) -> str:
    """Return the SHA-256, in hexadecimal, of bytes or plain data, and of each tensor's name, type, shape and bytes."""
    import hashlib  # loads OpenSSL, which deployments do not need

    total = hashlib.sha256(content if isinstance(content, bytes) else json.dumps(content, sort_keys=True).encode())
    for name, tensor in sorted((tensors or {}).items()):
        import torch

        tensor = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return total.hexdigest()


def archive_fingerprint(archive: Path) -> str:
    """Return the size of a zip archive such as ``model.pt``, and the fingerprint of its last megabyte.

    The end of a zip file lists the checksum of every member, so this text changes with the content.
    """
    with open_regular(archive) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - END_BYTES))
        return f"{size}-{fingerprint(stream.read())}"


def require_format(stored: object, supported: int, *, name: str | Path, fix: str) -> None:
    """Raise UserError unless ``stored``, the format version in ``name``, equals ``supported``.

    Files store the version as a number, as text or as bytes. ``fix`` says what to do about an older or missing one.
    """
    text = stored.decode(errors="replace") if isinstance(stored, bytes) else str(stored)
    if not text.isdecimal():
        raise UserError(f"{name}: no valid format version; {fix}")
    if int(text) != supported:
        advice = "update the toolkit" if int(text) > supported else fix
        raise UserError(f"{name}: format {int(text)}, but this version reads format {supported}; {advice}")


def code_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return our version, and a hash of each module of a trusted package that a ``_target_`` names.

    The settings do not tell them: a run trained with another version of an attention has equal settings. The targets
    must have been imported.
    """
    trusted = tuple(f"{package}." for package in config.get("trust") or ())
    names = {target.rpartition(".")[0] for target in _targets(config) if target.startswith(trusted)}
    sources = {name: _source(sys.modules.get(name)) for name in names}
    return {"nmt": __version__} | {name: fingerprint(source) for name, source in sources.items() if source is not None}


def code_files(config: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the imported files of the trusted packages that a ``_target_`` names, by paths such as mine/mean.py."""
    targets = [*_targets(config)]
    used = [f"{package}." for package in config["trust"] if any(name.startswith(f"{package}.") for name in targets)]
    files: dict[str, bytes] = {}
    for name, module in [*sys.modules.items()]:
        is_python = str(getattr(module, "__file__", None)).endswith(".py")
        if is_python and f"{name}.".startswith(tuple(used)) and (source := _source(module)) is not None:
            end = "/__init__.py" if hasattr(module, "__path__") else ".py"
            files[name.replace(".", "/") + end] = source
    return files


def _source(module: ModuleType | None) -> bytes | None:
    """Return the file of an imported module, as it was when this was called first; None for a module without a file.

    A process goes on with the code that it has imported, although the file may be edited while a sweep trains. When a
    module is loaded again, it gets another ``__spec__``.
    """
    file, spec = (getattr(module, name, None) for name in ("__file__", "__spec__"))
    if file is None:
        return None
    if file not in _sources or _sources[file][0] is not spec:
        _sources[file] = spec, Path(file).read_bytes()
    return _sources[file][1]


def stored_code(file: Path) -> dict[str, str]:
    """Return what ``code_of`` returned when the run was started, from its file; nothing if that is lost or damaged."""
    try:
        stored = read_json(file)
    except (OSError, ValueError):
        stored = None
    return stored if isinstance(stored, dict) else {}


def changed_names(stored: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of ``now`` that had another value in ``stored``, when the run was started."""
    return sorted(name for name, value in now.items() if stored.get(name, value) != value)


def _targets(block: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ``_target_`` of the blocks inside the block."""
    for key, value in block.items():
        if key == "_target_":
            yield str(value)
        elif isinstance(value, Mapping):
            yield from _targets(value)
