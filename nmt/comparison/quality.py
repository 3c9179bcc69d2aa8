"""Quality of the runs as records: scores of their translations, entropy of their alignments, significance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from nmt.alignment.page import Example
from nmt.alignment.word_weights import display_weights, normalise_rows
from nmt.comparison.models import FinishedRun, Model, TestSet
from nmt.comparison.records import Record
from nmt.data.words import split_words
from nmt.inference.forced_decoding import force_decode
from nmt.inference.scores import BY_WORDS, DEFAULT, bleu_metric
from nmt.inference.translator import Translator
from nmt.training.metrics import NEAR_ZERO

GROUPS = 4  # of source lengths
SAMPLES = 1000
SIGNIFICANT = 0.05  # p-values below are marked
AT_ONCE = 256  # test sentences whose alignments are in RAM at once


def length_groups(lengths: Sequence[int]) -> dict[str, list[int]]:
    """Return the indices of up to ``GROUPS`` groups of lengths, from short to long, by their range, such as ``3–9``.

    The groups are about equally large. Equal lengths are in the same group.
    """
    ordered = sorted(lengths)
    groups: dict[str, list[int]] = {}
    before = -1
    for high in sorted({ordered[max(0, round(len(ordered) * part / GROUPS) - 1)] for part in range(1, GROUPS + 1)}):
        rows = [row for row, length in enumerate(lengths) if before < length <= high]
        low = min(lengths[row] for row in rows)
        groups[f"{low}–{high}" if low < high else f"{high}"] = rows
        before = high
    return groups


def run_records(
    record: partial[Record], run: FinishedRun, test: TestSet, groups: Mapping[str, list[int]]
) -> Iterator[Record]:
    """Yield the scores of a run's translations, also by source length, and what its training recorded."""
    from sacrebleu.metrics.chrf import CHRF

    bleu = bleu_metric(test.tokenizer)
    whole = bleu.corpus_score(run.translations, [test.references])
    values = {
        "bleu": whole.score,
        "chrf": CHRF().corpus_score(run.translations, [test.references]).score,
        "aer": run.summary["test"].get("aer"),
        "repetition": repetition_rate(run.translations, test.tokenizer),
        "length_ratio": whole.sys_len / whole.ref_len if whole.ref_len else 0.0,
        "updates": run.summary.get("updates"),
        "train_tokens_per_s": run.summary.get("tokens_per_s"),
        "train_seconds": run.summary.get("seconds"),
    }
    for metric, value in values.items():
        if value is not None:
            yield record(metric, value)
    for lengths, rows in groups.items():
        texts, references = ([side[row] for row in rows] for side in (run.translations, test.references))
        yield record("bleu", bleu.corpus_score(texts, [references]).score, lengths=lengths)


def repetition_rate(lines: Sequence[str], tokenizer: str = DEFAULT) -> float:
    """Return the share of word bigrams that occurred before in the same line, over all lines; 0 without bigrams.

    Words stand between spaces. A ``tokenizer`` for languages without them gives the words.
    """
    split = str if tokenizer in BY_WORDS else bleu_metric(tokenizer).tokenizer
    total = repeated = 0
    for line in lines:
        words = split_words(split(line))
        bigrams = [*pairwise(words)]
        total += len(bigrams)
        repeated += len(bigrams) - len(set(bigrams))
    return repeated / total if total else 0.0


def alignment_records(
    record: partial[Record], translator: Translator, test: TestSet, rows: Collection[int]
) -> tuple[list[Record], dict[int, Example]]:
    """Return the number of parameters, the mean entropy of the alignments of the references, and those of ``rows``."""
    values: dict[str, float] = {"parameters": sum(weight.numel() for weight in translator.trained.model.parameters())}
    entropies: list[float] = []
    examples: dict[int, Example] = {}
    if translator.attention.reads_source:
        for first in range(0, len(test.sources), AT_ONCE):
            pairs = test.sources[first : first + AT_ONCE], test.references[first : first + AT_ONCE]
            decodings = force_decode(translator, *pairs, on_failure=lambda row, reason: None)
            for row, decoding in enumerate(decodings, first):
                if decoding.alignment is None:
                    continue
                entropies += alignment_entropies(decoding.alignment).tolist()
                if row in rows:
                    gold = test.golds[row].possible if test.golds else None
                    examples[row] = Example(row + 1, *display_weights(decoding, split=gold is None), gold)
    if entropies:
        values["entropy"] = fmean(entropies)
    return [record(*item) for item in values.items()], examples


def alignment_entropies(weights: np.ndarray) -> np.ndarray:
    """Return the entropy in nats of each row of |weights| (T, S), normalised over the source.

    0 means that a target piece reads one source piece, log S that it reads all S equally. Rows of zeros are dropped.
    """
    shares = normalise_rows(weights.astype(np.float64))
    shares = shares[shares.any(axis=1)]
    entropies: np.ndarray = -(shares * np.log(shares, out=np.zeros_like(shares), where=shares > 0)).sum(axis=1)
    return entropies


class Difference(NamedTuple):
    """Score of a system minus that of the baseline, and the two-sided p-value of the paired bootstrap test."""

    delta: float
    p: float
    score: float
    """The larger of both scores."""


def differences(model: Model, baseline: Model, test: TestSet) -> dict[str, str]:
    """Return by metric how the runs of ``model`` differ from those of the baseline; see ``difference_text``.

    A run is compared with the baseline's run of the same seed, or else with the one at the same position. A single run,
    and runs at chance, have no *.
    """
    found = []
    for index, run in enumerate(model.runs):
        same = [other for other in baseline.runs if other.seed == run.seed]
        paired = (same or baseline.runs[index : index + 1] or baseline.runs)[0]
        found.append(paired_bootstrap(paired.translations, run.translations, test.references, tokenizer=test.tokenizer))
    marked = len(found) > 1 and all(tests["bleu"].score >= NEAR_ZERO for tests in found)
    return {metric: difference_text([tests[metric] for tests in found], marked=marked) for metric in found[0]}


def difference_text(tests: Sequence[Difference], *, marked: bool) -> str:
    """Return the mean difference and the p-value of each run.

    If ``marked``, a * follows if all runs differ significantly and in the same direction.
    """
    significant = all(test.p < SIGNIFICANT for test in tests) and len({test.delta > 0 for test in tests}) == 1
    mean = fmean(test.delta for test in tests)
    return f"{mean:+.2f}{'*' if marked and significant else ''} ({', '.join(f'{test.p:.3f}' for test in tests)})"


def paired_bootstrap(
    baseline: list[str], system: list[str], references: list[str], *, tokenizer: str = DEFAULT
) -> dict[str, Difference]:
    """Return the difference in ``bleu`` and ``chrf`` between two systems that translated the same lines.

    This is sacrebleu's paired bootstrap resampling (Koehn 2004, Statistical Significance Tests for Machine Translation
    Evaluation). Its p-value is that of one direction, so it is doubled: among equally good systems, 8 % had p < 0.05.
    For equal scores, p is 1: its estimate for equal translations, 1 / (``SAMPLES`` + 1), would look significant.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    metrics: dict[str, Any] = {"bleu": bleu_metric(tokenizer), "chrf": CHRF()}
    systems: list[Any] = [("baseline", baseline), ("system", system)]
    _, scores = PairedTest(systems, metrics, [references], test_type="bs", n_samples=SAMPLES)()
    results: list[Any] = [pair for name, pair in scores.items() if name != "System"]  # in the order of the metrics
    return {
        key: Difference(
            after.score - before.score,
            min(1.0, 2 * after.p_value) if after.score != before.score else 1.0,
            max(after.score, before.score),
        )
        for key, (before, after) in zip(metrics, results, strict=True)
    }
