"""How fast does each engine decode? Seconds for the same work, the engines in turns, and how near each is to a floor.

The model has the sizes of the reference (two layers, 512, input feeding, 8,000 pieces) and random weights; no
hypothesis may end, so every translation takes --steps steps of the decoder. The floor is the time that the model's
products alone would take at the best rate at which a plain product of each shape ran in the same process.

    python benchmarks/decode.py                                     320 lines of 15 pieces, beam 5, batches of 32
    python benchmarks/decode.py --lines 50 --batch 1                one at a time
    python benchmarks/decode.py --attention memory --lines 100 --length 111 --steps 150
    python benchmarks/decode.py --steps natural --model runs/reference --input data/multi30k/test2016.en.gz
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import torch
from floor import FLOAT_WAYS, Product, floor
from machine import provenance, writable
from reference import LAYERS, SIZE, VOCABULARY, reference

from nmt.inference.translator import Translator
from nmt.search import SearchOptions
from nmt.search.engine import Engine
from nmt.search.search import search
from nmt.text.files import read_lines
from nmt.text.specials import EOS

ENGINES = ("torch", "onnx", "onnx-int8")
WAYS = {"torch": FLOAT_WAYS, "onnx": FLOAT_WAYS, "onnx-int8": ["onnx-int8"]}
NATURAL = "natural"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES)
    options.add_argument("--attention", nargs="+", default=["luong"], help="attention= and further words")
    options.add_argument("--lines", type=int, default=320)
    options.add_argument("--length", type=int, default=15, help="source pieces a line, </s> counted")
    options.add_argument("--steps", default="15", help=f"of the decoder, the same for every line; or {NATURAL}")
    options.add_argument("--model", type=Path, help="a trained and exported model, for its natural endings")
    options.add_argument("--input", type=Path, help="the text that it translates")
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--runs", type=Path, default=Path("runs/decode"))
    options.add_argument("--name", default="decode", help="of the results file")
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    if (asked.steps == NATURAL) != bool(asked.model and asked.input):
        sys.exit(f"--steps {NATURAL} goes with --model and --input")
    report = natural(asked) if asked.steps == NATURAL else fixed(asked)
    (asked.output / f"{asked.name}.md").write_text("\n".join(report) + "\n", encoding="utf-8")
    print("\n".join(report))


def fixed(asked: argparse.Namespace) -> list[str]:
    """The same number of steps for every line: how fast, and how near the floor."""
    random, steps = np.random.default_rng(1), int(asked.steps)
    lines = [[*random.integers(300, VOCABULARY, asked.length - 1).tolist(), EOS] for _ in range(asked.lines)]
    engines = dict(made(reference(asked.runs, asked.attention), asked))
    seconds = in_turns(engines, asked.rounds, lambda engine: endless(engine, lines, asked.beam, asked.batch, steps))
    work = products(asked.lines, asked.length, steps, asked.beam, asked.batch)
    report = [
        f"- {' '.join(asked.attention)}; {asked.lines} lines of {asked.length} pieces, {steps} steps, "
        f"{conditions(asked)}",
        "",
        "| engine | median s (quartiles) | first engine / this | pieces out a second | floor, s | floor / time |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in seconds.items():
        least, middle = floor(work, WAYS[name]), median(found)
        row = [
            *compared(seconds, name),
            f"{asked.lines * steps / middle:,.0f}",
            f"{least:.2f}",
            f"{least / middle:.2f}",
        ]
        report.append(f"| {' | '.join(row)} |")
    return [*header("Decoding"), *report]


def natural(asked: argparse.Namespace) -> list[str]:
    """A trained model and a text, sorted by length into batches; each translation ends where it ends."""
    engines, translator = dict(made(asked.model, asked)), Translator.load(asked.model, engine=asked.engine[0])
    lines = sorted((translator.encode(line) for line in read_lines(asked.input)), key=len, reverse=True)
    pieces: dict[int, int] = {}

    def run(engine: Any) -> None:
        options = SearchOptions(beam_size=asked.beam)
        batches = (lines[first : first + asked.batch] for first in range(0, len(lines), asked.batch))
        found = (each[0] for batch in batches for each in search(engine, batch, options))
        pieces[id(engine)] = sum(len(one.tokens) for one in found)

    seconds = in_turns(engines, asked.rounds, run)
    report = [
        f"- {asked.model.name}; {len(lines):,} lines of {asked.input.name}, {conditions(asked)}",
        "",
        "| engine | median s (quartiles) | first engine / this | pieces out a line | pieces out a second |",
        "|---|---|---|---|---|",
    ]
    for name, found in seconds.items():
        count = pieces[id(engines[name])]
        row = [*compared(seconds, name), f"{count / len(lines):.1f}", f"{count / median(found):,.0f}"]
        report.append(f"| {' | '.join(row)} |")
    return [*header("Decoding with natural endings"), *report]


def conditions(asked: argparse.Namespace) -> str:
    return f"beam {asked.beam}, batches of {asked.batch}, {asked.threads} threads, {asked.rounds} rounds in turns"


def header(title: str) -> list[str]:
    lines = [*provenance(), f"onnxruntime {onnxruntime.__version__}"]
    return [f"# {title}", "", *(f"- {line}" for line in lines)]


def compared(seconds: dict[str, list[float]], name: str) -> list[str]:
    """Engine, seconds and how many times as fast as the first engine, round by round."""
    found, first = seconds[name], next(iter(seconds.values()))
    low, _, high = quantiles(found, n=4) if len(found) > 1 else found * 3
    ratio = median(one / other for one, other in zip(first, found, strict=True))
    return [name, f"{median(found):.2f} ({low:.2f}–{high:.2f})", f"{ratio:.2f}×"]


def in_turns(engines: dict[str, Any], rounds: int, work: Any) -> dict[str, list[float]]:
    """Seconds of ``work`` with each engine, round by round; a first round, for what is prepared once, is not kept."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for at in range(rounds + 1):
        for name, engine in engines.items():
            started = time.perf_counter()
            work(engine)
            seconds[name] += [time.perf_counter() - started] if at else []
    return seconds


def made(run: Path, asked: argparse.Namespace) -> Iterator[tuple[str, Engine[Any, Any]]]:
    """The engines asked for, of one model."""
    for name in asked.engine:
        yield name, Translator.load(run, engine=name, device="auto", threads=asked.threads).runtime.engine(trace=False)


class Endless(NamedTuple):
    """An engine that cannot say ``</s>``, so that all translations become equally long."""

    engine: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def step(self, state: Any, tokens: Any, parents: Any, k: int, banned: Sequence[int] | None = None) -> Any:
        return self.engine.step(state, tokens, parents, k, (*(banned or ()), EOS))


def endless(engine: Any, lines: list[list[int]], beam: int, batch: int, steps: int) -> None:
    """Translate with exactly ``steps`` steps of the decoder, of which the last would be ``</s>``'s."""
    options = SearchOptions(beam_size=beam, max_length=steps - 1)
    for first in range(0, len(lines), batch):
        found = search(Endless(engine), lines[first : first + batch], options)
        assert all(len(each[0].tokens) == steps - 1 for each in found)


def products(lines: int, length: int, steps: int, beam: int, batch: int) -> list[Product]:
    """What the reference multiplies with its weights: the encoder's two directions by layer, then each step."""
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
