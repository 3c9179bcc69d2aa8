"""Lexicons: files with a source word, a tab and its translation on each line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from nmt.data.text_files import read_lines
from nmt.data.words import count_words
from nmt.errors import UserError

QUOTED = re.compile(r'\s*"[^\t]+"\t"[^\t]+"\s*')
Entry = Callable[[str, str], tuple[str, str] | None]


def read_lexicon(path: str | Path) -> Mapping[str, str]:
    """Return the translation of each source word, which may have several words; see ``read_entries``."""
    lexicon: dict[str, str] = read_entries(path, _word, "one source word, a tab and its translation", dict)
    return lexicon


def _word(source: str, target: str) -> tuple[str, str] | None:
    return (source.strip(" "), target.strip(" ")) if count_words(source) == 1 and target.strip() else None


def read_entries(path: str | Path, entry: Entry, form: str, content: Callable[[dict[str, str]], Any]) -> Any:
    """Return the ``content`` of a file with a source, a tab and its target on each line.

    Blank lines count for nothing. ``entry`` returns the sides of a line, or None where they have not this ``form``. The
    file is read again only if it has changed: a server translates many short requests. Raises UserError, with the line,
    for a line of another form and for a source with two different targets.
    """
    changed = os.stat(path).st_mtime_ns if os.path.isfile(path) else None  # None for a pipe
    return _read(str(path), changed, entry, form, content)


@lru_cache(maxsize=2)
def _read(path: str, changed: int | None, entry: Entry, form: str, content: Callable[[dict[str, str]], Any]) -> Any:
    targets: dict[str, str] = {}
    separators = set(",;=|")  # of a file without tabs, where each line would be a term to keep
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        separators &= set(line) if "\t" not in line else set()
        if QUOTED.fullmatch(line):
            raise UserError(f"{path}:{number}: {line!r:.80}: quoted as in CSV; remove the quotation marks")
        source, _, target = line.partition("\t")
        sides = None if "\t" in target else entry(source, target)
        if sides is None:
            raise UserError(f"{path}:{number}: {line!r:.80}: write {form}")
        if targets.setdefault(*sides) != sides[1]:
            raise UserError(f"{path}:{number}: {line!r:.80}: has another target above; keep one of them")
    if separators and targets:
        fix = f"write {form}, and a tab behind a term without one"
        raise UserError(f"{path}: each line has {min(separators)!r} and no line has a tab; {fix}")
    return content(targets)
