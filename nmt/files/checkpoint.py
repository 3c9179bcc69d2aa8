"""Dictionaries of tensors and plain data in a zip archive, as torch stores them.

Functions import torch when they need it, because ``nmt-translate`` must run without it.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from nmt.errors import UserError, reason
from nmt.files.atomic import replace_file
from nmt.files.reading import check_members, require_regular


def write_checkpoint(path: Path, checkpoint: Mapping[str, Any]) -> None:
    """Write the dictionary with ``torch.save``, atomically and durably. Equal contents give equal bytes."""
    import torch

    with replace_file(path, durable=True) as file:
        try:
            torch.save(dict(checkpoint), file)
        except RuntimeError as error:  # torch raises this when the disk is full
            raise OSError(errno.ENOSPC, str(error)) from None


def read_checkpoint(path: Path, *, keys: Mapping[str, type] | None = None) -> dict[str, Any]:
    """Read a dictionary that ``write_checkpoint`` wrote, with its tensors on the CPU.

    Only plain data and tensors are loaded, so a file from an unknown source cannot run code. Raises UserError if the
    file is damaged, is not a checkpoint, or lacks one of ``keys`` with its type.
    """
    import torch

    try:
        with ZipFile(require_regular(path)) as archive:  # torch verifies no checksums; this takes 25 ms for 100 MB
            check_members(archive, path)
            if damaged := archive.testzip():
                raise BadZipFile(f"{damaged}: wrong checksum")
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle raises IndexError, AttributeError, AssertionError, …
        problem = f"cannot be read as a model ({reason(error)})"
        raise UserError(f"{path}: {problem}; it may be truncated or not a model") from None
    if not isinstance(checkpoint, dict):
        raise UserError(f"{path}: not a model of this toolkit; name a folder that nmt-train wrote")
    if wrong := [key for key, kind in (keys or {}).items() if not isinstance(checkpoint.get(key), kind)]:
        raise UserError(f"{path}: has no valid {wrong[0]!r}; it is not a checkpoint that nmt-train wrote")
    return checkpoint


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the metadata of a safetensors file, and its tensors by name. Raises SafetensorError or OSError."""
    from safetensors import safe_open

    with safe_open(require_regular(path), framework="pt") as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
