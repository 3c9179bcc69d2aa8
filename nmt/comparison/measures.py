"""Measures of translations and of alignments, and their spread over runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from nmt.data.words import split_words
from nmt.inference.scores import BY_WORDS, DEFAULT, bleu_metric

REPEATED_WORDS = 2  # consecutive words that count as a repetition


def mean_and_deviation(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the mean and the sample standard deviation (n - 1), None where they are undefined."""
    return fmean(values) if values else None, stdev(values) if len(values) > 1 else None


class Column(NamedTuple):
    """A column of a table: key of its values, heading, and format of the numbers.

    An ``exact`` column holds sizes or budgets; it shows a deviation only if it is not 0.
    """

    key: str
    heading: str
    form: str
    exact: bool = False

    def texts(self, values: Sequence[float]) -> tuple[str, str]:
        """Return the mean ("–" without values) and " ± deviation" (or "")."""
        mean, deviation = mean_and_deviation(values)
        hidden = deviation is None or (self.exact and deviation == 0)
        return "–" if mean is None else f"{mean:{self.form}}", "" if hidden else f" ± {deviation:{self.form}}"


def alignment_entropies(weights: np.ndarray) -> np.ndarray:
    """Return the entropy in nats of each row of |weights| (T, S), normalised over the source.

    0 means that a target piece looks at one source piece, log S that it looks at all S alike. Rows of zeros, which look
    at nothing, are dropped.
    """
    sizes = np.abs(weights).astype(np.float64)
    sizes = sizes[sizes.sum(axis=1) > 0]
    shares = sizes / sizes.sum(axis=1, keepdims=True)
    terms = np.zeros_like(shares)
    np.log(shares, out=terms, where=shares > 0)
    entropies: np.ndarray = (shares * -terms).sum(axis=1)
    return entropies


def repetition_rate(lines: Sequence[str], tokenizer: str = DEFAULT) -> float:
    """Return the share of word bigrams that occurred before in the same line, over all lines; 0 without bigrams.

    Words stand between spaces. A ``tokenizer`` for languages without them gives the words.
    """
    split = str if tokenizer in BY_WORDS else bleu_metric(tokenizer).tokenizer
    total = repeated = 0
    for line in lines:
        words = split_words(split(line))
        bigrams = [*zip(*(words[first:] for first in range(REPEATED_WORDS)), strict=False)]
        total += len(bigrams)
        repeated += len(bigrams) - len(set(bigrams))
    return repeated / total if total else 0.0


def length_ratio(hypotheses: Sequence[str], references: Sequence[str], tokenizer: str = DEFAULT) -> float:
    """Return the length of the translations over that of the references, in the words that sacrebleu's BLEU counts."""
    score = bleu_metric(tokenizer).corpus_score(list(hypotheses), [list(references)])
    return score.sys_len / score.ref_len if score.ref_len else 0.0
