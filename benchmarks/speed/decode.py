"""Compare the decoding speed of the engines.

The model is the reference (two layers, 512, input feeding, 8,000 pieces) with random weights. All translations have
the same length, so that each takes --steps decoder steps. The engines take turns.

    python -m benchmarks.speed.decode                                     320 lines of 15 pieces, beam 5, batches of 32
    python -m benchmarks.speed.decode --lines 50 --batch 1                one line at a time
    python -m benchmarks.speed.decode --at-once                           several batches at once too, one thread each
    CT2_FORCE_CPU_ISA=AVX512 python -m benchmarks.speed.decode --at-once --ct2 ct2/bin/python        CTranslate2 too
    python -m benchmarks.speed.decode --lines 50 --batch 1 --shortlist 50  also with 50 translations a source piece
    python -m benchmarks.speed.decode --attention memory --lines 100 --length 111 --steps 150
    python -m benchmarks.speed.decode --steps natural --model runs/reference --input data/multi30k/test2016.en.gz
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.report import argument_parser, header, save, table, with_quartiles
from benchmarks.speed.reference import FIRST_PIECE, VOCABULARY, reference
from nmt.data.text_files import read_lines
from nmt.inference.translator import Translator
from nmt.search.engine import Engine
from nmt.search.options import SearchOptions
from nmt.search.search import search
from nmt.text.specials import EOS

ENGINES = ("torch", "onnx", "onnx-int8")
NATURAL = "natural"
PEER_SIZES = {22: 512, 11: 256}  # million parameters with 8,000 pieces, and size; the reference has 25 million
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
    parser.add_argument("--at-once", action="store_true", help="also decode --threads batches at once")
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY, help="pieces; default: %(default)s")
    help_text = "also decode with a shortlist of that many translations per source piece; random ones without --model"
    parser.add_argument("--shortlist", type=int, help=help_text)
    parser.add_argument("--ct2", type=Path, help="a Python with ctranslate2, to compare with random Transformers")
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
    lines = [[*random.integers(FIRST_PIECE, args.vocabulary, args.length - 1).tolist(), EOS] for _ in range(args.lines)]
    model = reference(args.runs, args.attention, vocabulary=args.vocabulary, shortlist=args.shortlist)
    engines: dict[str, Any] = dict(load_engines(model, args, args.batch * args.beam))
    for millions, size in PEER_SIZES.items() if args.ct2 else ():
        name = f"CTranslate2 int8, {millions + (args.vocabulary - VOCABULARY) * size / 1e6:.0f} M"
        engines[name] = Peer(args, millions)
        if args.shortlist:
            engines[f"{name}, vocabulary map"] = Peer(args, millions, args.shortlist)
    seconds = in_turns(engines, args.rounds, lambda engine: decode_steps(engine, lines, args.beam, args.batch, steps))
    size = f"{args.lines} lines of {args.length} pieces, {steps} steps"
    size += f", vocabulary {args.vocabulary:,}" if args.vocabulary != VOCABULARY else ""
    rows = [[*compare(seconds, name), f"{args.lines * steps / median(times):,.0f}"] for name, times in seconds.items()]
    columns = (*COLUMNS, "target pieces per second")
    facts = [f"{' '.join(args.attention)}; {size}, {conditions(args)}"]
    if args.shortlist:
        facts.append(f"shortlist and vocabulary map: {args.shortlist} random translations per source piece")
    facts += [f"CT2_FORCE_CPU_ISA: {os.environ.get('CT2_FORCE_CPU_ISA', 'not set')}"] if args.ct2 else []
    return [*header("Decoding", *facts), *table(columns, rows)]


def measure_natural(args: argparse.Namespace) -> list[str]:
    """Report the speed of a trained model on a text sorted by length; each translation ends with its ``</s>``."""
    engines = dict(load_engines(args.model, args, args.batch * args.beam))
    translator = Translator.load(args.model, engine=args.engine[0])
    lines = sorted((translator.encode(line) for line in read_lines(args.input)), key=len, reverse=True)
    pieces: dict[int, int] = {}

    def translate(engine: Any) -> None:
        options = SearchOptions(beam_size=args.beam)
        batches = [lines[first : first + args.batch] for first in range(0, len(lines), args.batch)]
        results = decode_batches(engine, lambda engine, batch: search(engine, batch, options), batches)
        pieces[id(engine)] = sum(len(hypotheses[0].tokens) for batch in results for hypotheses in batch)

    seconds = in_turns(engines, args.rounds, translate)
    rows = []
    for name, times in seconds.items():
        count = pieces[id(engines[name])]
        rows.append([*compare(seconds, name), f"{count / len(lines):.1f}", f"{count / median(times):,.0f}"])
    work = f"{args.model.name}; {len(lines):,} lines of {args.input.name}, {conditions(args)}"
    columns = (*COLUMNS, "target pieces per line", "target pieces per second")
    return [*header("Decoding with natural endings", work), *table(columns, rows)]


def conditions(args: argparse.Namespace) -> str:
    load = f"load average {os.getloadavg()[0]:.1f} at the end"
    return f"beam {args.beam}, batches of {args.batch}, {args.threads} threads, {args.rounds} rounds in turns, {load}"


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


def load_engines(run: Path, args: argparse.Namespace, hypotheses: int) -> Iterator[tuple[str, Engine[Any, Any]]]:
    """Yield name and engine of the model for each --engine, and an AtOnce for each that runs several batches.

    ``hypotheses`` is their number in a batch.
    """
    for name in args.engine:
        model = Translator.load(run, engine=name, device="cpu", threads=args.threads).loaded_model
        yield name, model.engine(trace=False, hypotheses=hypotheses)
        if getattr(args, "shortlist", None) and name != "torch":
            options: Any = {"engine": name, "threads": args.threads, "shortlist": True}
            restricted = Translator.load(run, **options).loaded_model
            yield f"{name}, shortlist", restricted.engine(trace=False, hypotheses=hypotheses)
        if getattr(args, "at_once", False) and model.workers > 1:
            engine: Any = AtOnce(model.engine(trace=False, beside_others=True), model.workers)
            yield f"{name}, {model.workers} batches at once", engine


class AtOnce(NamedTuple):
    """An engine that decodes ``workers`` batches at once, each with one thread."""

    engine: Any
    workers: int


class Peer:
    """CTranslate2 with a random Transformer of ``millions`` of parameters, in another process.

    With a ``shortlist`` it uses a vocabulary map with that many translations per source piece.
    """

    def __init__(self, args: argparse.Namespace, millions: int, shortlist: int = 0) -> None:
        work = {
            name: getattr(args, name) for name in ("lines", "length", "steps", "beam", "batch", "threads", "vocabulary")
        }
        options = [word for name, value in work.items() for word in (f"--{name}", str(value))]
        command = [str(args.ct2), str(Path(__file__).with_name("ct2_peer.py")), "--millions", str(millions), *options]
        command += ["--shortlist", str(shortlist)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )

    def decode(self) -> None:
        """Decode all lines once."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        if not self.process.stdout.readline():
            sys.exit(f"ct2_peer.py ended with {self.process.wait()}; its messages are above")


def decode_steps(engine: Any, lines: list[list[int]], beam: int, batch: int, steps: int) -> None:
    """Translate with exactly ``steps`` decoder steps per line; the last step is the one for ``</s>``."""
    if isinstance(engine, Peer):
        engine.decode()
        return
    options = SearchOptions(beam_size=beam, max_length=steps - 1, min_length=steps - 1)
    batches = [lines[first : first + batch] for first in range(0, len(lines), batch)]
    for translations in decode_batches(engine, lambda model, part: search(model, part, options), batches):
        assert all(len(hypotheses[0].tokens) == steps - 1 for hypotheses in translations)


def decode_batches(engine: Any, decode: Callable[[Any, Any], Any], batches: list[Any]) -> list[Any]:
    """Return the result of ``decode`` for each batch; an AtOnce decodes several at the same time."""
    if not isinstance(engine, AtOnce):
        return [decode(engine, batch) for batch in batches]
    with ThreadPoolExecutor(engine.workers) as pool:
        return list(pool.map(lambda batch: decode(engine.engine, batch), batches))


if __name__ == "__main__":
    main()
