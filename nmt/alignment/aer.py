"""Alignment error rate."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nmt.alignment.links import Link, Links
from nmt.errors import UserError


def alignment_error_rate(hypotheses: Sequence[Collection[Link]], golds: Sequence[Links]) -> float:
    """1 − (|A∩S| + |A∩P|) / (|A| + |S|) over a corpus, in [0, 1]; 0 where there is nothing to find and nothing found.

    A are the hypothesis' links, S the sure and P ⊇ S the possible ones: Och & Ney (2003), A Systematic Comparison of
    Various Statistical Alignment Models, §5. Raises UserError for sides of unequal length.
    """
    if len(hypotheses) != len(golds):
        raise UserError(f"{len(hypotheses)} lines of alignments, {len(golds)} lines of gold: both must be parallel")
    agreed = total = 0
    for hypothesis, gold in zip(hypotheses, golds, strict=True):
        links = set(hypothesis)
        agreed += len(links & gold.sure) + len(links & gold.possible)
        total += len(links) + len(gold.sure)
    return 1 - agreed / total if total else 0.0
