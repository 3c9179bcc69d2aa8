"""Compare the decoding speed of the engines, and compare each with a lower bound.

The model is the reference (two layers, 512, input feeding, 8,000 pieces) with random weights. No hypothesis may end, so
every translation takes --steps decoder steps. The engines take turns. The lower bound ("floor") is the time of the
model's matrix products alone, each at the best rate that any library reached for its shape in the same process.

    python benchmarks/decode.py                                     320 lines of 15 pieces, beam 5, batches of 32
    python benchmarks/decode.py --lines 50 --batch 1                one line at a time
    python benchmarks/decode.py --attention memory --lines 100 --length 111 --steps 150
    python benchmarks/decode.py --steps natural --model runs/reference --input data/multi30k/test2016.en.gz
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from floor import FLOAT_METHODS, Product, floor
from reference import LAYERS, SIZE, VOCABULARY, reference
from report import argument_parser, header, save, table, with_quartiles

from nmt.inference.translator import Translator
from nmt.search import SearchOptions
from nmt.search.engine import Engine
from nmt.search.search import search
from nmt.text.files import read_lines
from nmt.text.specials import EOS

ENGINES = ("torch", "onnx", "onnx-int8")
METHODS = {"torch": FLOAT_METHODS, "onnx": FLOAT_METHODS, "onnx-int8": ["onnx-int8"]}
NATURAL = "natural"
COLUMNS = ("engine", "median s (quartiles)", "times as fast as the first engine")


def main() -> None:
    parser = argument_parser(__doc__, rounds=5, runs="runs/decode")
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES, help="default: all")
    parser.add_argument("--attention", nargs="+", default=["luong"], help="name and settings; default: luong")
    parser.add_argument("--lines", type=int, default=320, help="default: %(default)s")
    parser.add_argument("--length", type=int, default=15, help="source pieces, with </s>; default: %(default)s")
    parser.add_argument("--steps", default="15", help=f"decoder steps per line, or {NATURAL}; default: %(default)s")
    parser.add_argument("--model", type=Path, help=f"trained and exported model for --steps {NATURAL}")
    parser.add_argument("--input", type=Path, help=f"source text for --steps {NATURAL}")
    parser.add_argument("--beam", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=32, help="lines per batch; default: %(default)s")
    parser.add_argument("--name", default="decode", help="name of the results file; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if (args.steps == NATURAL) != bool(args.model and args.input):
        sys.exit(f"--steps {NATURAL} needs --model and --input, and they need --steps {NATURAL}")
    report = measure_natural(args) if args.steps == NATURAL else measure_fixed(args)
    save(args.output / f"{args.name}.md", report)


def measure_fixed(args: argparse.Namespace) -> list[str]:
    """Report speed and lower bound with the same number of steps for every line."""
    random, steps = np.random.default_rng(1), int(args.steps)
    lines = [[*random.integers(300, VOCABULARY, args.length - 1).tolist(), EOS] for _ in range(args.lines)]
    engines = dict(load_engines(reference(args.runs, args.attention), args))
    seconds = in_turns(engines, args.rounds, lambda engine: decode_steps(engine, lines, args.beam, args.batch, steps))
    work = model_products(args.lines, args.length, steps, args.beam, args.batch)
    size = f"{args.lines} lines of {args.length} pieces, {steps} steps"
    rows = []
    for name, times in seconds.items():
        bound, middle = floor(work, METHODS[name]), median(times)
        cells = [f"{args.lines * steps / middle:,.0f}", f"{bound:.2f}", f"{bound / middle:.2f}"]
        rows.append([*compare(seconds, name), *cells])
    columns = (*COLUMNS, "target pieces per second", "floor, s", "floor / time")
    return [*header("Decoding", f"{' '.join(args.attention)}; {size}, {conditions(args)}"), *table(columns, rows)]


def measure_natural(args: argparse.Namespace) -> list[str]:
    """Report the speed of a trained model on a text sorted by length; each translation ends with its ``</s>``."""
    engines, translator = dict(load_engines(args.model, args)), Translator.load(args.model, engine=args.engine[0])
    lines = sorted((translator.encode(line) for line in read_lines(args.input)), key=len, reverse=True)
    pieces: dict[int, int] = {}

    def translate(engine: Any) -> None:
        options = SearchOptions(beam_size=args.beam)
        batches = (lines[first : first + args.batch] for first in range(0, len(lines), args.batch))
        best = (hypotheses[0] for batch in batches for hypotheses in search(engine, batch, options))
        pieces[id(engine)] = sum(len(hypothesis.tokens) for hypothesis in best)

    seconds = in_turns(engines, args.rounds, translate)
    rows = []
    for name, times in seconds.items():
        count = pieces[id(engines[name])]
        rows.append([*compare(seconds, name), f"{count / len(lines):.1f}", f"{count / median(times):,.0f}"])
    work = f"{args.model.name}; {len(lines):,} lines of {args.input.name}, {conditions(args)}"
    columns = (*COLUMNS, "target pieces per line", "target pieces per second")
    return [*header("Decoding with natural endings", work), *table(columns, rows)]


def conditions(args: argparse.Namespace) -> str:
    return f"beam {args.beam}, batches of {args.batch}, {args.threads} threads, {args.rounds} rounds in turns"


def compare(seconds: dict[str, list[float]], name: str) -> list[str]:
    """Return the engine, its seconds, and how many times as fast as the first engine it is (median over rounds)."""
    first = next(iter(seconds.values()))
    ratio = median(first_time / time for first_time, time in zip(first, seconds[name], strict=True))
    return [name, with_quartiles(seconds[name]), f"{ratio:.2f}×"]


def in_turns(engines: dict[str, Any], rounds: int, work: Callable[[Any], None]) -> dict[str, list[float]]:
    """Return the seconds of ``work`` with each engine in each round, after one unmeasured warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for index in range(rounds + 1):
        for name, engine in engines.items():
            started = time.perf_counter()
            work(engine)
            seconds[name] += [time.perf_counter() - started] if index else []
    return seconds


def load_engines(run: Path, args: argparse.Namespace) -> Iterator[tuple[str, Engine[Any, Any]]]:
    """Yield name and engine of the model for each --engine."""
    for name in args.engine:
        yield name, Translator.load(run, engine=name, device="auto", threads=args.threads).runtime.engine(trace=False)


class Endless(NamedTuple):
    """An engine that never returns ``</s>``, so that all translations have the same length."""

    engine: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def step(self, state: Any, tokens: Any, parents: Any, k: int, banned: Sequence[int] | None = None) -> Any:
        return self.engine.step(state, tokens, parents, k, (*(banned or ()), EOS))


def decode_steps(engine: Any, lines: list[list[int]], beam: int, batch: int, steps: int) -> None:
    """Translate with exactly ``steps`` decoder steps per line; the last step is the one for ``</s>``."""
    options = SearchOptions(beam_size=beam, max_length=steps - 1)
    for first in range(0, len(lines), batch):
        translations = search(Endless(engine), lines[first : first + batch], options)
        assert all(len(hypotheses[0].tokens) == steps - 1 for hypotheses in translations)


def model_products(lines: int, length: int, steps: int, beam: int, batch: int) -> list[Product]:
    """Return the reference's products with weights: encoder layers in two directions, then the decoder steps."""
    batches, rows = lines / batch, batch * beam
    return [
        Product(batch * length, SIZE, 4 * SIZE, LAYERS * batches),
        Product(batch, SIZE // 2, 2 * SIZE, 2 * LAYERS * length * batches),
        Product(rows, 3 * SIZE, 4 * SIZE, steps * batches),
        Product(rows, 2 * SIZE, 4 * SIZE, (LAYERS - 1) * steps * batches),
        Product(rows, 2 * SIZE, SIZE, steps * batches),
        Product(rows, SIZE, VOCABULARY, steps * batches),
    ]


if __name__ == "__main__":
    main()
