"""Glossaries: source terms, the target terms that a translation must use for them, and their matches in a line."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from nmt.data.text_files import read_lines
from nmt.errors import JOINERS, UserError, print_message
from nmt.settings.arguments import brief
from nmt.text.writing import UNSPACED

STEM = "*"  # at the end of a term: any letters may follow
SENTENCE_ENDS = frozenset(".!?:…;։")  # also of Greek and Armenian
TURKISH = {"I": "ı", "İ": "i"}  # small letters of Turkish and Azerbaijani
APOSTROPHES = "'’ʼ׳"
ACCENTS = "՛՜՞"  # of Armenian, in the last syllable of a word: the emphasis, exclamation and question marks
# Marks that people write in different ways; U+0640 makes an Arabic word longer.
FOLDED = str.maketrans(
    {"״": '"', **dict.fromkeys(APOSTROPHES, "'"), **dict.fromkeys("‐‑", "-"), **dict.fromkeys(f"ـ{ACCENTS}")}
)


class Match(NamedTuple):
    """A term in a line: its characters from ``start`` to ``stop``, and the text that the translation must contain."""

    start: int
    stop: int
    target: str
    capital: bool
    """Whether the line has a sentence-initial capital where the glossary has a small letter."""


class Glossary:
    """The target of each source term. A term that ends in ``*`` also matches if more letters follow."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        """Index the targets of source terms; an empty target keeps the source as it is."""
        self.targets = targets
        self._by_tokens = {_key(term): target for term, target in targets.items()}
        self._longest = max((len(key.split()) for key in self._by_tokens), default=0)

    def matches(self, line: str) -> Iterator[Match]:
        """Yield the terms of a line from left to right. If several terms start at one word, the longest one matches."""
        spans = token_spans(line)
        words = [_folded(line[start:stop]) for start, stop in spans]
        begins = True  # a sentence, whose first token may be a mark
        row = 0
        while row < len(words):
            following = words[row : row + self._longest]
            length, target = self._first(following)
            capital = False
            letter = words[row][0]
            for small in (letter.lower(), TURKISH.get(letter)) if begins else ():
                if small and not length:
                    length, target = self._first([small + words[row][1:], *following[1:]])
                    capital = length > 0 and target != ""
            if length:
                start, _ = spans[row]
                _, stop = spans[row + length - 1]
                yield Match(start, stop, target or unicodedata.normalize("NFC", line[start:stop]), capital)
            row += max(length, 1)
            last = words[row - 1]
            begins = last in SENTENCE_ENDS or (begins and not any(map(str.isalnum, last)))

    def _first(self, words: list[str]) -> tuple[int, str]:
        """Return the number of tokens and the target of the longest term that ``words`` start with; 0 without one."""
        for length in range(len(words), 0, -1):
            key = " ".join(words[:length])
            if key in self._by_tokens:
                return length, self._by_tokens[key]
            for cut in range(len(words[length - 1])):
                if (stem := key[: len(key) - cut] + STEM) in self._by_tokens:
                    return length, self._by_tokens[stem]
        return 0, ""


def _key(term: str) -> str:
    """Return the tokens of a term, as ``_folded`` writes them, with single spaces. A star at its end stays."""
    term = unicodedata.normalize("NFC", term.strip())
    stem = term.removesuffix(STEM) or term
    return " ".join(_folded(stem[start:stop]) for start, stop in token_spans(stem)) + term[len(stem) :]


def _folded(token: str) -> str:
    """Return a token with composed characters and one kind of apostrophes, without what only changes its look."""
    return unicodedata.normalize("NFC", token).translate(FOLDED) or token


def token_spans(line: str) -> list[tuple[int, int]]:
    """Return the span of each token: a word, a mark, or a character of a script without spaces."""
    spans: list[tuple[int, int]] = []
    inside = False
    for at, character in enumerate(line):
        is_letter = character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
        is_letter |= character in JOINERS and line[at + 1 : at + 2].isalnum()  # joiners within a word
        is_letter |= inside and character in ACCENTS
        joins = is_letter and character not in APOSTROPHES and not UNSPACED.match(character)
        if joins and inside:
            spans[-1] = (spans[-1][0], at + 1)
        elif not character.isspace():
            spans.append((at, at + 1))
        inside = joins
    return spans


def read_glossary(path: str | Path) -> Glossary:
    """Return the glossary in a file: on each line a source term, a tab and its target. A term without a tab is kept.

    The file is read again only if it has changed: a server translates many short requests. Raises UserError, with the
    line, for a line of another form and for a term with two different targets.
    """
    return _read(str(path), os.stat(path).st_mtime_ns if os.path.isfile(path) else None)  # None for a pipe


@lru_cache(maxsize=2)
def _read(path: str, changed: int | None) -> Glossary:
    targets: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        source, _, target = line.partition("\t")
        if line.strip():
            _add(targets, source, target, f"{path}:{number}: {line!r:.80}")
    return Glossary(targets)


def _add(targets: dict[str, str], source: str, target: str, where: str) -> None:
    """Add a term, as its tokens with single spaces. Raises UserError if it has nothing to match, or another target."""
    term = _key(source)
    if not term.removesuffix(STEM) or "\t" in target:
        raise UserError(f"{where}: write a source term, a tab and its target")
    target = " ".join(target.split())
    if targets.setdefault(term, target) != target:
        raise UserError(f"{where}: has another target above; keep one of them")


def warn_if_unused(groups: Iterable[list[str]], path: str | None) -> Iterator[list[str]]:
    """Yield groups of lines, and warn at their end if no line has a term of the glossary in ``path``."""
    glossary = None if path is None else read_glossary(path)
    used = glossary is None
    for lines in groups:
        used = used or (glossary is not None and any(any(glossary.matches(line)) for line in lines))
        yield lines
    if not used:
        fix = "check its languages and capitals, and write term* for a term with endings"
        print_message(f"warning: search.glossary={path}: no term occurs in the text; {fix}")


def combined_glossary(path: str | None, terms: Mapping[str, str] | None) -> Glossary | None:
    """Return the glossary of a file and of ``terms``, which override the file; None without both.

    Raises UserError for a term that is not a text or has no letter, and for a wrong file.
    """
    glossary = None if path is None else read_glossary(path)
    if not terms:
        return glossary
    targets: dict[str, str] = {}
    for term, target in terms.items():
        if not isinstance(term, str) or not isinstance(target, str):
            raise UserError(f"terms: {brief((term, target))}: not two texts; change it")
        _add(targets, term, target, f"terms: {brief((term, target))}")
    return Glossary(targets if glossary is None else {**glossary.targets, **targets})
