"""Sequence-level distillation (Kim & Rush 2016, arXiv 1606.07947): targets that a teacher has translated.

Of several translations, the one nearest to the reference is chosen (sequence-level interpolation, §3.3).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from nmt.errors import UserError, counted
from nmt.inference.scores import sentence_chrf

TEACHER = "translation of the teacher"
SCORE = re.compile(r"(-?(?:\d+\.\d{6}|inf|nan))\t")  # as nmt-translate scores=true writes it before a translation


@dataclass(kw_only=True)
class Distillation:
    """Chooses the target of each pair, and counts the choices.

    A translation is rejected if it is empty, if its score is below ``min_score``, or if its chrF against the reference
    is below ``min_chrf``, without case if ``lowercase`` is set. ``rejected`` then keeps the reference, drops the pair,
    or drops the translation only, because the original pair is written too.
    """

    min_score: float | None = None
    min_chrf: float | None = None
    rejected: Literal["reference", "drop", "translation"] = "reference"
    lowercase: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    """Number of pairs for each reason of a rejection, and for ``TEACHER``: pairs that keep their translation."""

    def target(self, reference: str, lines: Sequence[str]) -> str | None:
        """Return the target of a pair, or None if the pair is dropped.

        ``lines`` are its translations, best first, each after its score and a tab if it was written with scores. The
        one with the highest chrF is chosen, and rejected or kept. Raises UserError if it lacks a score that
        ``min_score`` needs.
        """
        columns = [split_score(line) for line in lines]
        nearest = columns[0] if len(columns) == 1 else max(columns, key=lambda row: self._chrf(row[1], reference))
        score, translation = nearest
        reason = self._reason(reference, translation, score)
        self.counts[reason or TEACHER] += 1
        if reason is None:
            return translation
        return reference if self.rejected == "reference" else None

    def _reason(self, reference: str, translation: str, score: float | None) -> str | None:
        """Return the reason to reject a translation, or None."""
        if not translation.strip():
            return "empty translation"
        if self.min_score is not None:
            if score is None:
                raise UserError(
                    f"min_score={self.min_score:g}: translation {self.total + 1:,} has no score before it; "
                    "write them with nmt-translate scores=true, or remove min_score="
                )
            if not score >= self.min_score:
                return f"score below {self.min_score:g}"
        if self.min_chrf is not None and self._chrf(translation, reference) < self.min_chrf:
            return f"chrF below {self.min_chrf:g}"
        return None

    @cached_property
    def _chrf(self) -> Callable[[str, str], float]:
        return sentence_chrf(lowercase=self.lowercase)

    @property
    def total(self) -> int:
        return self.counts.total()

    def lines(self) -> Iterator[str]:
        """Yield a line for the translations that were kept, then one for each reason of a rejection."""
        yield f"{self.counts[TEACHER]:,} of {counted(self.total, 'pair')}: {TEACHER}"
        for reason, count in self.counts.most_common():
            if reason != TEACHER:
                fates = {
                    "reference": f"{counted(count, 'reference')} kept",
                    "drop": f"{count:,} dropped",
                    "translation": f"{counted(count, 'translation')} dropped",
                }
                yield f"{fates[self.rejected]}: {reason}"


def split_score(line: str) -> tuple[float | None, str]:
    """Return the score before a translation, or None, and the translation."""
    score = SCORE.match(line)
    return (float(score[1]), line[score.end() :]) if score else (None, line)
