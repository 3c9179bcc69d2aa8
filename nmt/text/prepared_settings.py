"""``settings.json`` of a prepared folder: how its text was prepared, and a checksum of every file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nmt.data.invisible import Invisible
from nmt.data.sources import PARTS
from nmt.errors import UserError
from nmt.files.atomic import write_lines
from nmt.files.checksum import checksum, require_format
from nmt.files.reading import read_json
from nmt.settings.build import build, plain, problems
from nmt.text.pair_counts import PairCounts
from nmt.text.tokenizer import TokenizerSettings

TOKENIZER_FILES = ("source.model", "target.model")
SETTINGS_FILE = "settings.json"
FORMAT = 2
FIX = "prepare the text again with nmt-prepare"


@dataclass(frozen=True, kw_only=True)
class PreparedSettings:
    """The content of ``settings.json``."""

    format: int = FORMAT
    lowercase: bool
    remove_invisible: Invisible | None
    tokenizer: TokenizerSettings
    pair_counts: dict[str, PairCounts]
    """The counts of each part."""
    checksums: dict[str, int] = field(default_factory=dict)
    """The CRC-32 of each tokenizer and corpus file."""
    checksum: int = 0
    """Changes with all other entries, so with the text, the tokenizers and the settings."""


def write_settings(folder: Path, settings: PreparedSettings) -> None:
    """Write ``settings.json`` with the checksums of the tokenizers and corpora in ``folder``, and its own."""
    names = [*TOKENIZER_FILES, *(f"{part}.arrow" for part in PARTS)]
    checksums = {name: checksum(folder / name) for name in names if (folder / name).is_file()}
    content = plain(replace(settings, checksums=checksums))
    del content["checksum"]
    write_lines(folder / SETTINGS_FILE, [json.dumps({**content, "checksum": settings_checksum(content)})])


def read_settings(folder: Path) -> PreparedSettings:
    """Read ``settings.json``. Raises UserError unless ``write_settings`` could have written it."""
    try:
        stored: dict[str, Any] = read_json(folder / SETTINGS_FILE)
        require_format(stored.get("format"), FORMAT, name=folder / SETTINGS_FILE, fix=FIX)
        content = {key: value for key, value in stored.items() if key != "checksum"}
        valid = stored.get("checksum") == settings_checksum(content) and not any(problems(stored, PreparedSettings, ""))
        # An interpolation in a name of a file would be replaced when it is saved in config.yaml.
        if valid and not any("${" in str(value) for value in stored["tokenizer"].values()):
            return build(PreparedSettings, stored)
    except (OSError, ValueError, AttributeError):  # AttributeError: not an object
        pass
    raise UserError(f"data.folder={folder}: its {SETTINGS_FILE} is damaged; {FIX}")


def settings_checksum(settings: Mapping[str, Any]) -> int:
    """Return the CRC-32 of the settings, which does not depend on the order of their keys."""
    return checksum(json.dumps(settings, sort_keys=True).encode())


def missing_parts(folder: Path, needed: Iterable[str]) -> list[str]:
    """Return an error for each ``needed`` part that ``prepare`` did not write into ``folder``."""
    if not (folder / SETTINGS_FILE).is_file():
        return [f"data.folder={folder}: has no {SETTINGS_FILE}; name a folder that nmt-prepare wrote"]
    checksums = read_settings(folder).checksums
    return [
        f"data.folder={folder}: has no {part}.arrow; prepare the text again and add "
        f"data.{part}.src=FILE data.{part}.tgt=FILE"
        for part in needed
        if f"{part}.arrow" not in checksums
    ]


def text_checksum(folder: Path) -> int | None:
    """Return the checksum of the prepared text in ``folder``, or None if it has no ``settings.json``."""
    return read_settings(folder).checksum if (folder / SETTINGS_FILE).is_file() else None
