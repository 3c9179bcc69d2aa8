"""Beam search for translations that contain given texts: grid beam search (Hokamp & Liu 2017, arXiv 1704.07138).

The beam has one bank of ``beam_size`` hypotheses for each number of required pieces. So a hypothesis that has written
an unlikely text competes only with those that have written as many required pieces. A hypothesis continues with its
likeliest pieces, or with the next piece of a text. It ends only when it has all texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from functools import cache
from typing import NamedTuple

import numpy as np

from nmt.search.constraints import WHOLE_VOCABULARY
from nmt.search.engine import Booleans, Floats, Integers
from nmt.search.history import Candidates
from nmt.text.specials import EOS


class Spelling(NamedTuple):
    """The pieces of a text that a translation must contain, and those at the beginning of a translation."""

    inside: tuple[int, ...]
    first: tuple[int, ...]


class TextProgress(NamedTuple):
    """The texts that a hypothesis has: none at the beginning."""

    written: int = 0
    """Bit i: whether it has text i."""
    begun: tuple[int, ...] = ()
    """Its last pieces, if another text begins with them."""


class RequiredTexts:
    """Texts that the translation of a sentence must contain. No piece of ``within_words`` may follow them there."""

    def __init__(self, texts: Sequence[Spelling], within_words: Set[int]) -> None:
        self._texts = texts
        self._within_words = within_words
        self._lengths = [max(map(len, text)) for text in texts]
        self.pieces = sum(self._lengths)
        self.all_written = (1 << len(texts)) - 1
        self.advance = cache(self._advance)
        self.count = cache(self._count)
        self.open_ends = cache(self._open_ends)
        self.beginnings = cache(self._beginnings)

    def _missing(self, written: int, begin: tuple[int, ...] = ()) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield number and pieces of each text that is not written and begins with the pieces ``begin``."""
        for number, text in enumerate(self._texts):
            if not written >> number & 1:
                yield from ((number, pieces) for pieces in text if pieces[: len(begin)] == begin)

    def _advance(self, progress: TextProgress, piece: int) -> TextProgress:
        """Return the progress of a hypothesis with another piece."""
        written, begun = progress
        now = (*begun, piece)
        ended = [number for number, pieces in self._missing(written, begun) if pieces == begun]
        if ended and piece not in self._within_words and not any(self._missing(written, now)):
            written |= 1 << ended[0]
            now = (piece,)
        while now and not any(self._missing(written, now)):
            now = now[1:]
        return TextProgress(written, now)

    def _count(self, progress: TextProgress) -> int:
        """Return the number of required pieces that a hypothesis has."""
        written, begun = progress
        missing = self._missing(written, begun) if begun else ()
        now = [self._lengths[number] if pieces == begun else len(begun) for number, pieces in missing]
        return sum(length for number, length in enumerate(self._lengths) if written >> number & 1) + max(now, default=0)

    def _open_ends(self, progress: TextProgress) -> Set[int]:
        """Return the pieces that go on with a text that a hypothesis has begun."""
        written, begun = progress
        return {pieces[len(begun)] for _, pieces in self._missing(written, begun) if begun and pieces != begun}

    def _beginnings(self, progress: TextProgress, is_first: bool) -> Set[int]:
        """Return the pieces that begin a missing text."""
        missing = (text for number, text in enumerate(self._texts) if not progress.written >> number & 1)
        return {(text.first if is_first else text.inside)[0] for text in missing}


Candidate = tuple[float, int, int]  # log-probability, slot and piece


class Banks:
    """The live hypotheses of a batch, in banks of ``width`` by their progress, and the texts of each sentence."""

    k = WHOLE_VOCABULARY  # any piece may be required

    def __init__(self, texts: Sequence[RequiredTexts], width: int) -> None:
        self._texts = [*texts]
        self._width = width
        self._progress = [[TextProgress()] for _ in texts]
        self._is_first = True
        self._has_all: Booleans = np.zeros((0, 0), np.bool_)  # (b,N), of the hypotheses before the last step

    def split(self, live: Floats, log_probs: Floats, ids: Integers) -> tuple[Candidates, Candidates]:
        """Return the candidates that end, and the best ``width`` others of each bank.

        ``log_probs`` (b,N,V) are those of all pieces ``ids``, best first, after the live hypotheses (b,N).
        """
        ended: list[list[Candidate]] = []
        alive: list[list[Candidate]] = []
        self._has_all = np.zeros(live.shape, np.bool_)
        for row, texts in enumerate(self._texts):
            old = self._progress[row]
            candidates = sorted(
                self._candidates(row, live[row], log_probs[row], ids[row]), key=lambda item: (-item[0], item[1])
            )
            ended.append([candidate for candidate in candidates if candidate[2] == EOS])
            kept: list[tuple[Candidate, TextProgress]] = []
            room = dict.fromkeys(range(texts.pieces + 1), self._width)
            for candidate in candidates:
                _, slot, piece = candidate
                progress = texts.advance(old[slot], piece)
                bank = texts.count(progress)
                if piece != EOS and room[bank]:
                    room[bank] -= 1
                    kept.append((candidate, progress))
            alive.append([candidate for candidate, _ in kept])
            self._progress[row] = [progress for _, progress in kept]
        self._is_first = False
        return _arrays(ended), _arrays(alive)

    def _candidates(self, row: int, live: Floats, log_probs: Floats, ids: Integers) -> Iterator[Candidate]:
        """Yield the candidates of each live hypothesis of a sentence: its likeliest pieces, and pieces of texts.

        If ``</s>`` is likeliest but texts are missing, a hypothesis may only go on with a text that it has begun.
        """
        texts = self._texts[row]
        for slot, progress in enumerate(self._progress[row]):
            may_end = texts.advance(progress, EOS).written == texts.all_written
            self._has_all[row, slot] = may_end
            others = texts.open_ends(progress)
            likeliest: list[int] = ids[slot, : self._width + 1].tolist()
            if likeliest[0] == EOS and not may_end:
                likeliest = []
            elif not others:
                others = texts.beginnings(progress, self._is_first)
            columns = [
                column for piece in sorted(others - {*likeliest}) for column in np.flatnonzero(ids[slot] == piece)
            ]
            for column in (*range(len(likeliest)), *columns):
                log_prob = float(live[slot]) + float(log_probs[slot, column])
                piece = int(ids[slot, column])
                if math.isfinite(log_prob) and (may_end or piece != EOS):
                    yield log_prob, slot, piece

    def acceptable(self, live: Floats) -> Floats:
        """Return the log-probabilities of the hypotheses before the last step, -inf for those without all texts."""
        return np.where(self._has_all, live, -np.inf)

    def drop(self, keep: Integers) -> None:
        """Keep the sentences ``keep`` only."""
        self._texts = [self._texts[row] for row in keep]
        self._progress = [self._progress[row] for row in keep]


def _arrays(candidates: Sequence[Sequence[Candidate]]) -> Candidates:
    shape = (len(candidates), max(1, *map(len, candidates)))
    columns = Candidates(np.full(shape, -np.inf), np.zeros(shape, np.int64), np.full(shape, EOS))
    for row, of_sentence in enumerate(candidates):
        for column, values in zip(columns, zip(*of_sentence, strict=True), strict=False):
            column[row, : len(of_sentence)] = values
    return columns
