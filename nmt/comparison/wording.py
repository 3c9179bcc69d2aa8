"""The sentences of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.comparison.measures import SAMPLES
from nmt.comparison.models import CompareOptions, FinishedRun, differing_settings
from nmt.comparison.results import Row
from nmt.errors import counted
from nmt.inference.scores import corpus_scores
from nmt.training.provenance import commit_text

FEW_SENTENCES = 100  # with fewer, single sentences decide


def summarise(rows: Sequence[Row], baseline: str, sentences: int, missing: Sequence[Path]) -> list[str]:
    """Return the first lines of a report: the models, their budgets, the ``missing`` runs and the machines."""
    runs = sum(len(row.runs) for row in rows)
    text = f"{counted(len(rows), 'model')}, {counted(runs, 'run')}, {counted(sentences, 'test sentence')}."
    lines = [f"{text} Baseline: {baseline}.", describe_budget(rows)]
    if sentences < FEW_SENTENCES:
        few = counted(FEW_SENTENCES, "test sentence")
        lines.append(f"Fewer than {few}: scores, differences and p-values are not reliable.")
    if missing:
        lines.append(f"Left out, because they have not finished: {', '.join(map(str, missing))}.")
    machines = [run.summary.get("machine", {}) for row in rows for run in row.runs]
    named = dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in machine.items()) for machine in machines if machine
    )
    if len(named) > 1:
        lines.append(f"Trained on different machines, so training times are not comparable: {'; '.join(named)}.")
    return lines


def describe_budget(rows: Sequence[Row]) -> str:
    """Return the number of updates of the models, or the difference between them, and the updates it leaves out."""
    further = [row.label for row in rows if any(run.config.get("init_from") for run in row.runs)]
    note = f" Not counted: updates of the models that init_from= named for {', '.join(further)}." if further else ""
    return f"{_budget(rows)}{note}"


def _budget(rows: Sequence[Row]) -> str:
    by_seed = [{run.config.get("seed"): run.summary.get("updates") for run in row.runs} for row in rows]
    known = all(count is not None for seeds in by_seed for count in seeds.values())
    updates = {row.label: sorted({int(value) for value in row.values.get("updates", [])}) for row in rows}
    counts = sorted({count for numbers in updates.values() for count in numbers})
    if not counts:
        return "Budget: unknown."
    if len(counts) == 1 and known:
        return f"Budget: {counted(counts[0], 'update')} each."
    if known and all(seeds == by_seed[0] for seeds in by_seed):
        return f"Budget: the same updates for each seed, {_range(counts)}."
    listed = "; ".join(f"{label} {_range(numbers)}" for label, numbers in updates.items())
    minutes = {run.config.get("training", {}).get("max_minutes") for row in rows for run in row.runs}
    if len(minutes) == 1 and None not in minutes:
        return f"Budget: {minutes.pop():g} minutes each (training.max_minutes). Updates: {listed}."
    return f"The budgets differ, so the scores are not comparable. Updates: {listed}."


def _range(numbers: Sequence[int]) -> str:
    if not numbers:
        return "unknown"
    low = numbers[0]
    high = numbers[-1]
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def explain_measures(options: CompareOptions, timed: int, tokenizer: str, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return an explanation of each number of the report."""
    lowercase = all("case:lc" in str(run.summary.get("signatures")) for row in rows for run in row.runs)
    cores = "all cores" if options.threads is None else counted(options.threads, "thread")
    signatures = corpus_scores([""], [""], lowercase=lowercase, tokenizer=tokenizer).signatures
    return [
        (
            "n and ±",
            "n is the number of runs. ± is the sample standard deviation over runs, and for decoding over rounds.",
        ),
        (
            "BLEU, chrF",
            f"sacrebleu: {signatures['bleu']}; {signatures['chrf']}; each run translated with its own search settings.",
        ),
        (
            "vs baseline (p)",
            f"Mean difference from the baseline, and sacrebleu's paired bootstrap test with {SAMPLES:,} samples: one "
            "p-value per run, against the baseline's run with the same seed, or else at the same position. It is "
            "two-sided: twice that of sacrebleu, which tests one direction. * means that all runs differ in the same "
            "direction with p < 0.05. If the models have different seeds, this mean is not the difference of their "
            "mean scores.",
        ),
        ("AER", "Links of the force-decoded references against the gold links; lower is better."),
        (
            "alignment entropy",
            "Mean over the target pieces of the force-decoded references, in nats. 0: a piece reads one source piece; "
            "log S: it reads all S source pieces equally. Negative weights count by their absolute value. Compare it "
            "for models with the same tokenizer only.",
        ),
        (
            "repetition",
            "Share of word bigrams that occurred before in the same translation. Words stand between spaces; for "
            "languages without them, the tokenizer of BLEU gives the words.",
        ),
        ("length ratio", "Length of the translations over that of the references, as sacrebleu's BLEU counts words."),
        (
            "training",
            "Target pieces per second, without validation, and duration, as each run recorded them. Compare pieces, "
            "and losses per piece, for models with the same tokenizer only.",
        ),
        (
            "sentences/s",
            f"The first run of each model translates {counted(timed, 'test sentence')}, grouped by source length, in "
            f"{counted(options.rounds, 'round')} with {cores} on device={options.device} (onnxruntime: CPU). Models "
            "take turns; every second round takes them in the opposite order. Loading is not included: one sentence of "
            "each length, and one alone, is translated before the clock starts. If greedy search is timed, no beam "
            "size has a coverage penalty.",
        ),
        (
            "peak memory",
            "Peak RAM of the process that loads the model and translates. Each measurement has a new process.",
        ),
        ("source length", "Pieces of the baseline's tokenizer, with the end of sentence; buckets of about equal size."),
    ]


def explain_conditions(rows: Sequence[Row], conditions: Mapping[str, Any], command: str) -> list[tuple[str, str]]:
    """Return the command, the machine, the versions and the run folders."""
    machine = conditions["machine"]
    versions = conditions["versions"]
    named = ", ".join(f"{name} {number}" for name, number in versions.items())
    machine_text = (
        f"{machine['processor']}, {counted(machine['threads'], 'thread')}, {machine['device']}, {machine['system']}"
    )
    settings = differing_settings({row.label: row.runs[0] for row in rows})
    commits = sorted({commit_text(run.summary.get("toolkit") or {}) for row in rows for run in row.runs})
    return [
        ("command", command),
        ("machine", machine_text),
        ("versions", f"toolkit {conditions['toolkit']}, {named}"),
        ("trained at commit", ", ".join(commits)),
        *((row.label, "; ".join([*map(_weights, row.runs), *settings[row.label]])) for row in rows),
    ]


def _weights(run: FinishedRun) -> str:
    """Return the folder of a run, and which of its weights it kept."""
    averaged = run.summary.get("averaged_epochs")
    best = run.summary.get("kept_epoch")
    if averaged:
        return f"{run.folder} (mean of epochs {', '.join(map(str, averaged))})"
    decay = run.config.get("training", {}).get("ema_decay")
    mean = "" if decay is None else f", moving average of the weights with decay {decay}"
    return f"{run.folder} (epoch {best}{mean})" if best is not None else str(run.folder)
