"""The numbers of a comparison: one row per model, with the values of all its runs, and ``results.csv``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from nmt.comparison.measures import (
    SAMPLES,
    Bucket,
    Column,
    Difference,
    Measurements,
    all_better,
    length_ratio,
    mean_and_deviation,
    paired_bootstrap,
    repetition_rate,
    save_csv,
)
from nmt.comparison.models import FinishedRun, Model, TestSet
from nmt.errors import printable
from nmt.files.checksum import fingerprint
from nmt.inference.run_files import METRICS_FILE
from nmt.inference.scores import Scores, corpus_scores
from nmt.training.metrics import NEAR_ZERO


@dataclass(frozen=True)
class Row:
    """A model with its values by column: one per run, or one per round for times."""

    label: str
    runs: list[FinishedRun]
    values: dict[str, list[float]]
    tests: dict[str, list[Difference]]
    """Differences from the baseline, one per run, by metric; empty for the baseline."""


class Point(NamedTuple):
    """A model with an engine and a beam size: milliseconds per sentence and BLEU on the timed sentences."""

    label: str
    engine: str
    beam: int
    milliseconds: float
    bleu: float


TESTED = ("bleu", "chrf")
SIZES = (
    Column("parameters", "parameters", ",.0f", exact=True),
    Column("updates", "updates", ",.0f", exact=True),
)
SCORES = (
    Column("bleu", "BLEU", ".2f"),
    Column("chrf", "chrF", ".2f"),
    Column("aer", "AER", ".3f"),
    Column("entropy", "alignment entropy", ".2f"),
    Column("repetition", "repetition", ".2%"),
    Column("length_ratio", "length ratio", ".3f"),
)
QUALITY = (*SIZES, *SCORES)
TRAINING = (
    Column("train_tokens_per_s", "training tokens/s", ",.0f"),
    Column("train_seconds", "training seconds", ",.0f"),
)


def speed_columns(engines: Sequence[str], beams: Sequence[int]) -> list[Column]:
    return _search_columns("sentences_per_s", "sentences/s", ",.1f", engines, beams)


def memory_columns(engines: Sequence[str]) -> list[Column]:
    return [Column(f"memory_mb_{engine}", f"{engine}: peak memory, MB", ",.0f") for engine in engines]


def bucket_columns(buckets: Sequence[Bucket], engine: str, beam: int) -> tuple[list[Column], list[Column]]:
    """Return the columns of BLEU, and those of the milliseconds per sentence."""
    bleu = [Column(f"bleu_{bucket.key}", f"BLEU {bucket.label}", ".2f") for bucket in buckets]
    times = [Column(f"ms_{bucket.key}_{engine}_beam_{beam}", f"ms {bucket.label}", ",.2f") for bucket in buckets]
    return bleu, times


def csv_columns(buckets: Sequence[Bucket], engines: Sequence[str], beams: Sequence[int]) -> list[Column]:
    """Return the columns of results.csv, for every engine and beam size."""
    columns = [*QUALITY, *TRAINING, *speed_columns(engines, beams), *memory_columns(engines)]
    columns += _search_columns("bleu", "BLEU", ".2f", engines, beams)  # of the timed sentences
    for engine in engines:
        for beam in beams:
            columns += chain(*bucket_columns(buckets, engine, beam))
    return list(dict.fromkeys(columns))


def _search_columns(key: str, heading: str, form: str, engines: Sequence[str], beams: Sequence[int]) -> list[Column]:
    return [
        Column(f"{key}_{engine}_beam_{beam}", f"{engine}, beam {beam}: {heading}", form)
        for engine in engines
        for beam in beams
    ]


def quality_row(
    model: Model,
    baseline: Model,
    test: TestSet,
    alignments: Sequence[Mapping[str, Any]],
    buckets: Sequence[tuple[Bucket, Sequence[int]]],
    store: Measurements,
) -> Row:
    """Return the row of a model, without its speed. ``alignments`` has parameters and entropy of each run."""
    values: dict[str, list[float]] = {}
    tests: dict[str, list[Difference]] = {}
    for index, (run, aligned) in enumerate(zip(model.runs, alignments, strict=True)):
        key = {**_text_key("text", test, run), "buckets": [rows for _, rows in buckets]}
        measured = {
            **store.measure(key, partial(_text_measures, run, test, buckets)),
            "parameters": aligned["parameters"],
            "entropy": aligned["entropy"],
            "aer": run.summary["test"].get("aer"),
            "train_tokens_per_s": run.summary.get("tokens_per_s"),
            "train_seconds": run.summary.get("seconds"),
            "updates": run.summary.get("updates"),
        }
        for column, value in measured.items():
            if value is not None:
                values.setdefault(column, []).append(float(value))
        if model is not baseline:
            for metric, difference in _differences(run, _paired_run(run, baseline.runs, index), test, store).items():
                tests.setdefault(metric, []).append(difference)
    return Row(model.label, model.runs, values, tests)


def _differences(run: FinishedRun, other: FinishedRun, test: TestSet, store: Measurements) -> dict[str, Difference]:
    """Return the difference of a run from another, by metric."""
    key = {**_text_key("two_sided_bootstrap", test, run, other), "samples": SAMPLES}
    action = partial(paired_bootstrap, other.translations, run.translations, test.references, tokenizer=test.tokenizer)
    return {metric: Difference(*difference) for metric, difference in store.measure(key, action).items()}


def best_models(rows: Sequence[Row], test: TestSet, store: Measurements) -> dict[str, str]:
    """Return the label of the model that is significantly better than all others, by metric.

    A metric without such a model is left out, and so are scores that chance explains: a BLEU below ``NEAR_ZERO``.
    """
    best: dict[str, str] = {}
    for metric in TESTED:
        first, *others = sorted(rows, key=lambda row: -fmean(row.values[metric]))
        chance = fmean(first.values["bleu"]) < NEAR_ZERO
        if others and not chance and all(all_better(_tests(first, row, metric, test, store)) for row in others):
            best[metric] = first.label
    return best


def _tests(row: Row, other: Row, metric: str, test: TestSet, store: Measurements) -> list[Difference]:
    """Return the differences of the runs of a row from those of another. The row may already have them."""
    if not row.tests and other.tests:
        return [Difference(-difference.delta, difference.p) for difference in other.tests[metric]]
    pairs = [(run, _paired_run(run, other.runs, index)) for index, run in enumerate(row.runs)]
    return [_differences(*pair, test, store)[metric] for pair in pairs]


def _text_key(kind: str, test: TestSet, *runs: FinishedRun) -> dict[str, Any]:
    texts = [fingerprint(run.translations) for run in runs]
    text = fingerprint([*test.sources, *test.references])
    versions = {"sacrebleu": version("sacrebleu"), "tokenizer": test.tokenizer}
    return {"kind": kind, "text": text, "translations": texts, **versions}


def _text_measures(run: FinishedRun, test: TestSet, buckets: Sequence[tuple[Bucket, Sequence[int]]]) -> dict[str, Any]:
    def scores(rows: Sequence[int]) -> Scores:
        texts, references = ([side[row] for row in rows] for side in (run.translations, test.references))
        return corpus_scores(texts, references, tokenizer=test.tokenizer)

    bleu, chrf, *_ = scores(range(len(test.references)))
    return {
        "bleu": bleu,
        "chrf": chrf,
        "repetition": repetition_rate(run.translations, test.tokenizer),
        "length_ratio": length_ratio(run.translations, test.references, test.tokenizer),
        **{f"bleu_{bucket.key}": scores(rows).bleu for bucket, rows in buckets},
    }


def _paired_run(run: FinishedRun, others: Sequence[FinishedRun], index: int) -> FinishedRun:
    """Return the other model's run with the same seed, or else the one at the same index, or else its first."""
    same = [other for other in others if other.config.get("seed") == run.config.get("seed")]
    return (same or others[index : index + 1] or others)[0]


def curves(run: FinishedRun) -> dict[str, list[tuple[int, float]]]:
    """Return the metrics of a run by update; empty if their file is missing."""
    from nmt.training.metrics import read_metrics

    file = run.folder / METRICS_FILE
    return read_metrics(file) if file.is_file() else {}


def add_speed(
    row: Row, engine: str, rounds: Sequence[Mapping[str, Any]], buckets: Sequence[tuple[Bucket, Sequence[int]]]
) -> None:
    """Add the rounds of one engine, which has translated the rows of these ``buckets``, to a row of the report."""
    sizes = [len(rows) for _, rows in buckets]
    for measured in rounds:
        added = {f"memory_mb_{engine}": measured["memory_mb"]}
        for beam, timed in measured["beams"].items():
            search = f"{engine}_beam_{beam}"
            row.values[f"bleu_{search}"] = [timed["bleu"]]  # the same in every round
            added[f"sentences_per_s_{search}"] = sum(sizes) / sum(timed["seconds"])
            for (bucket, _), size, seconds in zip(buckets, sizes, timed["seconds"], strict=True):
                added[f"ms_{bucket.key}_{search}"] = 1000 * seconds / size
        for key, value in added.items():
            if value is not None:
                row.values.setdefault(key, []).append(value)


def points(rows: Sequence[Row], engines: Sequence[str], beams: Sequence[int]) -> list[Point]:
    """Return the mean time and BLEU of each model, engine and beam size that was timed."""
    return [
        Point(
            label=row.label,
            engine=engine,
            beam=beam,
            milliseconds=1000 / fmean(rates),
            bleu=row.values[f"bleu_{engine}_beam_{beam}"][0],
        )
        for row in rows
        for engine in engines
        for beam in beams
        if (rates := row.values.get(f"sentences_per_s_{engine}_beam_{beam}"))
    ]


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other point beats in both time and BLEU, from fast to slow."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.milliseconds, -point.bleu)):
        if not front or point.bleu > front[-1].bleu:
            front.append(point)
    return front


def write_csv(rows: Sequence[Row], columns: Sequence[Column], path: Path) -> None:
    """Write one line per model: mean and standard deviation of each column, and the tests of all its runs."""
    statistics = [f"{column.key}_{name}" for column in columns for name in ("mean", "sd")]
    tests = [(metric, name) for metric in TESTED for name in Difference._fields]
    lines: list[list[Any]] = [["model", "n", *statistics, *map("_".join, tests), "folders"]]
    for row in rows:
        cells = [cell for column in columns for cell in mean_and_deviation(row.values.get(column.key, []))]
        differences = [
            " ".join(f"{getattr(test, name):.4g}" for test in row.tests.get(metric, ())) for metric, name in tests
        ]
        folders = printable(" ".join(str(run.folder) for run in row.runs))
        lines.append([row.label, len(row.runs), *cells, *differences, folders])
    save_csv(path, lines)
