"""Compare attentions and Transformers on real text: Multi30k English to German, over several seeds.

The script trains ``+experiment=multi30k`` or ``multi30k_transformer`` with each kind and seed, translates test2016 by
beam search and scores it lower-cased, as the models were trained. Then the models take turns in translating test2016
--rounds times, as far as their folders are there. It writes a table and the learning curves. An interrupted benchmark
continues where it stopped; results/records keeps the scores of finished runs. A kind without a finished run says "not
run". Runs are named m30k-KIND-sSEED, so that runs trained by hand are used too.

    python -m benchmarks.quality.multi30k --data data/multi30k --precision bf16
    python -m benchmarks.quality.multi30k --runs runs/multi30k --report-only
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from matplotlib.figure import Figure

from benchmarks.report import argument_parser, header, save, table, with_deviation, with_quartiles
from benchmarks.runs import Runs, evaluate
from benchmarks.speed.decode import in_turns
from nmt.data.text_files import read_lines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

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
    parser = argument_parser(__doc__, runs="runs/multi30k", rounds=10, data="data/multi30k", report_only=True)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32", help="default: %(default)s")
    parser.add_argument("--name", default="multi30k", help="of the results files; default: %(default)s")
    args = parser.parse_args()
    runs = Runs.of(args, curves=("valid_bleu",))
    for kind, seed in [] if args.report_only else cells(args.kinds):
        settings = [*KINDS[kind], f"data.folder={args.data.resolve()}", f"seed={seed}"]
        runs.train(run_name(kind, seed), [*settings, f"precision={args.precision}"])
        write_report(args, runs)
    write_report(args, runs, decoding=True)


def cells(kinds: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield kind and seed of each run: the first seed of every kind before the second of any."""
    for seed in (1, 2, 3):
        for kind in kinds:
            if seed in SEEDS.get(kind, (1,)):
                yield kind, seed


def run_name(kind: str, seed: int) -> str:
    return f"m30k-{kind}-s{seed}"


def write_report(args: argparse.Namespace, runs: Runs, *, decoding: bool = False) -> None:
    """Write table and learning curves of the finished runs, with the ``decoding`` times if they are wanted."""
    rows, signatures, curves, models = [], {}, {}, {}
    for kind in args.kinds:
        name = NAMES.get(kind, kind)
        names = [run_name(kind, seed) for seed in SEEDS.get(kind, (1,))]
        finished = {name: run for name in names if (run := runs.finished(name)) is not None}
        if not finished:
            rows.append([name, 0, *["not run"] * (len(COLUMNS) - 2)])
            continue
        scores = [runs.score(run, f"test2016-beam{BEAM}", partial(test2016, data=args.data)) for run in finished]
        signatures = scores[0]["signatures"]
        bleu = [[value for _, value in run["curves"]["valid_bleu"]] for run in finished.values()]
        curves[name] = bleu[0]
        if (folder := args.runs / [*finished][0]).is_dir():
            models[name] = folder
        cell = [with_deviation([score[key] for score in scores]) for key in ("bleu", "chrf", "ter")]
        cell.append(with_deviation([max(values) for values in bleu]))
        cell.append(with_deviation([run["tokens_per_s"] for run in finished.values()], ",.0f"))
        cell.append(with_deviation([run["seconds"] / 60 for run in finished.values()], ".0f"))
        rows.append([name, f"{len(finished)} of {len(names)}", *cell])
    facts = f"test2016, beam {BEAM}, both sides lower-cased; mean ± deviation"
    lines = [*header("Multi30k English to German", facts, runs.commits()), *table(COLUMNS, rows), ""]
    if decoding and models:
        lines += decoding_times(models, args)
    lines += [*(f"- {text}" for text in signatures.values()), "", f"![learning curves]({args.name}.png)"]
    save(args.output / f"{args.name}.md", lines)
    plot(curves, args.output / f"{args.name}.png")


def test2016(model: Path, data: Path) -> dict[str, Any]:
    """Return the scores of the model on test2016."""
    words = [f"model={model}", f"src={data / 'test2016.en.gz'}", f"tgt={data / 'test2016.de.gz'}", "lowercase=true"]
    return evaluate(*words, f"search.beam_size={BEAM}")


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


def plot(curves: dict[str, list[float]], file: Path) -> None:
    """Draw the learning curves of the first seed: greedy validation BLEU after each epoch."""
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for name, values in curves.items():
        axes.plot(range(1, len(values) + 1), values, marker="o", label=name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("BLEU of valid, greedy, lower-cased")
    axes.grid(alpha=0.3)
    if curves:
        axes.legend()
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    main()
