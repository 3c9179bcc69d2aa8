"""The translation of one line, and its output lines: plain, with scores, n-best lists, and word alignments."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

import numpy as np

from nmt.data.words import Span, split_words, words_of
from nmt.errors import UserError, counted
from nmt.search.options import SearchOptions
from nmt.settings.arguments import brief
from nmt.text.writing import LazyPattern

SCORES_NOT_FINITE = "the model's scores are not finite, so its weights are too large or damaged; use another model"
CUT = "its translation was cut at the length limit; give shorter sentences, one per line"
MARK = "\ufffd"  # the text of an unknown piece, until its word is replaced
SEPARATOR = re.compile(r"\|{3,}")
ESCAPED = re.compile("(?:&#124;){3,}")
NUMBER = r"-?(?:\d+\.\d{6}|inf)"
WRITTEN = {
    "listed": LazyPattern(rf"(?P<row>\d+) \|\|\| (?P<text>(?:(?! \|\|\| ).)*) \|\|\| {NUMBER}"),
    "scored": LazyPattern(rf"{NUMBER}\t(?P<text>.*)"),
    "plain": LazyPattern("(?P<text>.*)"),
}
"""The lines that ``output_lines`` yields: of an n-best list, with a score, or plain."""
ScoreColumn = bool | Literal["confidence"]
"""The number in front of a translation: none, its score or its confidence."""


@dataclass(frozen=True, repr=False)
class Translation:
    """One translation of one line.

    ``log_prob`` is the sum of the tokens' natural log-probabilities, ``</s>`` included. ``score`` is ``log_prob``
    divided by the length penalty of the search, minus the coverage penalty. ``alignment`` (T, S) holds the raw
    attention weights, one row per target token and one column per source token, both with ``</s>``; None if it was not
    requested.
    ``source`` is the line, and ``source_spans`` and ``spans`` give the part of it, or of ``text``, that each token
    spells, without ``</s>``. All are empty without an alignment. ``n_best`` lists the best translations of the line,
    this one first.
    """

    text: str
    _: KW_ONLY
    source: str = ""
    score: float = 0.0
    log_prob: float = 0.0
    source_tokens: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    source_spans: list[Span] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    alignment: np.ndarray | None = None
    n_best: list[Translation] = field(default_factory=list)
    token_log_probs: list[float] = field(default_factory=list)
    """One per token, NaN for tokens that a glossary or placeholders have added; empty without an alignment."""
    inserted: int = 0
    """Tokens that a glossary or placeholders have added, which have no probability."""
    lost: Sequence[str] = ()
    """Kept texts and terms of a glossary that the translation lacks."""
    is_cut: bool = False
    """Whether it, or one of its sentences, reached a length limit that the user has not set."""

    @property
    def source_words(self) -> list[int]:
        """The word of ``source`` that each source token belongs to, as ``nmt.data.words`` splits them; −1 for none."""
        return [min(words, default=-1) for words in words_of(self.source, self.source_spans)]

    @property
    def target_words(self) -> list[int]:
        """The word of ``text`` that each token belongs to."""
        return [min(words, default=-1) for words in words_of(self.text, self.spans)]

    @property
    def confidence(self) -> float:
        """The geometric mean of the tokens' probabilities, ``</s>`` included; 1 for a blank line, 0 for a failure."""
        return math.exp(self.log_prob / max(1, len(self.tokens) - self.inserted))

    @property
    def word_confidences(self) -> list[float]:
        """The confidence of each word of ``text``: the geometric mean of its tokens' probabilities.

        NaN for a word without such tokens. Empty without an alignment.
        """
        log_probs: list[list[float]] = [[] for _ in split_words(self.text)] if self.spans else []
        for words, log_prob in zip(words_of(self.text, self.spans), self.token_log_probs, strict=False):
            for word in words:
                log_probs[word].append(log_prob)
        return [math.exp(sum(of_word) / len(of_word)) if of_word else math.nan for of_word in log_probs]

    def each(self, change: Callable[[Translation], Translation]) -> Translation:
        """Return the translation after ``change`` of each translation in its n-best list; itself without alignments."""
        if self.alignment is None:
            return self
        n_best = [change(best) for best in self.n_best]
        return replace(n_best[0], n_best=n_best)

    def without_alignment(self) -> Translation:
        """Return the translation without its alignment, and without the spans and probabilities of its tokens."""
        return replace(self, source="", alignment=None, source_spans=[], spans=[], token_log_probs=[])

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, log_prob={self.log_prob:.3f}, {len(self.n_best)} best)"


NO_TRANSLATION = Translation("", score=float("-inf"), log_prob=float("-inf"))
"""Takes the place of a failure, such as a line that is too long."""


def chosen(translation: Translation, options: SearchOptions) -> Translation:
    """Return the translation with all its samples, or with the best ``n_best`` of different texts."""
    best = translation.n_best
    if options.method != "sample":
        best = _with_different_texts(best)
    if options.mbr is not None:
        best = by_mean_chrf(best)
    return replace(best[0], n_best=best[: options.n_best]) if best else translation


def _with_different_texts(translations: Sequence[Translation]) -> list[Translation]:
    """Return the first translation of each text."""
    first = dict[str, Translation]()
    for translation in translations:
        first.setdefault(translation.text, translation)
    return [*first.values()]


def by_mean_chrf(translations: Sequence[Translation]) -> list[Translation]:
    """Return the translations with different texts, sorted by the mean chrF of a text against all others.

    A text counts as often as it occurs in ``translations``. The time is quadratic in the number of different texts.
    Minimum Bayes risk: Eikema & Aziz (2020), Is MAP Decoding All You Need?, arXiv 2005.10283; chrF: Popović (2015).
    """
    from nmt.inference.scores import sentence_chrf

    chrf = sentence_chrf()
    counts = Counter(translation.text for translation in translations)

    def utility(translation: Translation) -> float:
        """Return the sum of its chrF against all others, an equal text having 100."""
        return sum(
            (chrf(translation.text, other) if other != translation.text else 100.0)
            * (count - (other == translation.text))
            for other, count in counts.items()
        )

    return sorted(_with_different_texts(translations), key=utility, reverse=True)


class Done(NamedTuple):
    """The lines that a group of input lines becomes."""

    lines: int
    """Number of input lines."""
    output: list[str]
    """Output lines; n-best lists have several per input line."""
    links: list[str]
    """Alignment lines, one per translation; none if they were not requested."""
    warnings: list[tuple[int, str]]
    """Row of each line without a complete translation, counted from the first line of the group, and the reason."""
    lost: Sequence[tuple[int, Sequence[str]]] = ()
    """Row of each line that lost protected texts, and the texts, if nobody has counted them yet."""
    split_lines: int = 0
    """Number of lines that ``search.sentences=auto`` has split."""


class LostTexts:
    """Counts the lines, or other units, whose translations lack a kept text or a term."""

    def __init__(self, unit: str = "line") -> None:
        self._unit = unit
        self._count = 0
        self._first = (0, "")

    def add(self, row: int, lost: Sequence[str]) -> None:
        """Count a unit, counted from 0, if it ``lost`` a text."""
        if lost:
            self._first = self._first if self._count else (row, lost[0])
            self._count += 1

    @property
    def problem(self) -> str | None:
        """How many units lost a text, and the first of them, counted from 1; None without any."""
        row, text = self._first
        units = counted(self._count, self._unit)
        first = f"first in {self._unit} {row + 1:,}: {brief(text)}"
        return f"{units} lost a protected text, {first}" if self._count else None


def cuts(translations: Sequence[Translation], first: int = 0) -> list[tuple[int, str]]:
    """Return the row of each translation that was cut, counted from ``first``, and a warning."""
    return [(row, CUT) for row, translation in enumerate(translations, first) if translation.is_cut]


def output_lines(
    translations: Sequence[Translation], first: int = 0, *, n_best: int, scores: ScoreColumn
) -> Iterator[str]:
    """Yield the output lines of input lines from row ``first`` on: one each, or several with ``n_best`` above 1.

    A blank or refused input line has a single empty translation, whatever ``n_best`` is. In an n-best list, three or
    more bars in a translation are written as Moses escapes them, because ``|||`` separates the columns.
    """
    for row, best in enumerate(translations, first):
        if n_best > 1:
            for hypothesis in best.n_best or [best]:
                text = SEPARATOR.sub(lambda bars: "&#124;" * len(bars[0]), hypothesis.text)
                yield f"{row} ||| {text} ||| {_score(hypothesis, scores):.6f}"
        elif scores:
            yield f"{_score(best, scores):.6f}\t{best.text}"
        else:
            yield best.text


def written_translations(lines: Iterable[str], name: str) -> Iterator[list[str]]:
    """Yield the translations of each input line from lines as above, which the file ``name`` has.

    Raises UserError if a line has other columns than the first one, or if an n-best list is missing.
    """
    last: int | None = None
    for row, group in groupby(_written_rows(lines, name), key=itemgetter(0)):
        if last is not None and row != last + 1:
            raise UserError(
                f"{name}: n-best list {row} follows list {last}; give the lists of all lines, in their order"
            )
        last = row
        yield [text for _, text in group]


def _written_rows(lines: Iterable[str], name: str) -> Iterator[tuple[int, str]]:
    kind: str | None = None
    for row, line in enumerate(lines):
        kind = kind or next((kind for kind, pattern in WRITTEN.items() if pattern.fullmatch(line)))
        match = WRITTEN[kind].fullmatch(line)
        if match is None:
            raise other_columns(name, row)
        if kind == "listed":
            yield int(match["row"]), ESCAPED.sub(lambda bars: "|" * bars[0].count("&"), match["text"])
        else:
            yield row, match["text"]


def other_columns(name: str, row: int) -> UserError:
    return UserError(f"{name}:{row + 1}: other columns than nmt-translate writes; give one translation per line")


def _score(translation: Translation, scores: ScoreColumn) -> float:
    return translation.confidence if scores == "confidence" else translation.score


def alignment_lines(translations: Sequence[Translation]) -> list[str]:
    """Return one line per output line: the word alignment in Pharaoh format, empty without an alignment."""
    from nmt.alignment.word_weights import argmax_links, word_weights
    from nmt.data.links import format_pharaoh

    return [
        "" if hypothesis.alignment is None else format_pharaoh(argmax_links(word_weights(hypothesis)))
        for best in translations
        for hypothesis in best.n_best or [best]
    ]
