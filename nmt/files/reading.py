"""Read compressed files, and those of folders that may come from a stranger: regular, of bounded size, plain data.

Functions raise OSError or ValueError; the caller knows what the file is, and turns both into a UserError.
"""

from __future__ import annotations

import errno
import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile

# Far above what the toolkit writes: a configuration has 3 kB, 4 levels and 100 values.
MAX_BYTES = 1 << 18
MAX_DEPTH = 32
MAX_VALUES = 50_000
MAX_INTEGER = 1 << 64
COMPRESSED = (".gz", ".xz", ".bz2")
"""Ends of names. Python reads and writes these compressions itself."""
FOLDER_ATTRIBUTE = 0x10  # of MS-DOS, in the list of members


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading. Raises OSError unless it is a regular file: reading a named pipe would wait forever."""
    if Path(path).exists() and not Path(path).is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(path, "rb")


def require_regular(path: Path) -> Path:
    """Return ``path``, for a library that opens it. Raises OSError unless it is a regular file that can be read."""
    open_regular(path).close()
    return path


def read_text(path: Path) -> str:
    """Return the UTF-8 text of a small file. Raises ValueError if it has more than ``MAX_BYTES``, or is not UTF-8."""
    with open_regular(path) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES:,} bytes")
    return data.decode("utf-8")


def read_json(path: Path) -> Any:
    """Return the content of a small JSON file. Raises ValueError if it is damaged or nested too deeply."""
    try:
        return require_plain(json.loads(read_text(path)))
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None


def require_plain(value: Any) -> Any:
    """Return ``value`` if it is nested plain data, as JSON and YAML hold it; raise ValueError otherwise.

    The limits also refuse values that contain themselves, and values that contain another one many times: to walk or
    print them would take forever.
    """
    pending = [(value, 0)]
    count = 0
    while pending:
        item, depth = pending.pop()
        count += 1
        if count > MAX_VALUES or depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_VALUES:,} values or {MAX_DEPTH} levels")
        if isinstance(item, Mapping):
            pending.extend((part, depth + 1) for pair in item.items() for part in pair)
        elif isinstance(item, list):
            pending.extend((part, depth + 1) for part in item)
        elif isinstance(item, int) and abs(item) >= MAX_INTEGER:
            raise ValueError("a number is larger than 64 bits")
        elif item is not None and not isinstance(item, int | float | str):
            raise ValueError(f"a value is of type {type(item).__name__}")
    return value


def check_members(archive: ZipFile, path: Path) -> None:
    """Raise BadZipFile unless the members of an archive are plain files that fit into the file ``path``.

    torch reads a member whose attributes mark it as a folder as zeros, and ZipFile.testzip does not notice.
    """
    members = archive.infolist()
    compressed = any(member.compress_type != ZIP_STORED for member in members)
    if compressed or sum(member.file_size for member in members) > path.stat().st_size:
        raise BadZipFile("its members are compressed or overlap")
    if any(member.is_dir() or member.external_attr & FOLDER_ATTRIBUTE for member in members):
        raise BadZipFile("it has folders")


def format_ending(name: str) -> str:
    """Return the ending of a file's name that says its format: in lower case, without that of a compression."""
    return Path(Path(name).stem if name.endswith(COMPRESSED) else name).suffix.lower()


def opener(path: str) -> Callable[..., Any]:
    """Return the function that opens the file for bytes or text: ``open``, or the function for the ending of its name.

    The modules are imported on use, because the first line of a translation waits for imports.
    """
    if path.endswith(".gz"):
        import gzip

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
