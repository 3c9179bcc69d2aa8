"""Corpus scores, each with the signature that says how it was computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nmt.errors import UserError


class Scores(NamedTuple):
    """BLEU, chrF and TER in percent; ``signatures`` by name."""

    bleu: float
    chrf: float
    ter: float | None
    signatures: dict[str, str]


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, ter: bool = False
) -> Scores:
    """sacrebleu's scores of ``hypotheses``. Raises UserError for sides of unequal length, which sacrebleu would cut."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} lines of translation, {len(references)} lines of reference: both sides must be parallel"
        )
    # force: no advice about lines that end in " ." after each epoch; the signature says how text was tokenised.
    bleu, chrf = BLEU(lowercase=lowercase, force=True), CHRF(lowercase=lowercase)
    listed, against = list(hypotheses), [list(references)]
    results = {"bleu": bleu.corpus_score(listed, against), "chrf": chrf.corpus_score(listed, against)}
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    errors = None
    if ter:
        metric = TER(case_sensitive=not lowercase)
        errors = metric.corpus_score(listed, against).score
        signatures["ter"] = str(metric.get_signature())
    return Scores(results["bleu"].score, results["chrf"].score, errors, signatures)
