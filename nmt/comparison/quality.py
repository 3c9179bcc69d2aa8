"""Quality of the runs as records: scores of their translations, entropy of their alignments, significance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from statistics import fmean
from typing import Any

import numpy as np

from nmt.comparison.measures import (
    SAMPLES,
    Bucket,
    Difference,
    Measurements,
    alignment_entropies,
    all_better,
    length_ratio,
    paired_bootstrap,
    repetition_rate,
)
from nmt.comparison.models import FinishedRun, Model, TestSet
from nmt.comparison.records import Record
from nmt.errors import print_message
from nmt.files.checksum import fingerprint
from nmt.inference.forced_decoding import force_decode
from nmt.inference.scores import Scores, corpus_scores
from nmt.inference.translator import Translator
from nmt.training.metrics import NEAR_ZERO

TESTED = ("bleu", "chrf")
GROUP = 256  # test sentences whose alignments are in RAM at once
Differences = dict[str, list[Difference]]
"""By metric: the difference of each run of a model from the run of another model that it is compared with."""


class Quality:
    """Measures models on one test set. Results are kept in ``store``."""

    def __init__(self, test: TestSet, buckets: Sequence[tuple[Bucket, list[int]]], store: Measurements) -> None:
        self.test, self.buckets, self.store = test, buckets, store
        self._text = fingerprint([*test.sources, *test.references])

    def records(self, model: Model, trust: Sequence[str]) -> Iterator[Record]:
        """Yield the records of all runs of a model."""
        for run in model.runs:
            record = partial(Record, model.label, str(run.folder))
            texts = self.store.measure(self._key("scores", run), partial(self._scores, run))
            alignment_key = {"kind": "entropy", "model": run.fingerprint, "text": self._text}
            alignments = self.store.measure(alignment_key, partial(self._alignments, run, trust))
            trained = {
                "aer": run.summary["test"].get("aer"),
                "updates": run.summary.get("updates"),
                "train_tokens_per_s": run.summary.get("tokens_per_s"),
                "train_seconds": run.summary.get("seconds"),
            }
            for metric, value in {**texts["whole"], **alignments, **trained}.items():
                if value is not None:
                    yield record(metric, value)
            for (bucket, _), value in zip(self.buckets, texts["bleu_by_length"], strict=True):
                yield record("bleu", value, lengths=bucket.label)

    def differences(self, model: Model, other: Model) -> Differences:
        """Return the differences of the runs of ``model`` from those of ``other``, by metric.

        A run is compared with the other model's run of the same seed, or else with the one at the same position.
        """
        found: Differences = {metric: [] for metric in TESTED}
        for index, run in enumerate(model.runs):
            same = [other_run for other_run in other.runs if other_run.seed == run.seed]
            paired = (same or other.runs[index : index + 1] or other.runs)[0]
            key = self._key("two_sided_bootstrap", run, paired) | {"samples": SAMPLES}
            sides = paired.translations, run.translations, self.test.references
            stored = self.store.measure(key, partial(paired_bootstrap, *sides, tokenizer=self.test.tokenizer))
            for metric in TESTED:
                found[metric].append(Difference(*stored[metric]))
        return found

    def best_models(self, models: Sequence[Model], records: Sequence[Record]) -> dict[str, str]:
        """Return by metric the label of the model that is significantly better than all others.

        A metric without such a model is left out, and so are scores that chance explains: a BLEU below ``NEAR_ZERO``.
        """
        best: dict[str, str] = {}
        for metric in TESTED:
            scores = {model.label: _mean(records, model, metric) for model in models}
            first, *others = sorted(models, key=lambda model: -scores[model.label])
            chance = _mean(records, first, "bleu") < NEAR_ZERO
            if others and not chance and all(all_better(self.differences(first, rest)[metric]) for rest in others):
                best[metric] = first.label
        return best

    def _key(self, kind: str, *runs: FinishedRun) -> dict[str, Any]:
        return {
            "kind": kind,
            "text": self._text,
            "translations": [fingerprint(run.translations) for run in runs],
            "lengths": [bucket.label for bucket, _ in self.buckets],
            "sacrebleu": version("sacrebleu"),
            "tokenizer": self.test.tokenizer,
        }

    def _scores(self, run: FinishedRun) -> dict[str, Any]:
        def scores(rows: Sequence[int]) -> Scores:
            texts, references = ([side[row] for row in rows] for side in (run.translations, self.test.references))
            return corpus_scores(texts, references, tokenizer=self.test.tokenizer)

        bleu, chrf, *_ = scores(range(len(self.test.references)))
        whole = {
            "bleu": bleu,
            "chrf": chrf,
            "repetition": repetition_rate(run.translations, self.test.tokenizer),
            "length_ratio": length_ratio(run.translations, self.test.references, self.test.tokenizer),
        }
        return {"whole": whole, "bleu_by_length": [scores(rows).bleu for _, rows in self.buckets]}

    def _alignments(self, run: FinishedRun, trust: Sequence[str]) -> dict[str, Any]:
        """Return the number of parameters, and the mean entropy over all target pieces of the references."""
        translator = run.translator(trust)
        entropies: list[float] = []
        if translator.attention.reads_source:
            print_message(f"aligning the references with {run.folder}")
            for first in range(0, len(self.test.sources), GROUP):
                entropies += _entropies(translator, self.test, slice(first, first + GROUP))
        parameters = sum(weight.numel() for weight in translator.trained.model.parameters())
        return {"parameters": parameters, "entropy": float(np.mean(entropies)) if entropies else None}


def _entropies(translator: Translator, test: TestSet, part: slice) -> list[float]:
    sides = test.sources[part], test.references[part]
    decodings = force_decode(translator, *sides, on_failure=lambda row, reason: None)
    alignments = [decoding.alignment for decoding in decodings if decoding.alignment is not None]
    return [entropy for alignment in alignments for entropy in alignment_entropies(alignment).tolist()]


def _mean(records: Sequence[Record], model: Model, metric: str) -> float:
    return fmean(r.value for r in records if (r.model, r.metric, r.lengths) == (model.label, metric, ""))
