"""Measures of translations and alignments: values, deviation over runs, significance, and storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.alignment.page import spread
from nmt.alignment.word_weights import normalise_rows
from nmt.data.words import split_words
from nmt.files.atomic import Records
from nmt.files.checksum import fingerprint
from nmt.inference.scores import BY_WORDS, DEFAULT, bleu_metric

BUCKETS = 4
SAMPLES = 1000
SIGNIFICANT = 0.05  # p-values below are marked


class Measurements(Records):
    """Results on disk by their keys, so that a comparison that was interrupted continues.

    A key holds everything that the result depends on.
    """

    def __init__(self, report: Path) -> None:
        super().__init__(report / "measurements")
        self.measured = 0

    def measure(self, key: Mapping[str, Any], action: Callable[[], Any]) -> Any:
        """Return the stored result of the key. If it is missing, call ``action`` and store what it returns."""
        name = f"{key['kind']}-{fingerprint(key)[:20]}.json"
        if (stored := self.load(name, key)) is None:
            self.save(name, key, action())
            self.measured += 1
            stored = self.load(name, key)
        return stored


def alignment_entropies(weights: np.ndarray) -> np.ndarray:
    """Return the entropy in nats of each row of |weights| (T, S), normalised over the source.

    0 means that a target piece reads one source piece, log S that it reads all S equally. Rows of zeros are dropped.
    """
    shares = normalise_rows(weights.astype(np.float64))
    shares = shares[shares.any(axis=1)]
    entropies: np.ndarray = -(shares * np.log(shares, out=np.zeros_like(shares), where=shares > 0)).sum(axis=1)
    return entropies


def repetition_rate(lines: Sequence[str], tokenizer: str = DEFAULT) -> float:
    """Return the share of word bigrams that occurred before in the same line, over all lines; 0 without bigrams.

    Words stand between spaces. A ``tokenizer`` for languages without them gives the words.
    """
    split = str if tokenizer in BY_WORDS else bleu_metric(tokenizer).tokenizer
    total = repeated = 0
    for line in lines:
        words = split_words(split(line))
        bigrams = [*zip(words, words[1:], strict=False)]
        total += len(bigrams)
        repeated += len(bigrams) - len(set(bigrams))
    return repeated / total if total else 0.0


def length_ratio(hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = DEFAULT) -> float:
    """Return the length of the translations over that of the references, in the words that sacrebleu's BLEU counts."""
    score = bleu_metric(tokenizer).corpus_score(list(hypotheses), [list(references)])
    return score.sys_len / score.ref_len if score.ref_len else 0.0


class Difference(NamedTuple):
    """Score of a system minus that of the baseline, and the two-sided p-value of the paired bootstrap test."""

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

    This is sacrebleu's paired bootstrap resampling (Koehn 2004, Statistical Significance Tests for Machine Translation
    Evaluation). Its p-value is that of one direction, so it is doubled: among equally good systems, 8 % had p < 0.05.
    For equal scores, p is 1: its estimate for equal translations, 1 / (samples + 1), would look significant.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    metrics = {"bleu": bleu_metric(tokenizer), "chrf": CHRF()}
    systems: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(system))]
    _, scores = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=samples)()
    results: list[Any] = [pair for name, pair in scores.items() if name != "System"]  # in the order of the metrics
    return {
        key: Difference(after.score - before.score, min(1.0, 2 * after.p_value) if after.score != before.score else 1.0)
        for key, (before, after) in zip(metrics, results, strict=True)
    }


class Bucket(NamedTuple):
    """Source lengths from ``low`` to ``high``, both included."""

    low: int
    high: int

    @property
    def label(self) -> str:
        return f"{self.low}–{self.high}" if self.low < self.high else f"{self.low}"

    def rows(self, lengths: Sequence[int]) -> list[int]:
        """Return the indices of the lengths in this bucket."""
        return [row for row, length in enumerate(lengths) if self.low <= length <= self.high]


def length_buckets(lengths: Sequence[int], count: int = BUCKETS) -> list[Bucket]:
    """Return up to ``count`` buckets, from short to long, that hold about equally many of these lengths.

    Equal lengths are in the same bucket, and each bucket holds at least one length.
    """
    ordered = np.sort(np.asarray(lengths))
    highs = sorted({int(ordered[max(0, round(len(ordered) * part / count) - 1)]) for part in range(1, count + 1)})
    lows = [int(ordered[0]), *(int(ordered[np.searchsorted(ordered, high, side="right")]) for high in highs[:-1])]
    return [Bucket(low, high) for low, high in zip(lows, highs, strict=True)]


def spread_rows(lengths: Sequence[int], count: int, *, longest: int) -> list[int]:
    """Return up to ``count`` indices of lengths from 2 to ``longest``, spread evenly from short to long.

    Length 1 is an empty line.
    """
    rows = [row for row, length in enumerate(lengths) if 1 < length <= longest]
    return [rows[index] for index in spread([lengths[row] for row in rows], count)]
