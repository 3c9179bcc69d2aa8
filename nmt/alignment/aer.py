"""Alignment error rate (AER)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nmt.errors import UserError
from nmt.text.links import Link, Links

AER_METHOD = (
    "the reference is force-decoded; |A| normalised over the source, </s> dropped; a word's weight is the sum over its "
    "source pieces and the mean over its target pieces; one link per target word, the largest; no symmetrisation"
)
"""How the toolkit obtains the links that it scores; printed beside every AER."""


def alignment_error_rate(hypotheses: Sequence[Collection[Link]], golds: Sequence[Links]) -> float:
    """Return 1 − (|A∩S| + |A∩P|) / (|A| + |S|) over a corpus, in [0, 1]; 0 if there are no links at all.

    A are the hypothesis' links, S the sure gold links and P ⊇ S the possible ones (Och & Ney 2003, A Systematic
    Comparison of Various Statistical Alignment Models, §5). Raises UserError if the two lists differ in length.
    """
    if len(hypotheses) != len(golds):
        raise UserError(
            f"{len(hypotheses)} lines of alignments, {len(golds)} lines of gold links: both files must be parallel"
        )
    correct = total = 0
    for hypothesis, gold in zip(hypotheses, golds, strict=True):
        links = set(hypothesis)
        correct += len(links & gold.sure) + len(links & gold.possible)
        total += len(links) + len(gold.sure)
    return 1 - correct / total if total else 0.0
