"""Paired bootstrap resampling, as sacrebleu computes it.

Koehn (2004), Statistical Significance Tests for Machine Translation Evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from nmt.inference.scores import DEFAULT, bleu_metric

SAMPLES = 1000
SIGNIFICANT = 0.05  # p-values below are marked


class Difference(NamedTuple):
    """Score of a system minus that of the baseline, and the p-value of the paired bootstrap test."""

    delta: float
    p: float


def all_better(tests: Sequence[Difference]) -> bool:
    """Return whether every run is significantly better than the run that it is compared with."""
    return bool(tests) and all(test.delta > 0 and test.p < SIGNIFICANT for test in tests)


def paired_bootstrap(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    *,
    tokenizer: str = DEFAULT,
    samples: int = SAMPLES,
) -> dict[str, Difference]:
    """Return the difference in ``bleu`` and ``chrf`` between two systems that translated the same lines.

    For equal scores, p is 1. sacrebleu's estimate for equal translations, 1 / (samples + 1), would look significant.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    metrics = {"bleu": bleu_metric(tokenizer), "chrf": CHRF()}
    systems: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(system))]
    test = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=samples)
    _, scores = test()
    names = [name for name in scores if name != "System"]  # sacrebleu's names, in the order of the metrics
    results = zip(metrics, (cast(list[Any], scores[name]) for name in names), strict=True)
    return {
        key: Difference(after.score - before.score, after.p_value if after.score != before.score else 1.0)
        for key, (before, after) in results
    }
