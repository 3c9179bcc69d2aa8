"""The report of ``cloze.py``: a table of accuracies for each task, all figures as CSV, and a picture."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.papers.cloze_kinds import SIZE
from benchmarks.papers.cloze_model import CURVE_FACTS, MAX_TRAIN_FACTS, RATE, ROWS
from benchmarks.papers.cloze_task import PLACES
from benchmarks.report import header, save, table, with_range
from nmt.files.atomic import write_lines

UPDATES = 1_000  # another number gets other files
COLUMNS = ["task", "attention", "seed", "updates", "facts", "accuracy", "loss", "seconds", "commit"]
TITLES = {"babi": "bAbI 1"}  # of the tasks that are data sets
Cells = dict[tuple[str, str, int], dict[str, Any]]
"""(task, kind, seed) -> accuracy by number of facts, curve, seconds, commit"""

# As in the paper's Figure 1: no attention, linear, gated, softmax. Without these, all trained kinds are drawn.
FIGURE = ["none", "covariance_paper", "gated_covariance mean=false", "general_covariance mean=false", "luong score=dot"]


def report_file(args: argparse.Namespace, suffix: str) -> Path:
    """Return the results file with this suffix; each number of updates has its own files."""
    name = "cloze" if args.updates == UPDATES else f"cloze_{args.updates}"
    folder: Path = args.output
    return folder / f"{name}.{suffix}"


def write_report(args: argparse.Namespace, rows: list[str], cells: Cells) -> None:
    """Write tables and a picture into the results folder, and print the tables."""
    picture = report_file(args, "png")
    plot(args, cells, picture)
    save(report_file(args, "md"), report(args, rows, cells, picture.name))


def report(args: argparse.Namespace, rows: list[str], cells: Cells, picture: str) -> list[str]:
    """Return the report: one row for each attention, and columns for each number of distractors and for bAbI."""
    commits = ", ".join(sorted({cell["commit"] for cell in cells.values()}))
    lines = header(
        "Cloze questions",
        f"cells trained at: {commits}",
        f"LSTMs and states of {SIZE}; {args.updates:,} updates of {ROWS} documents with 16 questions each; Adam, rate "
        f"{RATE} falling to 0, for every row",
        f"n = …: accuracy in % ({PLACES} candidates; chance: {100 / PLACES:.0f}) with n facts, 3 tokens each; mean "
        f"(lowest–highest) of the seeds; trained on n = 2 to {MAX_TRAIN_FACTS}, mostly short ones",
        "1 distractor: with one more fact for each, about which no question asks",
        "seeds: their number; a seed gives every row the same documents in the same order",
        "s: processor seconds of one training, on one core that other programs shared",
        "–: the document is too long for this attention, which was trained on shorter ones",
    )
    tasks = {str(distractors): [str(count) for count in args.facts] for distractors in args.distractors}
    tasks |= {task: [task] for task in TITLES if any(task == trained for trained, _, _ in cells)}
    trained = [kind for kind in rows if any(kind == name for _, name, _ in cells)]
    columns = ["attention", *(title for task, counts in tasks.items() for title in titles(task, counts))]
    lines += table(
        columns, ([kind, *(x for task in tasks for x in row(task, kind, tasks[task], cells))] for kind in trained)
    )
    if missing := [kind for kind in rows if kind not in trained]:
        lines += ["", f"Not run: {', '.join(missing)}."]
    return [*lines, "", f"![learning curves, and accuracy against the number of facts]({picture})"]


def titles(task: str, counts: list[str]) -> list[str]:
    """Return the titles of a task's columns."""
    if title := TITLES.get(task):
        return [title, f"seeds, {title}", f"s, {title}"]
    suffix = "" if task == "0" else f", {task} distractor{'s' * (task != '1')}"
    return [f"{name}{suffix}" for name in (*(f"n = {int(count):,}" for count in counts), "seeds", "s")]


def row(task: str, kind: str, counts: list[str], cells: Cells) -> list[str]:
    """Return the accuracies of an attention in one task, the number of seeds, and the mean time."""
    trained = [cell for (of, name, _), cell in cells.items() if (of, name) == (task, kind)]
    if not trained:
        return ["not run"] * len(counts) + ["0", ""]
    shares = ([cell["accuracy"].get(count) for cell in trained] for count in counts)
    seconds = mean(cell["seconds"] for cell in trained)
    return [*map(mean_and_range, shares), str(len(trained)), f"{seconds:.0f}"]


def mean_and_range(shares: list[float | None]) -> str:
    """Return ``mean (lowest–highest)`` in percent, or – if a share is missing."""
    known = [100 * share for share in shares if share is not None]
    if len(known) < len(shares):
        return "–"
    return with_range(known, ".0f")


def write_csv(cells: Cells, updates: int, output: Path) -> None:
    """Write one line for each point of a cell's learning curve, and one for each number of facts in its test."""
    lines = [",".join(COLUMNS)]
    for (task, kind, seed), cell in sorted(cells.items(), key=lambda item: item[0]):
        curve_facts = task if task in TITLES else CURVE_FACTS
        for update, loss, share in cell["curve"]:
            lines.append(f"{task},{kind},{seed},{update},{curve_facts},{share:.4f},{loss:.4f},,")
        for count, share in cell["accuracy"].items():
            number = "" if share is None else f"{share:.4f}"
            lines.append(f"{task},{kind},{seed},{updates},{count},{number},,{cell['seconds']:.1f},{cell['commit']}")
    write_lines(output, lines)


def read_csv(file: Path) -> Cells:
    """Return the cells that ``write_csv`` has written; none if there is no file."""
    cells: Cells = {}
    if not file.is_file():
        return cells
    with file.open(newline="", encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            cell = cells.setdefault((line["task"], line["attention"], int(line["seed"])), {"accuracy": {}, "curve": []})
            if line["loss"]:
                cell["curve"].append((int(line["updates"]), float(line["loss"]), float(line["accuracy"])))
            else:
                cell["accuracy"][line["facts"]] = float(line["accuracy"]) if line["accuracy"] else None
                cell |= {"seconds": float(line["seconds"]), "commit": line["commit"]}
    return cells


def plot(args: argparse.Namespace, cells: Cells, output: Path) -> None:
    """Draw learning curves and accuracy against facts, one row of panels for each number of distractors.

    Without distractors there is one row, with the learning curves of a data set.
    """
    tasks = list(map(str, args.distractors)) or [task for task in TITLES if any(task == cell[0] for cell in cells)][-1:]
    figure = Figure(figsize=(11, 3.8 * len(tasks)), layout="constrained")
    panels = figure.subplots(len(tasks), 2, squeeze=False)
    trained = list(dict.fromkeys(name for _, name, _ in cells))
    shown = [kind for kind in FIGURE if kind in trained] or trained
    for (curves, lengths), shown_task in zip(panels, tasks, strict=True):
        for index, kind in enumerate(shown):
            results = [cell for (task, name, _), cell in cells.items() if (task, name) == (shown_task, kind)]
            if not results:
                continue
            updates = [point[0] for point in results[0]["curve"]]
            band(curves, updates, [[point[2] for point in result["curve"]] for result in results], kind, index)
            if shown_task not in TITLES:
                shares = [[result["accuracy"].get(str(n)) for n in args.facts] for result in results]
                band(lengths, args.facts, shares, kind, index)
        curves.legend(frameon=False, fontsize=8)
        if title := TITLES.get(shown_task):
            lengths.set_axis_off()
            curves.set(title=title, xlabel="updates", ylabel="accuracy on the validation set, %", ylim=(0, 102))
            continue
        title = _title(int(shown_task))
        curves.set(title=title, xlabel="updates", ylabel=f"accuracy with {CURVE_FACTS} facts, %", ylim=(0, 102))
        lengths.axvline(MAX_TRAIN_FACTS, color="0.7", linewidth=0.8)
        lengths.set(title=title, xscale="log", xlabel="facts in a document; trained up to the line", ylim=(0, 102))
        lengths.set(ylabel="accuracy, %")
    figure.savefig(output, dpi=110)


def _title(distractors: int) -> str:
    return f"{distractors or 'No'} distractor{'s' * (distractors != 1)} for each fact"


def band(axes: Axes, x: list[int], shares: list[list[float | None]], label: str, index: int) -> None:
    """Draw the mean over the seeds as a line in the colour ``index``, and their range as a band."""
    percent = 100 * np.array(shares, dtype=np.float64)
    axes.plot(x, percent.mean(axis=0), marker=".", label=label, color=f"C{index}")
    axes.fill_between(x, percent.min(axis=0), percent.max(axis=0), color=f"C{index}", alpha=0.15)
