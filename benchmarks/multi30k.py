"""What do memory attention and Bahdanau attention reach on real text, Multi30k English to German, on a CPU?

Trains ``+experiment=multi30k`` with each, translates test2016 by beam search and scores it lower-cased, as the
model was trained. Writes a table and the learning curves. An interrupted benchmark goes on where it was.

    python benchmarks/multi30k.py --data data/multi30k
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

from machine import provenance, writable
from matplotlib.figure import Figure
from runs import train

KINDS = {"memory": "memory, K=32", "bahdanau": "bahdanau"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=Path("data/multi30k"))
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--runs", type=Path, default=Path("runs/multi30k"))
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    lines = ["# Multi30k English to German", "", *(f"- {line}" for line in provenance()), ""]
    lines += ["| attention | BLEU | chrF | TER | best epoch / epochs | best valid BLEU, greedy | training, min |"]
    lines += ["|---" * 7 + "|"]
    signatures: dict[str, str] = {}
    for kind, name in KINDS.items():
        settings = ["+experiment=multi30k", f"data.folder={asked.data}", f"attention={kind}"]
        summary = train(asked.runs, f"m30k-{kind}", settings, threads=asked.threads)
        scores = evaluate(asked.runs / f"m30k-{kind}", asked.data)
        signatures = scores["signatures"]
        curve = [bleu for _, bleu in epochs(asked.runs / f"m30k-{kind}" / "metrics.csv")]
        best = curve.index(max(curve)) + 1
        row = [name, *(f"{scores[score]:.2f}" for score in ("bleu", "chrf", "ter")), f"{best} / {len(curve)}"]
        row += [f"{max(curve):.2f}", f"{summary['seconds'] / 60:.0f}"]
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    lines += ["", "test2016, beam 5, both sides lower-cased.", "", *(f"- {one}" for one in signatures.values())]
    lines += ["", "![learning curves](multi30k.png)"]
    (asked.output / "multi30k.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw({name: epochs(asked.runs / f"m30k-{kind}" / "metrics.csv") for kind, name in KINDS.items()}, asked.output)


def evaluate(model: Path, data: Path) -> dict[str, object]:
    """Scores of test2016 against its own files."""
    words = [f"model={model}", f"src={data / 'test2016.en.gz'}", f"tgt={data / 'test2016.de.gz'}", "lowercase=true"]
    command = [sys.executable, "-m", "nmt.commands.evaluate", *words, "json=true"]
    scores: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return scores


def epochs(file: Path) -> list[tuple[int, float]]:
    """(epoch from 1, greedy validation BLEU)."""
    with file.open(newline="", encoding="utf-8") as rows:
        return [(int(row["epoch"]) + 1, float(row["valid_bleu"])) for row in csv.DictReader(rows) if row["valid_bleu"]]


def draw(curves: dict[str, list[tuple[int, float]]], folder: Path) -> None:
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("BLEU of valid, greedy, lower-cased")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(folder / "multi30k.png", dpi=120)


if __name__ == "__main__":
    main()
