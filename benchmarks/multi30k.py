"""Compare memory attention and Bahdanau attention on real text: Multi30k English to German, on a CPU.

The script trains ``+experiment=multi30k`` with each, translates test2016 by beam search and scores it lower-cased, as
the models were trained. It writes a table and the learning curves. An interrupted benchmark continues where it stopped.

    python benchmarks/multi30k.py --data data/multi30k
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

from matplotlib.figure import Figure
from report import argument_parser, header, row, save, table_head
from runs import train

KINDS = {"memory": "memory, K=32", "bahdanau": "bahdanau"}
COLUMNS = ("attention", "BLEU", "chrF", "TER", "best epoch / epochs", "best valid BLEU, greedy", "training, min")


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/multi30k")
    parser.add_argument("--data", type=Path, default=Path("data/multi30k"), help="default: %(default)s")
    args = parser.parse_args()
    lines = [*header("Multi30k English to German"), *table_head(*COLUMNS)]
    signatures: dict[str, str] = {}
    for kind, name in KINDS.items():
        settings = ["+experiment=multi30k", f"data.folder={args.data}", f"attention={kind}"]
        summary = train(args.runs, f"m30k-{kind}", settings, threads=args.threads)
        scores = evaluate(args.runs / f"m30k-{kind}", args.data)
        signatures = scores["signatures"]
        curve = [bleu for _, bleu in valid_bleu(args.runs / f"m30k-{kind}" / "metrics.csv")]
        cells = [name, *(f"{scores[score]:.2f}" for score in ("bleu", "chrf", "ter"))]
        cells += [
            f"{curve.index(max(curve)) + 1} / {len(curve)}",
            f"{max(curve):.2f}",
            f"{summary['seconds'] / 60:.0f}",
        ]
        lines.append(row(*cells))
        print(lines[-1], flush=True)
    lines += ["", "test2016, beam 5, both sides lower-cased.", "", *(f"- {text}" for text in signatures.values())]
    lines += ["", "![learning curves](multi30k.png)"]
    save(args.output / "multi30k.md", lines, show=False)
    curves = {name: valid_bleu(args.runs / f"m30k-{kind}" / "metrics.csv") for kind, name in KINDS.items()}
    plot(curves, args.output / "multi30k.png")


def evaluate(model: Path, data: Path) -> dict[str, object]:
    """Return the scores of test2016 from nmt-evaluate."""
    words = [f"model={model}", f"src={data / 'test2016.en.gz'}", f"tgt={data / 'test2016.de.gz'}", "lowercase=true"]
    command = [sys.executable, "-m", "nmt.commands.evaluate", *words, "json=true"]
    scores: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return scores


def valid_bleu(file: Path) -> list[tuple[int, float]]:
    """Return (epoch from 1, greedy validation BLEU) from a metrics file."""
    with file.open(newline="", encoding="utf-8") as rows:
        return [(int(row["epoch"]) + 1, float(row["valid_bleu"])) for row in csv.DictReader(rows) if row["valid_bleu"]]


def plot(curves: dict[str, list[tuple[int, float]]], file: Path) -> None:
    """Draw the learning curves."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("BLEU of valid, greedy, lower-cased")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
