"""Compare attentions and Transformers on real text: Multi30k English to German, over several seeds.

The script trains ``+experiment=multi30k`` or ``multi30k_transformer`` with each kind and seed, translates test2016 by
beam search and scores it lower-cased, as the models were trained. Then the models take turns in translating test2016
--rounds times. It writes a table and the learning curves. An interrupted benchmark continues where it stopped. A kind
without a finished run says "not run". Runs are named m30k-KIND-sSEED, so that runs trained by hand are used too.

    python benchmarks/multi30k.py --data data/multi30k --precision bf16
    python benchmarks/multi30k.py --runs runs/multi30k --report-only
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from decode import in_turns
from matplotlib.figure import Figure
from report import argument_parser, header, save, table, with_quartiles
from runs import finished, train

from nmt.inference.translator import Translator
from nmt.search import SearchOptions
from nmt.text.files import read_lines

LSTM, TRANSFORMER = "+experiment=multi30k", "+experiment=multi30k_transformer"
LINEAR = ["encoder.self_attention=linear", "decoder.self_attention=linear"]
KINDS = {
    "bahdanau": [LSTM, "attention=bahdanau"],
    "memory": [LSTM, "attention=memory"],
    "abc": [LSTM, "attention=abc"],
    "memory-64": [LSTM, "attention=memory", "attention.slots=64"],
    "memory-no-encodings": [LSTM, "attention=memory", "attention.position_encoding=false"],
    "memory-64-no-encodings": [LSTM, "attention=memory", "attention.slots=64", "attention.position_encoding=false"],
    "transformer": [TRANSFORMER],
    "transformer-linear": [TRANSFORMER, *LINEAR],
}
NAMES = {
    "memory": "memory, K=32",
    "abc": "abc, K=32",
    "memory-64": "memory, K=64",
    "memory-no-encodings": "memory, K=32, no encodings",
    "memory-64-no-encodings": "memory, K=64, no encodings",
    "transformer": "Transformer",
    "transformer-linear": "Transformer, linear self-attention",
}
SEEDS = {"bahdanau": (1, 2, 3), "memory": (1, 2, 3), "abc": (1, 2, 3)}  # other kinds: seed 1
COLUMNS = ("attention", "seeds", "BLEU", "chrF", "TER", "best valid BLEU, greedy", "training tokens/s", "training, min")
BEAM = 5


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/multi30k", rounds=10)
    parser.add_argument("--data", type=Path, default=Path("data/multi30k"), help="default: %(default)s")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32", help="default: %(default)s")
    parser.add_argument("--report-only", action="store_true", help="train nothing")
    args = parser.parse_args()
    for kind, seed in [] if args.report_only else cells(args.kinds):
        settings = [*KINDS[kind], f"data.folder={args.data.resolve()}", f"seed={seed}"]
        train(args.runs, run_name(kind, seed), [*settings, f"precision={args.precision}"], threads=args.threads)
        write_report(args)
    write_report(args, decoding=True)


def cells(kinds: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield kind and seed of each run: the first seed of every kind before the second of any."""
    for seed in (1, 2, 3):
        for kind in kinds:
            if seed in SEEDS.get(kind, (1,)):
                yield kind, seed


def run_name(kind: str, seed: int) -> str:
    return f"m30k-{kind}-s{seed}"


def write_report(args: argparse.Namespace, *, decoding: bool = False) -> None:
    """Write table and learning curves of the finished runs, with the ``decoding`` times if they are wanted."""
    lines = header("Multi30k English to German", f"test2016, beam {BEAM}, both sides lower-cased; mean ± deviation")
    rows, signatures, curves, models = [], {}, {}, {}
    for kind in args.kinds:
        name = NAMES.get(kind, kind)
        runs = {seed: finished(args.runs, run_name(kind, seed)) for seed in SEEDS.get(kind, (1,))}
        summaries = {seed: summary for seed, summary in runs.items() if summary is not None}
        if not summaries:
            rows.append([name, 0, *["not run"] * (len(COLUMNS) - 2)])
            continue
        folders = [args.runs / run_name(kind, seed) for seed in summaries]
        scores = [evaluate(folder, args.data) for folder in folders]
        signatures = scores[0]["signatures"]
        curves[name] = valid_bleu(folders[0] / "metrics.csv")
        models[name] = folders[0]
        cell = [spread([score[key] for score in scores]) for key in ("bleu", "chrf", "ter")]
        cell.append(spread([max(bleu for _, bleu in valid_bleu(folder / "metrics.csv")) for folder in folders]))
        cell.append(spread([summary["tokens_per_s"] for summary in summaries.values()], ",.0f"))
        cell.append(spread([summary["seconds"] / 60 for summary in summaries.values()], ".0f"))
        rows.append([name, f"{len(summaries)} of {len(runs)}", *cell])
    lines += [*table(COLUMNS, rows), ""]
    if decoding and models:
        lines += decoding_times(models, args)
    lines += [*(f"- {text}" for text in signatures.values()), "", "![learning curves](multi30k.png)"]
    save(args.output / "multi30k.md", lines)
    plot(curves, args.output / "multi30k.png")


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return the mean, and the standard deviation of several values."""
    deviation = f" ± {stdev(values):{form}}" if len(values) > 1 else ""
    return f"{mean(values):{form}}{deviation}"


def evaluate(model: Path, data: Path) -> dict[str, Any]:
    """Return the scores of test2016 from nmt-evaluate; they are kept in the folder of the run."""
    file = model / f"test2016-beam{BEAM}.json"
    if not file.is_file() or file.stat().st_mtime < (model / "model.pt").stat().st_mtime:
        words = [f"model={model}", f"src={data / 'test2016.en.gz'}", f"tgt={data / 'test2016.de.gz'}", "lowercase=true"]
        command = [sys.executable, "-m", "nmt.commands.evaluate", *words, f"search.beam_size={BEAM}", "json=true"]
        file.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout, encoding="utf-8")
    scores: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return scores


def decoding_times(models: dict[str, Path], args: argparse.Namespace) -> list[str]:
    """Return a table: seconds for test2016, of models that take turns."""
    torch.set_num_threads(args.threads)
    lines = list(read_lines(args.data / "test2016.en.gz"))
    translators = {name: Translator.load(folder, engine="torch") for name, folder in models.items()}
    options = SearchOptions(beam_size=BEAM)
    seconds = in_turns(translators, args.rounds, lambda translator: translator.texts(lines, options))
    title = f"Seconds for test2016, engine torch, {args.threads} threads, {args.rounds} rounds in turns:"
    rows = [[name, f"{mean(times):.2f}", with_quartiles(times)] for name, times in seconds.items()]
    return [title, "", *table(("attention", "mean", "median (quartiles)"), rows), ""]


def valid_bleu(file: Path) -> list[tuple[int, float]]:
    """Return (epoch from 1, greedy validation BLEU) from a metrics file."""
    with file.open(newline="", encoding="utf-8") as rows:
        return [(int(row["epoch"]) + 1, float(row["valid_bleu"])) for row in csv.DictReader(rows) if row["valid_bleu"]]


def plot(curves: dict[str, list[tuple[int, float]]], file: Path) -> None:
    """Draw the learning curves of the first seed."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("BLEU of valid, greedy, lower-cased")
    axes.grid(alpha=0.3)
    if curves:
        axes.legend()
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
