"""Compare all attentions after equal updates on generated text: BLEU, chrF and AER, with the spread over seeds.

Each kind of conf/attention, and some variants, trains on the generated corpus with the default sizes. The learning rate
falls to 0 within two epochs of small batches, about 2,130 updates, which take two to three minutes on one core. With
half as many updates, some seeds had not yet learned to align: Luong general reached BLEU 86, 4 and 49 (LOG.md). Each
model translates the test set with beam search, and AER compares its alignments with the gold links. The script writes a
table and heatmaps of the same test sentence. It trains all kinds with the first seed, then with the next one. An
interrupted benchmark continues where it stopped; results/records keeps the scores of finished runs.

    python -m benchmarks.quality.attentions
    python -m benchmarks.quality.attentions --seeds 1 --only memory 'luong general'
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.kinds import kinds, paper_settings
from benchmarks.report import argument_parser, header, row, save, table_head, with_deviation
from benchmarks.runs import Runs

SCORES = {"BLEU": "bleu", "chrF": "chrf", "AER": "aer"}
TASK = ["schedule=linear", "training.monitor=valid_loss", "training.decode_sentences=0", "batches.max_tokens=830"]
# With the default rate, 0.005, these learn nothing.
RATES = dict.fromkeys(("kernel scaling", "kernel identity"), ["optimizer.lr=0.001"])
HEATMAPS = {  # kinds whose picture the pages show
    *("bahdanau", "luong dot", "luong general", "luong concat", "memory", "stretch_memory"),
    *("kernel elu", "covariance", "gated_covariance"),
}


def main() -> None:
    settings = {**kinds(), **paper_settings()}
    parser = argument_parser(__doc__, threads=1, runs="runs/attentions", seeds=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=2, help="passes over 40,000 pairs; default: %(default)s")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time; default: %(default)s")
    parser.add_argument("--only", nargs="+", choices=settings, metavar="ATTENTION", help="rows; default: all")
    args = parser.parse_args()
    labels = args.only or list(settings)

    runs = Runs.of(args)

    def train_cell(cell: tuple[int, str]) -> dict[str, Any]:
        seed, label = cell
        words = [*settings[label], *TASK, *RATES.get(label, []), f"training.max_epochs={args.epochs}", f"seed={seed}"]
        summary = runs.train(run_name(label, seed, args.epochs), words)
        print(f"{label}, seed {seed}: BLEU {summary['test']['bleu']:.1f}, {summary['seconds']:.0f} s", flush=True)
        return summary

    cells = list(itertools.product(args.seeds, labels))
    with ThreadPoolExecutor(args.jobs) as pool:
        summaries = dict(zip(cells, pool.map(train_cell, cells), strict=True))
    save(args.output / "attentions.md", report(summaries, args, runs.commits()))
    for label in HEATMAPS & {*labels}:
        folder = args.runs / run_name(label, args.seeds[0], args.epochs)
        if folder.is_dir():  # otherwise it was trained on another machine, which has written the picture
            copy_heatmap(folder, label, args.output)


def report(summaries: dict[tuple[int, str], dict[str, Any]], args: argparse.Namespace, commits: str) -> list[str]:
    """Return the table: mean ± standard deviation over the seeds."""
    updates = {round(summary["metrics"]["step"]) + 1 for summary in summaries.values()}
    counts, seeds_text = ("/".join(map(str, sorted(updates))), ", ".join(map(str, args.seeds)))
    facts = f"{counts} updates on the generated corpus, falling learning rate; seeds: {seeds_text}"
    note = "mean ± standard deviation over the seeds; the papers' settings have their own learning rates"
    note += f", and {' and '.join(RATES)} have optimizer.lr=0.001 instead of 0.005"
    lines = header("Every attention after equal updates", facts, note, commits)
    lines += table_head("attention", *SCORES, "BLEU of each seed")
    for label in dict.fromkeys(label for _, label in summaries):
        tests = [summaries[seed, label]["test"] for seed in args.seeds]
        columns = {score: [test[key] for test in tests] for score, key in SCORES.items()}
        cells = [spread(values, 3 if score == "AER" else 1) for score, values in columns.items()]
        lines.append(row(label, *cells, ", ".join(f"{bleu:.1f}" for bleu in columns["BLEU"])))
    signatures = next(reversed(summaries.values()))["signatures"]
    return [*lines, "", f"AER: {signatures['aer']}.", f"BLEU: {signatures['bleu']}."]


def spread(values: list[float | None], digits: int) -> str:
    """Return ``mean ± standard deviation``; without the deviation for one seed, and – if there is no such score."""
    numbers = [value for value in values if value is not None]
    return with_deviation(numbers, f".{digits}f") if numbers else "–"


def copy_heatmap(run: Path, label: str, output: Path) -> None:
    """Copy the heatmap of the middle one of the run's sentences."""
    heatmaps = sorted((run / "heatmaps").glob("*.png"))
    shutil.copy(heatmaps[len(heatmaps) // 2], output / f"heatmap-{label.replace(' ', '-').replace('_', '-')}.png")


def run_name(label: str, seed: int, epochs: int) -> str:
    """Return the name of a run's folder. The settings are part of it, so that a run is reused only if they agree."""
    return f"{label.replace(' ', '-')}-{epochs}-epochs-{seed}"


if __name__ == "__main__":
    main()
