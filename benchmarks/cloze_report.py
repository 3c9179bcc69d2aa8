"""The report of ``cloze.py``: a table of accuracies for each task, all figures as CSV, and a picture."""

from __future__ import annotations

import argparse
import csv
from statistics import mean
from typing import Any

import numpy as np
from cloze_kinds import SIZE
from cloze_model import CURVE_FACTS, MAX_TRAIN_FACTS, RATE, ROWS
from cloze_task import PLACES
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report import header, save, table

Cells = dict[tuple[str, str, int], dict[str, Any]]
"""(task, kind, seed) -> accuracy, curve, seconds, commit"""

FIGURE = ["none", "covariance", "covariance_paper", "gated_covariance", "luong score=dot"]  # as in the paper's Figure 1


def write_report(args: argparse.Namespace, rows: list[str], cells: Cells) -> None:
    """Write cloze.md, cloze.csv and cloze.png into the results folder, and print the tables."""
    plot(args, cells)
    write_csv(args, cells)
    save(args.output / "cloze.md", report(args, rows, cells))


def report(args: argparse.Namespace, rows: list[str], cells: Cells) -> list[str]:
    """Return the report: one table for each number of distractors, and one for bAbI if it was trained."""
    commits = ", ".join(sorted({cell["commit"] for cell in cells.values()}))
    lines = header(
        "Cloze questions",
        f"cells trained at: {commits}",
        f"LSTMs and states of {SIZE}; {args.updates:,} updates of {ROWS} documents with 16 questions each; Adam, rate "
        f"{RATE} falling to 0, for every row",
        f"documents of n facts, 3 tokens each; trained on n = 2 to {MAX_TRAIN_FACTS}, mostly short ones",
        f"accuracy in % ({PLACES} candidates; chance: {100 / PLACES:.0f}): mean (lowest–highest) of seeds "
        f"{', '.join(map(str, args.seeds))}; a seed gives every row the same documents in the same order",
        "s: processor seconds of one training, on one core that other programs shared",
        "–: the document is too long for this attention, which was trained on shorter ones",
    )
    for distractors in args.distractors:
        title = f"{distractors or 'No'} distractor{'s' * (distractors != 1)} for each fact"
        lines += ["", f"## {title}", "", *accuracies(str(distractors), list(map(str, args.facts)), rows, cells, args)]
    if any(task == "babi" for task, _, _ in cells):
        lines += ["", "## First bAbI task", "", *accuracies("babi", ["babi"], rows, cells, args)]
    return [*lines, "", "![learning curves, and accuracy against the number of facts](cloze.png)"]


def accuracies(task: str, counts: list[str], rows: list[str], cells: Cells, args: argparse.Namespace) -> list[str]:
    """Return the table of one task, with "not run" where a row has no cell."""
    columns = ["attention", *("accuracy" if count == "babi" else f"n = {int(count):,}" for count in counts), "s"]
    lines = []
    for kind in rows:
        results = [cells[task, kind, seed] for seed in args.seeds if (task, kind, seed) in cells]
        if not results:
            lines.append([kind, *["not run"] * (len(counts) + 1)])
            continue
        name = kind if len(results) == len(args.seeds) else f"{kind} ({len(results)} of {len(args.seeds)} seeds)"
        shares = ([result["accuracy"].get(count) for result in results] for count in counts)
        lines.append([name, *map(mean_and_range, shares), f"{mean(result['seconds'] for result in results):.0f}"])
    return table(columns, lines)


def mean_and_range(shares: list[float | None]) -> str:
    """Return ``mean (lowest–highest)`` in percent, or – if a share is missing."""
    known = [100 * share for share in shares if share is not None]
    if len(known) < len(shares):
        return "–"
    return f"{mean(known):.0f}" + (f" ({min(known):.0f}–{max(known):.0f})" if len(known) > 1 else "")


def write_csv(args: argparse.Namespace, cells: Cells) -> None:
    """Write one line for each cell and number of facts, and one for each point of its learning curve."""
    with (args.output / "cloze.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "attention", "seed", "updates", "facts", "accuracy", "loss", "seconds", "commit"])
        for (task, kind, seed), cell in cells.items():
            for updates, loss, accuracy in cell["curve"]:
                facts = "babi" if task == "babi" else CURVE_FACTS
                writer.writerow([task, kind, seed, updates, facts, f"{accuracy:.4f}", f"{loss:.4f}", "", ""])
            for count, share in cell["accuracy"].items():
                number = "" if share is None else f"{share:.4f}"
                last = [f"{cell['seconds']:.1f}", cell["commit"]]
                writer.writerow([task, kind, seed, args.updates, count, number, "", *last])


def plot(args: argparse.Namespace, cells: Cells) -> None:
    """Draw learning curves and accuracy against facts, one row of panels for each number of distractors."""
    figure = Figure(figsize=(11, 3.8 * len(args.distractors)), layout="constrained")
    panels = figure.subplots(len(args.distractors), 2, squeeze=False)
    for (curves, lengths), distractors in zip(panels, args.distractors, strict=True):
        title = f"{distractors or 'no'} distractor{'s' * (distractors != 1)} for each fact"
        for kind in FIGURE:
            results = [cell for (task, name, _), cell in cells.items() if (task, name) == (str(distractors), kind)]
            if not results:
                continue
            updates = [point[0] for point in results[0]["curve"]]
            band(curves, updates, [[point[2] for point in result["curve"]] for result in results], kind)
            band(lengths, args.facts, [[result["accuracy"][str(n)] for n in args.facts] for result in results], kind)
        curves.set(title=title, xlabel="updates", ylabel=f"accuracy with {CURVE_FACTS} facts, %", ylim=(0, 102))
        lengths.axvline(MAX_TRAIN_FACTS, color="0.7", linewidth=0.8)
        lengths.set(title=title, xscale="log", xlabel="facts in a document; trained up to the line", ylim=(0, 102))
        lengths.set(ylabel="accuracy, %")
        curves.legend(frameon=False, fontsize=8)
    figure.savefig(args.output / "cloze.png", dpi=110)


def band(axes: Axes, x: list[int], shares: list[list[float]], label: str) -> None:
    """Draw the mean over the seeds as a line and their range as a band."""
    percent = 100 * np.array(shares, dtype=np.float64)
    (line,) = axes.plot(x, percent.mean(axis=0), marker=".", label=label)
    axes.fill_between(x, percent.min(axis=0), percent.max(axis=0), color=line.get_color(), alpha=0.15)
