"""Measurements on disk, so that a comparison that was interrupted continues, and a changed setting counts as new."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nmt.files.atomic import make_folder, write_lines
from nmt.files.checksum import fingerprint
from nmt.files.reading import open_regular

FOLDER = "measurements"


class Measurements:
    """Results by their keys: one JSON file for each. A key holds everything that the result depends on."""

    def __init__(self, report: Path) -> None:
        self.folder = report / FOLDER
        self.measured = 0

    def get(self, key: Mapping[str, Any]) -> Any | None:
        """Return the stored result of the key, or None if it is missing or damaged."""
        try:
            with open_regular(self._file(key)) as file:
                stored = json.load(file)
            return stored["result"] if stored["key"] == _plain(key) else None
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return None

    def measure(self, key: Mapping[str, Any], action: Callable[[], Any]) -> Any:
        """Return the stored result of the key. If it is missing, call ``action`` and store what it returns."""
        stored = self.get(key)
        if stored is not None:
            return stored
        result = action()
        make_folder(self.folder)
        write_lines(self._file(key), [json.dumps({"key": _plain(key), "result": result})])
        self.measured += 1
        return _plain(result)

    def _file(self, key: Mapping[str, Any]) -> Path:
        return self.folder / f"{key['kind']}-{fingerprint(_plain(key))[:20]}.json"


def _plain(value: Any) -> Any:
    """Return the value as JSON reads it back: tuples become lists."""
    return json.loads(json.dumps(value))
