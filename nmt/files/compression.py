"""Compressed text, by the end of a file's name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMPRESSED = (".gz", ".xz", ".bz2")
"""Ends of names. Python reads and writes these compressions itself."""


def format_ending(name: str) -> str:
    """Return the ending of a file's name that says its format: in lower case, without that of a compression."""
    return Path(Path(name).stem if name.endswith(COMPRESSED) else name).suffix.lower()


def opener(path: str) -> Callable[..., Any]:
    """Return the function that opens the file for bytes or text: ``open``, or the function for the ending of its name.

    The modules are imported on use, because the first line of a translation waits for imports.
    """
    if path.endswith(".gz"):
        return gzip.open
    if path.endswith(".xz"):
        import lzma

        return lzma.open
    if path.endswith(".bz2"):
        import bz2

        return bz2.open
    return open


def is_damage(error: Exception) -> bool:
    """Return whether the error says that compressed data is damaged, and not that a file cannot be read."""
    if isinstance(error, OSError):
        return error.errno is None  # of gzip and bz2
    return isinstance(error, EOFError | zlib.error) or type(error).__name__ == "LZMAError"
