"""Measure memory and time of nmt-prepare and of the start of training, for corpora of growing size.

The text is random words, 8 per side.

    python -m benchmarks.limits.corpora
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import peak_memory
from benchmarks.report import argument_parser, header, save, table

WORDS = 5000
VALID = 500
SYLLABLES = [first + second for first in "bdfgklmnprst" for second in ("a", "e", "i", "o", "u", "an", "el", "ir")]
MODEL = "embeddings.size=64 encoder.hidden_size=64 decoder.hidden_size=64 device=cpu threads=1 training.max_epochs=1"
START = """
import os, sys
from benchmarks.machine import peak_memory
from nmt.training.task import TranslationTask

def first_update(self, batch, index):
    print(peak_memory(), flush=True)
    os._exit(0)

TranslationTask.training_step = first_update
from nmt.commands.train import train
train(sys.argv[1:])
"""


def main() -> None:
    parser = argument_parser(__doc__, threads=None)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 5_000_000, 20_000_000], help="sizes")
    parser.add_argument(
        "--work", type=Path, default=Path("runs/corpora"), help="folder of the text; default: %(default)s"
    )
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    prepared, started = [], []
    for pairs in args.pairs:
        write_text(args.work, pairs)
        folder = args.work / f"{pairs}"
        prepared.append(row(f"nmt-prepare, {pairs:,} pairs", prepare(args.work, folder)))
        started.append(row(f"nmt-train to its first update, {pairs:,} pairs", start_training(args.work, folder)))
        shutil.rmtree(folder)
    facts = "8 random words per side, tokenizer of 8,000 pieces, workers=1; CPU seconds do not count other programs"
    lines = header("Corpora larger than memory", facts)
    lines += table(("command", "peak memory, MB", "CPU time, s", "time, s"), prepared + started)
    save(args.output / "corpora.md", lines)
    shutil.rmtree(args.work)


def write_text(folder: Path, pairs: int) -> None:
    """Write ``pairs`` training pairs, and validation pairs."""
    generator = random.Random(1)
    words = ["".join(generator.choices(SYLLABLES, k=generator.randrange(1, 5))) for _ in range(WORDS)]
    for name, count in (("train", pairs), ("valid", VALID)):
        for side in ("src", "tgt"):
            with (folder / f"{name}.{side}").open("w") as file:
                file.writelines(f"{' '.join(generator.choices(words, k=8))}\n" for _ in range(count))


class Cost(NamedTuple):
    """Seconds of the processor and of the clock, and the peak resident memory in bytes."""

    cpu: float
    wall: float
    peak: int


def row(name: str, cost: Cost) -> tuple[str, ...]:
    cells = (name, f"{cost.peak / 2**20:.0f}", f"{cost.cpu:.0f}", f"{cost.wall:.0f}")
    print(*cells, flush=True)
    return cells


def measured(command: list[str]) -> Cost:
    """Run a command and return its cost. The peak is what the command prints, if it prints a number."""
    started = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_memory(process.pid))
        time.sleep(0.05)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.stdout is not None
    if process.returncode:
        sys.exit(f"{' '.join(command)}: failed")
    printed = process.stdout.read().split()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, wall, int(printed[0]) if printed and printed[0].isdigit() else peak)


def prepare(work: Path, output: Path) -> Cost:
    files = [f"data.{part}.{side}={work}/{part}.{side}" for part in ("train", "valid") for side in ("src", "tgt")]
    command = [
        sys.executable,
        "-m",
        "nmt.commands.programs",
        "prepare",
        *files,
        "tokenizer.vocab_size=8000",
        f"output={output}",
    ]
    return measured(command)


def start_training(work: Path, folder: Path) -> Cost:
    words = [*MODEL.split(), "data=prepared", f"data.folder={folder}", f"runs={work}", f"name=run-{folder.name}"]
    return measured([sys.executable, "-c", START, *words])


if __name__ == "__main__":
    main()
