"""Measure all models and write the report: report.html, results.csv and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.comparison.alignments import measure_alignments
from nmt.comparison.figures import draw_curves, draw_lengths, draw_pareto, save_figure
from nmt.comparison.lengths import Bucket, length_buckets, spread_rows
from nmt.comparison.measures import Column
from nmt.comparison.models import Model, Run, TestSet, choose_baseline, group_runs, read_test_set
from nmt.comparison.page import Page, Picture, comparison_page
from nmt.comparison.results import (
    QUALITY,
    SCORES,
    SIZES,
    TRAINING,
    Point,
    Row,
    add_speed,
    best_models,
    bucket_columns,
    curves,
    engine_columns,
    memory_columns,
    points,
    quality_row,
    speed_columns,
    write_csv,
)
from nmt.comparison.sentences import draw_sentences
from nmt.comparison.speed import Timing, measure_speed
from nmt.comparison.store import Measurements
from nmt.comparison.tables import Table, latex, markdown, table_of
from nmt.comparison.wording import explain_conditions, explain_measures, summarise
from nmt.errors import counted
from nmt.files.atomic import make_folder, write_lines
from nmt.files.checksum import fingerprint

LONGEST_EXAMPLE = 32  # source pieces of a drawn sentence
NO_EXAMPLE = f"None is drawn: every test source has more than {counted(LONGEST_EXAMPLE, 'piece')}."
FIGURES = "figures"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to compare: what is timed and drawn, and where. ``command`` is the command line.

    ``missing`` are folders of runs that have not finished.
    """

    baseline: str | None
    beams: Sequence[int]
    engines: Sequence[str]
    rounds: int
    sentences: int | None
    examples: int
    device: str
    threads: int | None
    trust: Sequence[str]
    tokenizer: str | None = None
    command: str
    missing: Sequence[Path] = ()


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that was measured."""

    models: list[Model]
    baseline: Model
    test: TestSet
    rows: list[Row]
    points: list[Point]
    buckets: list[Bucket]
    drawn: dict[str, list[dict[str, Any]]]
    example_rows: list[int]
    timed: int
    conditions: dict[str, Any]
    best: dict[str, str]
    """The label of the model that is significantly better than all others, by metric."""
    failures: dict[tuple[str, str], str]
    """Why some engines, by (label, engine), could not be timed."""


def write_report(folder: Path, runs: Sequence[Run], plan: Plan) -> tuple[Comparison, int]:
    """Measure what is not stored yet, and write the report. Return it, and the number of new measurements."""
    store = Measurements(folder)
    comparison = compare_runs(runs, plan, store)
    write_csv(comparison.rows, csv_columns(comparison, plan), folder / "results.csv")
    page = _page(folder, comparison, plan)
    write_lines(folder / "report.html", comparison_page(page).rstrip("\n").split("\n"))
    write_lines(folder / "report.md", [f"# {page.title}", "", *markdown(page.tables)][:-1])
    write_lines(folder / "report.tex", latex(page.tables, page.title)[:-1])
    return comparison, store.measured


def compare_runs(runs: Sequence[Run], plan: Plan, store: Measurements) -> Comparison:
    """Measure quality, alignments and speed of the runs. Raises UserError if they cannot be compared."""
    test, models = read_test_set(runs, plan.tokenizer), group_runs(runs)
    baseline = choose_baseline(models, plan.baseline)
    conditions = _conditions(plan)
    lengths = _source_lengths(baseline.runs[0], test, plan, store)
    buckets = length_buckets(lengths)
    all_rows = [(bucket, bucket.rows(lengths)) for bucket in buckets]
    timed_rows = [(bucket, bucket.rows(lengths[: plan.sentences])) for bucket in buckets]
    timed_rows = [(bucket, rows) for bucket, rows in timed_rows if rows]
    examples = spread_rows(lengths, plan.examples, longest=LONGEST_EXAMPLE)
    facts, drawn = measure_alignments(models, test, examples, store, plan.trust)
    rows = [quality_row(model, baseline, test, facts[model.label], all_rows, store) for model in models]
    groups = [rows for _, rows in timed_rows]
    timing = Timing(plan.engines, plan.beams, plan.rounds, groups, plan.device, plan.threads, plan.trust, conditions)
    speed, failures = measure_speed(models, timing, test, store)
    sizes = [len(group) for group in groups]
    names = [f"{bucket.low}_{bucket.high}" for bucket, _ in timed_rows]
    all_points = []
    for row in rows:
        for engine in plan.engines:
            rounds = speed.get((row.label, engine), [])
            add_speed(row, engine, rounds, sizes, names)
            all_points += points(row, engine, rounds)
    return Comparison(
        models=models,
        baseline=baseline,
        test=test,
        rows=rows,
        points=all_points,
        buckets=buckets,
        drawn=drawn,
        example_rows=examples,
        timed=sum(sizes),
        conditions=conditions,
        best=best_models(rows, test, store),
        failures=failures,
    )


def _conditions(plan: Plan) -> dict[str, Any]:
    """Return toolkit, versions and machine; a measurement of other conditions is another measurement."""
    import torch

    from nmt.training.provenance import provenance

    if plan.threads is not None:
        torch.set_num_threads(plan.threads)
    origin = provenance(plan.device)
    origin["versions"]["onnxruntime"] = version("onnxruntime")
    return {key: origin[key] for key in ("versions", "machine")} | {"toolkit": origin["toolkit"]["version"]}


def _source_lengths(run: Run, test: TestSet, plan: Plan, store: Measurements) -> list[int]:
    """Return the length of each test source in pieces of this run's tokenizer, with ``</s>``."""

    def count() -> list[int]:
        from nmt.inference.model_folder import load_folder
        from nmt.inference.translator import Translator

        translator = Translator(load_folder(run.folder, trust=plan.trust))
        return [len(translator.encode(line)) for line in test.sources]

    key = {"kind": "lengths", "model": run.fingerprint, "text": fingerprint(test.sources)}
    lengths: list[int] = store.measure(key, count)
    return lengths


def csv_columns(comparison: Comparison, plan: Plan) -> list[Column]:
    """Return the columns of results.csv, for every engine and beam size."""
    columns = [*QUALITY, *TRAINING, *speed_columns(plan.engines, plan.beams), *memory_columns(plan.engines)]
    columns += engine_columns(plan.engines, plan.beams)
    for engine in plan.engines:
        for beam in plan.beams:
            columns += chain(*bucket_columns(comparison.buckets, engine, beam))
    return list(dict.fromkeys(columns))


def _page(folder: Path, comparison: Comparison, plan: Plan) -> Page:
    make_folder(folder / FIGURES)
    sentences = draw_sentences(comparison.drawn, comparison.test, comparison.example_rows, folder / FIGURES)
    return Page(
        title=f"Comparison {folder.name}",
        summary=summarise(comparison.rows, comparison.baseline, len(comparison.test.sources), plan.missing),
        tables=_tables(comparison, plan),
        pictures=_pictures(folder / FIGURES, comparison, plan),
        sentences=sentences,
        notes=[
            *explain_measures(comparison.timed, plan.rounds, plan.threads, plan.device, comparison.test.tokenizer),
            *((f"not timed: {label}, {engine}", reason) for (label, engine), reason in comparison.failures.items()),
            *([("alignments", NO_EXAMPLE)] if plan.examples and not comparison.example_rows else []),
        ],
        facts=explain_conditions(comparison.rows, comparison.conditions, plan.command),
    )


def _tables(comparison: Comparison, plan: Plan) -> list[Table]:
    """Return quality, training, and a table for each engine: a table of all engines would be too wide."""
    rows, baseline = comparison.rows, comparison.baseline.label
    tables = [
        table_of("Quality", rows, SCORES, baseline=baseline, best=comparison.best),
        table_of("Size and training", rows, [*SIZES, *TRAINING], baseline=baseline),
    ]
    for engine in plan.engines:
        columns = [*speed_columns([engine], plan.beams), *memory_columns([engine])]
        tables.append(table_of(f"Decoding with {engine}", rows, columns, baseline=baseline))
    return [table for table in tables if len(table.columns) > 2]


def _pictures(folder: Path, comparison: Comparison, plan: Plan) -> list[tuple[str, list[Picture]]]:
    pictures = []
    figure = draw_curves({model.label: [curves(run) for run in model.runs] for model in comparison.models})
    if figure is not None:
        text = "Loss and greedy BLEU of the validation set after each epoch; one line per run."
        pictures.append(("Learning curves", [Picture(save_figure(figure, folder / "learning-curves"), text)]))
    figure = draw_pareto(comparison.points)
    if figure is not None:
        text = (
            "BLEU of the timed sentences against decoding time, one run of each model. The line joins the points that "
            "no other point beats in both."
        )
        pictures.append(("Quality against decoding time", [Picture(save_figure(figure, folder / "pareto"), text)]))
    if plan.engines and plan.beams:
        engine, beam = plan.engines[0], max(plan.beams)
        bleu, times = bucket_columns(comparison.buckets, engine, beam)
        labels = [bucket.label for bucket in comparison.buckets]
        figure = draw_lengths(comparison.rows, labels, bleu, times, f"{engine}, beam {beam}")
        text = (
            "BLEU and decoding time by source length. Bars are one standard deviation: of BLEU over runs, of time over "
            "rounds."
        )
        pictures.append(("Source length", [Picture(save_figure(figure, folder / "lengths"), text)]))
    return pictures
