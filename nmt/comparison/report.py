"""Measure all models and write the report: report.html, its tables as Markdown and LaTeX, results.csv and figures."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nmt.alignment.page import Example, alignment_table, escape, html_page
from nmt.alignment.word_weights import display_weights
from nmt.comparison.figures import draw_curves, draw_lengths, draw_pareto, save_formats, timed_points
from nmt.comparison.measures import SAMPLES, Bucket, Measurements, length_buckets, spread_rows
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
from nmt.comparison.quality import Quality
from nmt.comparison.records import SCORES, SIZES, Record, speed_columns, write_records
from nmt.comparison.speed import Timing, measure_speed
from nmt.comparison.tables import html_table, latex, markdown, pivot
from nmt.errors import counted, printable
from nmt.files.atomic import make_folder, write_lines
from nmt.files.checksum import fingerprint
from nmt.inference.forced_decoding import force_decode
from nmt.inference.run_files import METRICS_FILE
from nmt.training.provenance import commit_text

LONGEST_EXAMPLE = 32  # source pieces of a drawn sentence
FEW_SENTENCES = 100  # with fewer, single sentences decide
STYLE = """
:root { color-scheme: light; --ink: #1c2733; --paper: #fff; --rule: #d9d5cb }
body { max-width: 84rem }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem } h3 { font-size: 1rem; margin: 1.6rem 0 .3rem }
p, dl { max-width: 60rem; overflow-wrap: anywhere } dt { font-weight: 600; margin-top: .5rem } dd { margin: 0 }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem }
.scroll > table th, .scroll > table td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--rule) }
.scroll > table th:first-child { text-align: left } .sd { opacity: .65 }
figure { margin: .8rem 0 } figure img { max-width: 100%; height: auto } figcaption { font-size: .9rem }
.models { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start }
"""
EXPLANATIONS = {
    "n and ±": "n is the number of runs. ± is the sample standard deviation over runs, and for decoding over rounds.",
    "vs baseline (p)": "Mean difference from the baseline, and the two-sided p-value of sacrebleu's paired bootstrap "
    f"test with {SAMPLES:,} samples, one per run, against the baseline's run with the same seed. * means that all runs "
    "differ in the same direction with p < 0.05. A bold score is significantly better than those of all other models.",
    "AER": "Links of the force-decoded references against the gold links; lower is better.",
    "alignment entropy": "Mean over the target pieces of the force-decoded references, in nats. 0: a piece reads one "
    "source piece; log S: it reads all S source pieces equally. Negative weights count by their absolute value.",
    "repetition": "Share of word bigrams that occurred before in the same translation.",
    "length ratio": "Length of the translations over that of the references, as sacrebleu's BLEU counts words.",
    "training": "Target pieces per second, without validation, and duration, as each run recorded them. Compare "
    "numbers per piece for models with the same tokenizer only.",
    "peak RAM": "RAM of a new process that loads the model and translates.",
    "source length": "Pieces of the baseline's tokenizer, with the end of sentence; groups of about equal size.",
}


def write_report(
    options: CompareOptions, runs: Sequence[FinishedRun], missing: Sequence[Path], command: str
) -> tuple[list[Model], list[Record], int]:
    """Measure all models and write the report. Return models, records, and how many measurements were not stored.

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
    quality = Quality(test, [(bucket, bucket.rows(lengths)) for bucket in buckets], store)
    records = [record for model in models for record in quality.records(model, options.trust)]
    tests = {model.label: quality.differences(model, baseline) for model in models if model is not baseline}
    timed = [(bucket, rows) for bucket in buckets if (rows := bucket.rows(lengths[: options.sentences]))]
    speed, failures = measure_speed(models, Timing(options, test, timed, conditions), store)
    records += speed
    best = quality.best_models(models, records)
    tables = [
        pivot("Quality", models, records, SCORES, tests=tests, best=best),
        pivot("Size and training", models, records, SIZES),
        *(pivot(f"Decoding with {e}", models, records, speed_columns(e, options.beams)) for e in options.engines),
    ]
    tables = [table for table in tables if len(table.columns) > 2]

    write_records(folder / "results.csv", records)
    title = printable(f"Comparison {folder.name}")
    write_lines(folder / "report.md", markdown(tables, title)[:-1])
    write_lines(folder / "report.tex", latex(tables, title)[:-1])
    make_folder(folder / "figures")
    sentences = sum(len(rows) for _, rows in timed)
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in summary(models, records, baseline, len(test.sources), missing)),
        *(f"<h2>{escape(table.heading)}</h2>{html_table(table)}" for table in tables),
        *_figures(folder / "figures", models, records, buckets, options),
        *_examples(models, test, spread_rows(lengths, options.examples, longest=LONGEST_EXAMPLE), options.trust),
        f"<h2>How it was measured</h2>{_list(_explanations(options, sentences, test.tokenizer) | failures)}",
        f"<h2>Conditions</h2>{_list(_described(models, conditions, command))}",
    ]
    write_lines(folder / "report.html", html_page(title, STYLE, "\n".join(parts)).rstrip("\n").split("\n"))
    return models, records, store.measured


def summary(
    models: Sequence[Model], records: Sequence[Record], baseline: Model, sentences: int, missing: Sequence[Path]
) -> Iterator[str]:
    """Yield the first lines of a report: models, budgets, and what spoils the comparison."""
    runs = sum(len(model.runs) for model in models)
    text = f"{counted(len(models), 'model')}, {counted(runs, 'run')}, {counted(sentences, 'test sentence')}."
    yield f"{text} Baseline: {baseline.label}. {budget(models)}"
    if sentences < FEW_SENTENCES:
        yield f"Fewer than {FEW_SENTENCES} test sentences: scores, differences and p-values are not reliable."
    if missing:
        yield f"Left out, because they have not finished: {', '.join(map(str, missing))}."
    if len({str(run.summary.get("machine")) for model in models for run in model.runs}) > 1:
        yield "Trained on different machines, so training times are not comparable."


def budget(models: Sequence[Model]) -> str:
    """Return the number of updates of the models, and whether their scores can be compared."""
    updates = {model.label: {run.seed: run.summary.get("updates") for run in model.runs} for model in models}
    further = [model.label for model in models if any(run.config.get("init_from") for run in model.runs)]
    note = f" Not counted: updates of the models that init_from= named for {', '.join(further)}." if further else ""
    counts = sorted({count for seeds in updates.values() for count in seeds.values() if count is not None})
    if not counts:
        return "Budget: unknown." + note
    span = " to ".join(dict.fromkeys(f"{count:,}" for count in (counts[0], counts[-1])))
    if len(counts) == 1 or all(seeds == updates[models[0].label] for seeds in updates.values()):
        return f"Budget: {span} updates for each model." + note
    listed = "; ".join(
        f"{label} {', '.join(str(count) for count in seeds.values())}" for label, seeds in updates.items()
    )
    return f"The budgets differ, so the scores are not comparable. Updates: {listed}." + note


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
        translator = run.translator(options.trust)
        return [len(translator.encode(line)) for line in test.sources]

    key = {"kind": "lengths", "model": run.fingerprint, "text": fingerprint(test.sources)}
    lengths: list[int] = store.measure(key, count)
    return lengths


def _figures(
    folder: Path, models: Sequence[Model], records: Sequence[Record], buckets: Sequence[Bucket], options: CompareOptions
) -> Iterator[str]:
    """Draw the figures of all models, and yield their HTML."""
    if figure := draw_curves({model.label: [*map(_curves, model.runs)] for model in models}):
        text = "Loss and greedy BLEU of the validation set after each epoch; one line per run."
        yield _picture("Learning curves", save_formats(figure, folder / "learning-curves"), text)
    if points := timed_points(records):
        text = (
            "BLEU of the timed sentences against decoding time, one run of each model. The line joins the points that "
            "no other point beats in both."
        )
        yield _picture("Quality against decoding time", save_formats(draw_pareto(points), folder / "pareto"), text)
    if options.engines and options.beams:
        labels = [model.label for model in models]
        lengths = [bucket.label for bucket in buckets]
        figure = draw_lengths(records, labels, lengths, options.engines[0], max(options.beams))
        text = "BLEU over runs and decoding time over rounds by source length. Bars are one standard deviation."
        yield _picture("Source length", save_formats(figure, folder / "lengths"), text)


def _curves(run: FinishedRun) -> dict[str, list[tuple[int, float]]]:
    from nmt.training.metrics import read_metrics

    file = run.folder / METRICS_FILE
    return read_metrics(file) if file.is_file() else {}


def _picture(heading: str, file: Path, caption: str) -> str:
    image = f'<img src="data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}" alt="{escape(caption)}">'
    return f"<h2>{heading}</h2><figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _examples(models: Sequence[Model], test: TestSet, rows: Sequence[int], trust: Sequence[str]) -> Iterator[str]:
    """Yield the word alignments of the same references by the first run of each model, beside each other."""
    translators = {model.label: model.runs[0].translator(trust) for model in models} if rows else {}
    attending = {label: it for label, it in translators.items() if it.attention.reads_source}
    if attending:
        text = "References, force-decoded. A darker cell is a larger weight. Orange outlines are gold links."
        yield f"<h2>Alignments of the same sentences</h2><p>{text}</p>"
    for number, row in enumerate(rows if attending else (), 1):
        source, reference = test.sources[row], test.references[row]
        yield f'<h3>Sentence {number}</h3><p>{escape(source)}<br>{escape(reference)}</p><div class="models">'
        for label, translator in attending.items():
            (decoding,) = force_decode(translator, [source], [reference], on_failure=lambda row, reason: None)
            if decoding.alignment is not None:
                shown = display_weights(decoding, split=test.golds is None)
                gold = test.golds[row].possible if test.golds else None
                yield f"<div><b>{escape(label)}</b>{alignment_table(Example(number, *shown, gold))}</div>"
        yield "</div>"


def _explanations(options: CompareOptions, sentences: int, tokenizer: str) -> dict[str, str]:
    cores = "all cores" if options.threads is None else counted(options.threads, "thread")
    timing = (
        f"The first run of each model translates {counted(sentences, 'test sentence')}, grouped by source length, in "
        f"{counted(options.rounds, 'round')} with {cores} on device={options.device} (onnxruntime: CPU). Models take "
        "turns. Loading is not included. If greedy search is timed, no beam size has a coverage penalty."
    )
    scores = f"sacrebleu {version('sacrebleu')}, tokenizer {tokenizer}; each run with its own search settings."
    return {"BLEU, chrF": scores, **EXPLANATIONS, "sentences/s": timing}


def _described(models: Sequence[Model], conditions: Mapping[str, Any], command: str) -> dict[str, str]:
    """Return the command, the machine, the versions, and the folder and own settings of each model."""
    settings = differing_settings({model.label: model.runs[0] for model in models})
    commits = sorted({commit_text(run.summary.get("toolkit") or {}) for model in models for run in model.runs})
    versions = ", ".join(f"{name} {number}" for name, number in conditions["versions"].items())
    return {
        "command": command,
        "machine": ", ".join(f"{key} {value}" for key, value in conditions["machine"].items()),
        "versions": f"toolkit {conditions['toolkit']}, {versions}",
        "trained at commit": ", ".join(commits),
        **{model.label: "; ".join([*map(_weights, model.runs), *settings[model.label]]) for model in models},
    }


def _weights(run: FinishedRun) -> str:
    """Return the folder of a run, and which of its weights it kept."""
    epoch = run.summary.get("kept_epoch")
    return f"{run.folder} (epoch {epoch})" if epoch is not None else str(run.folder)


def _list(texts: Mapping[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in texts.items())}</dl>"
