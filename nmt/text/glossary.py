"""Glossaries: source terms, the target terms that a translation must use for them, and their matches in a line."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from nmt.data.lexicon import read_entries
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
        self._by_tokens: dict[str, str] = {}
        self._longest = 0
        for term, target in targets.items():
            self._by_tokens[key := _key(term)] = target
            self._longest = max(self._longest, len(key.split()))

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
    """Return the glossary in a file; see ``read_entries``. A term without a target is kept."""
    glossary: Glossary = read_entries(path, _term, "a source term, a tab and its target", Glossary)
    return glossary


def warn_if_unused(groups: Iterable[list[str]], path: str, text: Callable[[str], str]) -> Iterator[list[str]]:
    """Yield groups of lines, and warn at their end if no line has a term of the glossary in ``path``.

    ``text`` returns the text of a line, without markup.
    """
    glossary = read_glossary(path)
    sides = {
        ", but its targets do; exchange its columns": glossary.targets.values(),
        ", but some do with other capitals; write them as the text does": glossary.targets,
    }
    others = {problem: Glossary({term.lower(): "" for term in terms}) for problem, terms in sides.items()}
    counts = Counter({"; check its languages, and write term* for a term with endings": 0})
    used, blank = False, True
    for lines in groups:
        for line in () if used else map(text, lines):
            blank = blank and not line.strip()
            used = used or any(glossary.matches(line))
            counts.update(key for key, other in others.items() if not used and any(other.matches(line.lower())))
        yield lines
    if not used and not blank:
        [(problem, _)] = counts.most_common(1)
        print_message(f"warning: search.glossary={path}: no term occurs in the text{problem}")


def combined_glossary(path: str | None, terms: Mapping[str, str] | None) -> Glossary | None:
    """Return the glossary of a file and of ``terms``, which override the file; None without both.

    Raises UserError for a term that is not a text or has no letter, and for a wrong file.
    """
    glossary = None if path is None else read_glossary(path)
    if not terms:
        return glossary
    targets: dict[str, str] = {}
    for term, target in terms.items():
        sides = _term(term, target) if isinstance(term, str) and isinstance(target, str) else None
        if sides is None:
            raise UserError(f"terms: {brief((term, target))}: not a source term and its text; change it")
        if targets.setdefault(*sides) != sides[1]:
            raise UserError(f"terms: {brief((term, target))}: has another target above; keep one of them")
    return Glossary(targets if glossary is None else {**glossary.targets, **targets})


def _term(source: str, target: str) -> tuple[str, str] | None:
    """Return the tokens of a source term and its target with single spaces; None if the term has nothing to match."""
    term = _key(source)
    return (term, " ".join(target.split())) if term.removesuffix(STEM) else None
