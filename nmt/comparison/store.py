"""Measurements on disk, so that a comparison that was interrupted continues, and a changed setting counts as new."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nmt.files.checksum import fingerprint
from nmt.files.records import Records

FOLDER = "measurements"


class Measurements(Records):
    """Results by their keys. A key holds everything that the result depends on."""

    def __init__(self, report: Path) -> None:
        super().__init__(report / FOLDER)
        self.measured = 0

    def measure(self, key: Mapping[str, Any], action: Callable[[], Any]) -> Any:
        """Return the stored result of the key. If it is missing, call ``action`` and store what it returns."""
        name = f"{key['kind']}-{fingerprint(key)[:20]}.json"
        if (stored := self.load(name, key)) is None:
            self.save(name, key, action())
            self.measured += 1
            stored = self.load(name, key)
        return stored
