"""``settings.json`` of a prepared folder: how its text was prepared, and a checksum of every file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nmt.data.invisible import KINDS
from nmt.data.sources import PARTS
from nmt.errors import UserError
from nmt.files.atomic import write_lines
from nmt.files.checksum import checksum, require_format
from nmt.files.reading import read_json
from nmt.settings.arguments import TypeCheck
from nmt.settings.build import plain
from nmt.text.pair_counts import PairCounts
from nmt.text.tokenizer import TokenizerSettings

TOKENIZER_FILES = ("source.model", "target.model")
SETTINGS_FILE = "settings.json"
FORMAT = 2
FIX = "prepare the text again with nmt-prepare"


def write_settings(folder: Path, settings: Mapping[str, Any], checksums: Mapping[str, int] | None = None) -> None:
    """Write ``settings.json`` with the checksums of the tokenizers and corpora in ``folder``, and its own.

    ``checksums`` are those that are already known.
    """
    names = [*TOKENIZER_FILES, *(f"{part}.arrow" for part in PARTS)]
    complete = {name: checksum(folder / name) for name in names if (folder / name).is_file()} | dict(checksums or {})
    stored = {"format": FORMAT, **settings, "checksums": complete}
    content = {**stored, "checksum": settings_checksum(stored)}
    write_lines(folder / SETTINGS_FILE, [json.dumps(content)])


def read_settings(folder: Path) -> dict[str, Any]:
    """Read ``settings.json``. Raises UserError unless ``write_settings`` could have written it."""
    try:
        settings: dict[str, Any] = read_json(folder / SETTINGS_FILE)
        require_format(settings.get("format"), FORMAT, name=folder / SETTINGS_FILE, fix=FIX)
        valid = settings.pop("checksum", None) == settings_checksum(settings) and _are_valid(settings)
    except (OSError, ValueError, AttributeError):  # AttributeError: not an object
        valid = False
    if valid:
        return settings
    raise UserError(f"data.folder={folder}: its {SETTINGS_FILE} is damaged; {FIX}")


def _are_valid(settings: Mapping[str, Any]) -> bool:
    tokenizer, checksums, pair_counts = (settings.get(key, {}) for key in ("tokenizer", "checksums", "accounts"))
    return (
        isinstance(settings.get("lowercase"), bool)
        and settings.get("remove_invisible") in KINDS
        and isinstance(tokenizer, dict)
        and not any(TypeCheck().group(tokenizer, TokenizerSettings, "tokenizer"))
        and not any("${" in str(value) for value in tokenizer.values())  # interpolated when it is saved in config.yaml
        and _has_types(checksums, {})
        and isinstance(pair_counts, dict)
        and all(_has_types(counts, plain(PairCounts())) for counts in pair_counts.values())
    )


def _has_types(value: Any, example: Any) -> bool:
    """Return whether plain data has the keys and types of an example. ``{}`` stands for numbers, ``[]`` for texts."""
    if example == {}:
        return isinstance(value, dict) and all(type(number) is int for number in value.values())
    if example == []:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    if isinstance(example, dict):
        fits = isinstance(value, dict) and value.keys() == example.keys()
        return fits and all(_has_types(value[key], example[key]) for key in example)
    return type(value) is type(example)


def settings_checksum(settings: Mapping[str, Any]) -> int:
    """Return the CRC-32 of the settings, which does not depend on the order of their keys."""
    return checksum(json.dumps(settings, sort_keys=True).encode())


def missing_parts(folder: Path, needed: Iterable[str]) -> list[str]:
    """Return an error for each ``needed`` part that ``prepare`` did not write into ``folder``."""
    if not (folder / SETTINGS_FILE).is_file():
        return [f"data.folder={folder}: has no {SETTINGS_FILE}; name a folder that nmt-prepare wrote"]
    checksums = read_settings(folder)["checksums"]
    return [
        f"data.folder={folder}: has no {part}.arrow; prepare the text again and add "
        f"data.{part}.src=FILE data.{part}.tgt=FILE"
        for part in needed
        if not part_files(part, checksums)
    ]


def text_checksum(folder: Path) -> int | None:
    """Return the checksum of the prepared text in ``folder``, or None if it has no ``settings.json``."""
    return settings_checksum(read_settings(folder)) if (folder / SETTINGS_FILE).is_file() else None


def part_files(part: str, checksums: Mapping[str, int]) -> list[str]:
    """Return the names of the corpus files of a part: PART.arrow or its shards, in order."""
    return sorted(name for name in checksums if re.fullmatch(rf"{part}(-[0-9]{{5,}})?\.arrow", name))
