"""Compare nmt-translate workers=N, and N Ray actors, with N single processes that run at the same time.

The rate of the single processes is the sum over the processes, which share the lines. Everything counts, from the start
of the command to the complete file. The reference model has random weights; each translation has up to --steps pieces.

    python -m benchmarks.speed.workers
    python -m benchmarks.speed.workers --ray          Ray actors too; needs pip install '.[ray]'
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.report import argument_parser, header, save, table, with_quartiles
from benchmarks.speed.reference import SYLLABLES, reference

WARM_UP = 256  # lines


def main() -> None:
    parser = argument_parser(__doc__, rounds=5, runs="runs/decode", threads=None)
    parser.add_argument("--workers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--lines", type=int, default=32_768, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=15, help="target pieces per line; default: %(default)s")
    parser.add_argument("--engine", default="onnx-int8", help="default: %(default)s")
    parser.add_argument("--ray", action="store_true", help="also measure Ray actors on this machine")
    args = parser.parse_args()
    model = reference(args.runs, ["luong"])
    with TemporaryDirectory() as folder:
        rates = measure(model, Path(folder), args)
    single = next(iter(rates.values()))
    rows = [
        (name, with_quartiles(values, ",.0f"), f"{median(map(truediv, values, single)):.2f}")
        for name, values in rates.items()
    ]
    work = f"luong, {args.engine}, {args.lines:,} lines, beam 5, up to {args.steps} pieces, one thread per worker"
    load = f"{args.rounds} rounds in turns, load average {os.getloadavg()[0]:.1f} at the end"
    columns = ("command", "lines per second, median (quartiles)", "rate / summed rate of the single processes")
    save(args.output / "workers.md", [*header("Several workers", work, load), *table(columns, rows)])


def measure(model: Path, folder: Path, args: argparse.Namespace) -> dict[str, list[float]]:
    """Return lines per second of each way to translate all lines, in each round, after a short unmeasured round."""
    random.seed(1)
    lines = [" ".join("".join(random.choices(SYLLABLES, k=2)) for _ in range(7)) for _ in range(args.lines)]
    for commands in ways(model, folder, lines[:WARM_UP], args).values():
        summed_rate(commands)  # fills the disk cache
    rates: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for name, commands in ways(model, folder, lines, args).items():
            rates.setdefault(name, []).append(summed_rate(commands))
    return rates


def ways(
    model: Path, folder: Path, lines: list[str], args: argparse.Namespace
) -> dict[str, list[tuple[list[str], int]]]:
    """Return the commands of each way to translate the lines, and the number of lines of each command."""
    options = [f"model={model.absolute()}", f"engine={args.engine}", f"search.max_length={args.steps}"]

    def command(name: str, *words: str) -> list[str]:
        files = [f"input={folder / name}", f"output={folder / name}.out"]
        return [sys.executable, "-m", "nmt.commands.programs", "translate", *options, *files, *words]

    parts = [lines[part :: args.workers] for part in range(args.workers)]
    for name, part in [("all", lines), *((f"part{number}", part) for number, part in enumerate(parts))]:
        (folder / name).write_text("".join(f"{line}\n" for line in part))
    singles = [(command(f"part{number}", "threads=1"), len(part)) for number, part in enumerate(parts)]
    workers = command("all", f"workers={args.workers}", "threads=1")
    commands = {f"{args.workers} single processes": singles, f"workers={args.workers}": [(workers, len(lines))]}
    if args.ray:
        commands[f"workers={args.workers} cluster=ray"] = [([*workers, "cluster=ray"], len(lines))]
    return commands


def summed_rate(commands: list[tuple[list[str], int]]) -> float:
    """Run the commands at the same time; return the sum of their lines per second. Each has its number of lines."""

    def rate(command: list[str], lines: int) -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return lines / (time.perf_counter() - started)

    with ThreadPoolExecutor(len(commands)) as pool:
        return sum(pool.map(rate, *zip(*commands, strict=True)))


if __name__ == "__main__":
    main()
