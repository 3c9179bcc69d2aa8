"""Measure all models and write the report: report.html, its tables as Markdown and LaTeX, results.csv and figures."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.alignment.figures import save_figure
from nmt.alignment.page import EQUAL, Example, alignment_table, escape, html_page, spread
from nmt.comparison.figures import draw_lengths, draw_pareto, timed_points
from nmt.comparison.models import (
    CompareOptions,
    FinishedRun,
    Model,
    TestSet,
    choose_baseline,
    differing_settings,
    group_runs,
    read_test_set,
)
from nmt.comparison.quality import SAMPLES, alignment_records, differences, length_groups, run_records
from nmt.comparison.records import SCORES, SIZES, Record, html_table, latex, markdown, pivot, save_csv, speed_columns
from nmt.comparison.speed import ROUNDS, SENTENCES, measure_speed
from nmt.errors import counted, print_message, printable
from nmt.files.atomic import make_folder, write_lines
from nmt.inference.run_files import METRICS_FILE
from nmt.inference.translator import Translator
from nmt.training.metrics import draw_curves, read_metrics
from nmt.training.provenance import commit_text, provenance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = 3  # test sentences whose alignments are drawn
LONGEST_EXAMPLE = 32  # source pieces of such a sentence
STYLE = """
:root { color-scheme: light; --ink: #1c2733; --paper: #fff; --rule: #d9d5cb }
body { max-width: 84rem }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem } h3 { font-size: 1rem; margin: 1.6rem 0 .3rem }
p, dl { max-width: 60rem; overflow-wrap: anywhere } dt { font-weight: 600; margin-top: .5rem } dd { margin: 0 }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem }
.scroll > table th, .scroll > table td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--rule) }
.scroll > table th:first-child { text-align: left }
figure { margin: .8rem 0 } figure img { max-width: 100%; height: auto } figcaption { font-size: .9rem }
.models { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start }
"""
EXPLANATIONS = {
    "n and ±": "n is the number of runs. ± is the sample standard deviation over runs, and for decoding over rounds.",
    "vs baseline (p)": "Mean difference from the baseline, and the two-sided p-value of sacrebleu's paired bootstrap "
    f"test with {SAMPLES:,} samples, one per run, against the baseline's run with the same seed, or else in the same "
    "place. * means that all of several runs differ in the same direction with p < 0.05, and that BLEU is not at "
    "chance (below 1).",
    "AER": "Links of the force-decoded references against the gold links; lower is better.",
    "alignment entropy": "Mean over the target pieces of the force-decoded references, in nats. 0: a piece reads one "
    "source piece; log S: it reads all S source pieces equally. Negative weights count by their absolute value.",
    "repetition": "Share of word bigrams that occurred before in the same translation.",
    "length ratio": "Length of the translations over that of the references, as sacrebleu's BLEU counts words.",
    "training": "Target pieces per second, without validation, and duration, as each run recorded them. Compare "
    "numbers per piece for models with the same tokenizer only.",
    "peak RAM": "RAM of a new process that loads the model and translates.",
    "source length": "Pieces of the baseline's tokenizer, with the end of sentence; groups of about equal size. Times "
    "are for each piece that a model wrote.",
}


def write_report(
    options: CompareOptions, runs: Sequence[FinishedRun], missing: Sequence[Path], command: str
) -> tuple[list[Model], list[Record]]:
    """Measure all models, write the report, and return models and records.

    ``missing`` are the folders of runs that have not finished. Raises UserError if the runs cannot be compared.
    """
    folder = options.folder
    test = read_test_set(runs, options.evaluation.tokenizer)
    models = group_runs(runs)
    baseline = choose_baseline(models, options.baseline)

    tokenizer = _load(baseline.runs[0], options)
    lengths = [len(tokenizer.encode(line)) for line in test.sources]
    groups = length_groups(lengths)
    timed = {name: rows for name, part in groups.items() if (rows := [row for row in part if row < SENTENCES])}
    short = [row for row, length in enumerate(lengths) if 1 < length <= LONGEST_EXAMPLE]  # 1: an empty line
    shown = spread(short, lengths, EXAMPLES)
    records: list[Record] = []
    examples: dict[str, Mapping[int, Example]] = {}
    for label, runs in models:
        for run in runs:
            print_message(f"scoring {run.folder}, and aligning the references")
            record = partial(Record, label, str(run.folder))
            records += run_records(record, run, test, groups)
            aligned, drawn = alignment_records(record, _load(run, options), test, shown)
            records += aligned
            examples.setdefault(label, drawn)
    tests = {model.label: differences(model, baseline, test) for model in models if model is not baseline}
    speed, failures = measure_speed(models, options, test, timed)
    records += speed

    counts = {model.label: len(model.runs) for model in models}
    tables = [
        pivot("Quality", counts, records, SCORES, tests),
        pivot("Size and training", counts, records, SIZES),
        *(pivot(f"Decoding with {e}", counts, records, speed_columns(e, options.beams)) for e in options.engines),
    ]
    tables = [table for table in tables if len(table.columns) > 2]
    save_csv(folder / "results.csv", [Record._fields, *records])
    title = printable(f"Comparison {folder.name}")
    write_lines(folder / "report.md", markdown(tables, title))
    write_lines(folder / "report.tex", latex(tables, title))
    make_folder(folder / "figures")
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in summary(models, baseline, len(test.sources), missing)),
        *(f"<h2>{escape(table.heading)}</h2>{html_table(table)}" for table in tables),
        *_figures(folder / "figures", models, records, [*groups], options),
        *_examples(test, shown, examples),
        f"<h2>How it was measured</h2>{_list(_explanations(options, sum(map(len, timed.values())), test) | failures)}",
        f"<h2>Conditions</h2>{_list(_conditions(models, options, command))}",
    ]
    write_lines(folder / "report.html", html_page(title, STYLE, "\n".join(parts)).rstrip("\n").split("\n"))
    return models, records


def _load(run: FinishedRun, options: CompareOptions) -> Translator:
    return Translator.load(
        run.folder, engine="torch", device=options.device, threads=options.threads, trust=options.trust
    )


def summary(models: Sequence[Model], baseline: Model, sentences: int, missing: Sequence[Path]) -> Iterator[str]:
    """Yield the first lines of a report: models, budgets, and what spoils the comparison."""
    runs = [run for model in models for run in model.runs]
    text = f"{counted(len(models), 'model')}, {counted(len(runs), 'run')}, {counted(sentences, 'test sentence')}."
    yield f"{text} Baseline: {baseline.label}. {budget(models)}"
    if missing:
        yield f"Left out, because they have not finished: {', '.join(map(str, missing))}."
    if len({str(run.summary.get("machine")) for run in runs}) > 1:
        yield "Trained on different machines, so training times are not comparable."


def budget(models: Sequence[Model]) -> str:
    """Return the number of updates of the models, and whether their scores can be compared."""
    updates = {label: {run.seed: run.summary["updates"] for run in runs} for label, runs in models}
    counts = sorted({count for seeds in updates.values() for count in seeds.values()})
    if len(counts) == 1 or all(seeds == updates[models[0].label] for seeds in updates.values()):
        span = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
        return f"Budget: {span} updates for each model."
    listed = "; ".join(f"{label} {', '.join(map(str, seeds.values()))}" for label, seeds in updates.items())
    return f"The budgets differ, so the scores are not comparable. Updates: {listed}."


def _figures(
    folder: Path, models: Sequence[Model], records: Sequence[Record], lengths: Sequence[str], options: CompareOptions
) -> Iterator[str]:
    """Draw the figures of all models, and yield their HTML."""
    files = {model.label: [run.folder / METRICS_FILE for run in model.runs] for model in models}
    curves = {label: [read_metrics(file) for file in runs if file.is_file()] for label, runs in files.items()}
    text = "Losses, training in pale, and greedy BLEU of the validation set if it was measured; one line per run."
    yield _picture("Learning curves", draw_curves(curves), folder / "learning-curves", text)
    if points := timed_points(records):
        text = (
            "BLEU of the timed sentences against decoding time, one run of each model. The line joins the points that "
            "no other point beats in both, unless all are at chance."
        )
        yield _picture("Quality against decoding time", draw_pareto(points), folder / "pareto", text)
    if options.engines and options.beams:
        figure = draw_lengths(records, [*files], lengths, options.engines[0], max(options.beams))
        text = "BLEU over runs and decoding time over rounds by source length. Bars are one standard deviation."
        yield _picture("Source length", figure, folder / "lengths", text)


def _picture(heading: str, figure: Figure, path: Path, caption: str) -> str:
    """Save the figure as ``path`` with the suffixes .png, .svg and .pdf, and return its HTML."""
    for suffix in (".svg", ".pdf", ".png"):
        save_figure(figure, path.with_suffix(suffix))
    picture = base64.b64encode(path.with_suffix(".png").read_bytes()).decode()
    image = f'<img src="data:image/png;base64,{picture}" alt="{escape(caption)}">'
    return f"<h2>{heading}</h2><figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _examples(test: TestSet, rows: Iterable[int], examples: Mapping[str, Mapping[int, Example]]) -> Iterator[str]:
    """Yield the word alignments of the same references by the first run of each model, beside each other."""
    if any(examples.values()):
        text = f"References, force-decoded. A darker cell is a larger weight. {EQUAL}Orange outlines are gold links."
        yield f"<h2>Alignments of the same sentences</h2><p>{text}</p>"
        for row in rows:
            texts = f"{escape(test.sources[row])}<br>{escape(test.references[row])}"
            yield f'<h3>Sentence {row + 1}</h3><p>{texts}</p><div class="models">'
            for label, drawn in examples.items():
                if row in drawn:
                    yield f"<div><b>{escape(label)}</b>{alignment_table(drawn[row])}</div>"
            yield "</div>"


def _explanations(options: CompareOptions, sentences: int, test: TestSet) -> dict[str, str]:
    cores = "all cores" if options.threads is None else counted(options.threads, "thread")
    timing = (
        f"The first run of each model translates {counted(sentences, 'test sentence')}, grouped by source length, in "
        f"{ROUNDS} rounds with {cores} on device={options.device} (onnxruntime: CPU). Models take turns. Loading is "
        "not included. No beam size has a coverage penalty."
    )
    scores = f"sacrebleu {version('sacrebleu')}, tokenizer {test.tokenizer}; each run with its own search settings."
    return {"BLEU, chrF": scores, **EXPLANATIONS, "sentences/s": timing}


def _conditions(models: Sequence[Model], options: CompareOptions, command: str) -> dict[str, str]:
    """Return the command, the machine, the versions, and the folder and own settings of each model."""
    origin = provenance(options.device)
    versions = {**origin["versions"], "onnxruntime": version("onnxruntime"), "toolkit": origin["toolkit"]["version"]}
    settings = differing_settings({model.label: model.runs[0] for model in models})
    summaries = [run.summary for model in models for run in model.runs]
    commits = {commit_text(summary.get("toolkit") or {}) for summary in summaries}
    return {
        "command": command,
        "machine": ", ".join(f"{key} {value}" for key, value in origin["machine"].items()),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "trained at commit": ", ".join(sorted(commits)),
        **{label: "; ".join([*map(_weights, runs), *settings[label]]) for label, runs in models},
    }


def _weights(run: FinishedRun) -> str:
    """Return the folder of a run, and which of its weights it kept."""
    return f"{run.folder} (epoch {run.summary.get('kept_epoch')})"


def _list(texts: Mapping[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in texts.items())}</dl>"
