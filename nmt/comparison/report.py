"""Measure all models and write the report: report.html, results.csv and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from nmt.alignment.figures import mix_slots
from nmt.comparison.alignments import load_translator, measure_alignments
from nmt.comparison.figures import Panel, draw_curves, draw_heatmaps, draw_lengths, draw_pareto, save_formats
from nmt.comparison.measures import Bucket, Measurements, length_buckets, spread_rows
from nmt.comparison.models import CompareOptions, FinishedRun, TestSet, choose_baseline, group_runs, read_test_set
from nmt.comparison.page import Picture, SectionPart, Subheading, Table, comparison_page, latex, markdown, table_of
from nmt.comparison.results import (
    SCORES,
    SIZES,
    TRAINING,
    Row,
    add_speed,
    best_models,
    bucket_columns,
    csv_columns,
    curves,
    memory_columns,
    points,
    quality_row,
    speed_columns,
    write_csv,
)
from nmt.comparison.speed import Timing, measure_speed
from nmt.comparison.wording import explain_conditions, explain_measures, summarise
from nmt.errors import counted, printable
from nmt.files.atomic import make_folder, write_lines
from nmt.files.checksum import fingerprint

LONGEST_EXAMPLE = 32  # source pieces of a drawn sentence
NO_EXAMPLE = f"None is drawn: every test source has more than {counted(LONGEST_EXAMPLE, 'piece')}."
COLOURS = (
    "References, force-decoded: target down, source across. Alignments show the share of each source word by absolute "
    "value; darker is larger. In α and β with negative weights, blue is positive and red negative. The bars show the "
    "scales. Orange outlines are gold links."
)

MIXED = (
    "β_tk α_ks between pieces, target down, source across: one colour per slot, from red (the first) to violet (the "
    "last). A cell mixes the colours of its slots."
)


def write_report(
    options: CompareOptions, runs: Sequence[FinishedRun], missing: Sequence[Path], command: str
) -> tuple[list[Row], int]:
    """Measure all models and write the report. Return its rows, and the number of measurements that were not stored.

    ``missing`` are the folders of runs that have not finished. Raises UserError if the runs cannot be compared.
    """
    folder = options.folder
    test = read_test_set(runs, options.evaluation.tokenizer)
    models = group_runs(runs)
    baseline = choose_baseline(models, options.baseline)
    store = Measurements(folder)
    conditions = _conditions(options)
    lengths = _source_lengths(baseline.runs[0], test, options, store)
    buckets = length_buckets(lengths)
    translated = [(bucket, bucket.rows(lengths)) for bucket in buckets]
    timed = [(bucket, group) for bucket in buckets if (group := bucket.rows(lengths[: options.sentences]))]
    examples = spread_rows(lengths, options.examples, longest=LONGEST_EXAMPLE)
    measured, drawn = measure_alignments(models, test, examples, store, options.trust)
    rows = [quality_row(model, baseline, test, measured[model.label], translated, store) for model in models]
    timing = Timing(options, test, [group for _, group in timed], conditions)
    speed, failures = measure_speed(models, timing, store)
    for row in rows:
        for engine in options.engines:
            add_speed(row, engine, speed.get((row.label, engine), []), timed)
    tables = _tables(rows, best_models(rows, test, store), baseline.label, options)

    write_csv(rows, csv_columns(buckets, options.engines, options.beams), folder / "results.csv")
    figures = folder / "figures"
    make_folder(figures)
    notes = explain_measures(options, sum(len(group) for _, group in timed), test.tokenizer, rows)
    notes += [(f"not timed: {label}, {engine}", reason) for (label, engine), reason in failures.items()]
    sections: list[tuple[str, Sequence[SectionPart]]] = [
        ("", summarise(rows, baseline.label, len(test.sources), missing)),
        *((table.heading, [table]) for table in tables),
        *((heading, [picture]) for heading, picture in _pictures(figures, rows, buckets, options)),
    ]
    if examples:
        sections.append(("Alignments of the same sentences", [COLOURS, *_sentences(figures, drawn, test, examples)]))
    elif options.examples:
        notes.append(("alignments", NO_EXAMPLE))
    sections.append(("How it was measured", [notes]))
    sections.append(("Conditions", [explain_conditions(rows, conditions, command)]))
    title = printable(f"Comparison {folder.name}")
    write_lines(folder / "report.html", comparison_page(title, sections).rstrip("\n").split("\n"))
    write_lines(folder / "report.md", markdown(tables, title)[:-1])
    write_lines(folder / "report.tex", latex(tables, title)[:-1])
    return rows, store.measured


def _conditions(options: CompareOptions) -> dict[str, Any]:
    """Return toolkit, versions and machine. They are part of the keys of timings."""
    import torch

    from nmt.training.provenance import provenance

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    origin = provenance(options.device)
    origin["versions"]["onnxruntime"] = version("onnxruntime")
    return {key: origin[key] for key in ("versions", "machine")} | {"toolkit": origin["toolkit"]["version"]}


def _source_lengths(run: FinishedRun, test: TestSet, options: CompareOptions, store: Measurements) -> list[int]:
    """Return the length of each test source in pieces of this run's tokenizer, with ``</s>``."""

    def count() -> list[int]:
        translator = load_translator(run, options.trust)
        return [len(translator.encode(line)) for line in test.sources]

    key = {"kind": "lengths", "model": run.fingerprint, "text": fingerprint(test.sources)}
    lengths: list[int] = store.measure(key, count)
    return lengths


def _tables(rows: Sequence[Row], best: Mapping[str, str], baseline: str, options: CompareOptions) -> list[Table]:
    """Return a table of quality, one of training, and one for each engine: for all engines it would be too wide."""
    tables = [
        table_of("Quality", rows, SCORES, baseline=baseline, best=best),
        table_of("Size and training", rows, [*SIZES, *TRAINING], baseline=baseline),
    ]
    for engine in options.engines:
        columns = [*speed_columns([engine], options.beams), *memory_columns([engine])]
        tables.append(table_of(f"Decoding with {engine}", rows, columns, baseline=baseline))
    return [table for table in tables if len(table.columns) > 2]


def _pictures(
    folder: Path, rows: Sequence[Row], buckets: Sequence[Bucket], options: CompareOptions
) -> list[tuple[str, Picture]]:
    """Draw the figures of all models; return each with its heading."""
    pictures = []
    if figure := draw_curves({row.label: [curves(run) for run in row.runs] for row in rows}):
        text = "Loss and greedy BLEU of the validation set after each epoch; one line per run."
        pictures.append(("Learning curves", Picture(save_formats(figure, folder / "learning-curves"), text)))
    if timed := points(rows, options.engines, options.beams):
        text = (
            "BLEU of the timed sentences against decoding time, one run of each model. The line joins the points that "
            "no other point beats in both."
        )
        picture = Picture(save_formats(draw_pareto(timed), folder / "pareto"), text)
        pictures.append(("Quality against decoding time", picture))
    if options.engines and options.beams:
        engine = options.engines[0]
        beam = max(options.beams)
        columns = bucket_columns(buckets, engine, beam)
        figure = draw_lengths(rows, [bucket.label for bucket in buckets], *columns, f"{engine}, beam {beam}")
        text = (
            "BLEU and decoding time by source length. Bars are one standard deviation: of BLEU over runs, of time over "
            "rounds."
        )
        pictures.append(("Source length", Picture(save_formats(figure, folder / "lengths"), text)))
    return pictures


def _sentences(
    folder: Path, drawn: Mapping[str, Sequence[Mapping[str, Any]]], test: TestSet, rows: Sequence[int]
) -> list[SectionPart]:
    """Draw each sentence once for all models: their alignments, then α and β of those that write into slots.

    A last picture shows β_tk α_ks, unless weights are negative.
    """
    parts: list[SectionPart] = []
    for number, row in enumerate(rows):
        gold = test.golds[row].possible if test.golds else ()
        weights = {label: examples[number] for label, examples in drawn.items() if examples[number]["weights"]}
        slots = {label: example for label, example in weights.items() if example["write"]}
        parts += [Subheading(f"Sentence {number + 1}"), f"{test.sources[row]}\n{test.references[row]}"]
        if weights:
            panels = [
                Panel(label, np.array(example["weights"]), example["target"], example["source"], gold=gold)
                for label, example in weights.items()
            ]
            path = save_formats(draw_heatmaps(panels), folder / f"alignments-{number + 1}")
            parts.append(Picture(path, f"Alignments between words: {', '.join(weights)}."))
        if slots:
            panels = [panel for label, example in slots.items() for panel in _slots(label, example)]
            path = save_formats(draw_heatmaps(panels, columns=2), folder / f"slots-{number + 1}")
            text = "α (written): each source piece in each slot. β (read): each slot for each target piece."
            parts.append(Picture(path, text))
        if mixed := [panel for label, example in slots.items() for panel in _mixed_slots(label, example)]:
            path = save_formats(draw_heatmaps(mixed), folder / f"slot-colours-{number + 1}")
            parts.append(Picture(path, MIXED))
    return parts


def _mixed_slots(label: str, example: Mapping[str, Any]) -> Iterator[Panel]:
    """Yield the panel that shows which slot each weight comes from; none for negative weights, which have no colour."""
    write, read = (np.array(example[side]) for side in ("write", "read"))
    if min(write.min(), read.min()) >= 0:
        colours, largest = mix_slots(write, read)
        title = f"{label}: full colour is {largest:.2f}"
        yield Panel(title, colours, example["target_pieces"], example["source_pieces"], quantity="βα")


def _slots(label: str, example: Mapping[str, Any]) -> list[Panel]:
    write = np.array(example["write"])
    read = np.array(example["read"])
    return [
        Panel(f"{label}: α, slots down, source across", write, [], example["source_pieces"], quantity="α"),
        Panel(f"{label}: β, target down, slots across", read, example["target_pieces"], [], quantity="β"),
    ]
