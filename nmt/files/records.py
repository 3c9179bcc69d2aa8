"""Stored results of finished work, so that a killed command can continue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmt.files.atomic import make_folder, write_bytes
from nmt.files.checksum import checksum
from nmt.files.reading import open_regular


class Records:
    """Plain data in the files of ``folder``, each of two lines: a header with key and checksum, and the data.

    A key holds everything that the data depend on. A record of another key, or a damaged one, counts as missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, name: str, key: Any, record: Any, *, durable: bool = False) -> None:
        """Write a record atomically. Raises UserError if that fails, for example on a full disk."""
        content = json.dumps(record).encode()
        header = json.dumps({"key": key, "checksum": checksum(content)}).encode()
        make_folder(self.folder)
        write_bytes(self.folder / name, header + b"\n" + content, durable=durable)

    def load(self, name: str, key: Any) -> Any:
        """Return a record, or None if it is missing. Tuples were stored as lists."""
        try:
            with open_regular(self.folder / name) as file:
                header = json.loads(file.readline())
                content = file.read()
            expected = {"key": json.loads(json.dumps(key)), "checksum": checksum(content)}
            return json.loads(content) if header == expected else None
        except (OSError, ValueError, RecursionError):
            return None
