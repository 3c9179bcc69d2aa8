"""Corpus scores (BLEU, chrF, TER), each with the sacrebleu signature that describes how it was computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nmt.errors import UserError, counted


class Scores(NamedTuple):
    """BLEU, chrF and TER in percent, and the signature of each by its name (``bleu``, ``chrf``, ``ter``)."""

    bleu: float
    chrf: float
    ter: float | None
    signatures: dict[str, str]


def ignore_case(lowercase: bool | None, *, trained_on_lowercase: bool) -> bool:
    """Return whether scores ignore case: as ``lowercase`` says, or, for None, as the model was trained."""
    return trained_on_lowercase if lowercase is None else lowercase


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False, ter: bool = False
) -> Scores:
    """Return sacrebleu's scores of ``hypotheses``; TER is computed only with ``ter=True``.

    Raises UserError if the sides differ in length: sacrebleu would ignore the extra lines.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if len(hypotheses) != len(references):
        raise UserError(
            f"{counted(len(hypotheses), 'translation')}, {counted(len(references), 'reference')}:"
            " both must have the same number of lines"
        )
    # force=True suppresses a warning about tokenised text (lines that end in " .") after each epoch.
    bleu, chrf = BLEU(lowercase=lowercase, force=True), CHRF(lowercase=lowercase)
    texts, reference_sets = list(hypotheses), [list(references)]
    bleu_score = bleu.corpus_score(texts, reference_sets).score
    chrf_score = chrf.corpus_score(texts, reference_sets).score
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    ter_score = None
    if ter:
        metric = TER(case_sensitive=not lowercase)
        ter_score = metric.corpus_score(texts, reference_sets).score
        signatures["ter"] = str(metric.get_signature())
    return Scores(bleu_score, chrf_score, ter_score, signatures)
