"""Measure seconds and memory from the start of nmt-translate to its first line, for each engine.

The engines take turns, with files in the disk cache.

    python -m benchmarks.speed.startup
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.machine import peak_memory
from benchmarks.report import argument_parser, header, save, table, with_quartiles
from benchmarks.speed.reference import SIZES, reference

ENGINES = ("torch", "onnx", "onnx-int8")


def main() -> None:
    parser = argument_parser(__doc__, rounds=10, runs="runs/decode")
    parser.add_argument("--size", choices=SIZES, default="reference", help="default: %(default)s")
    parser.add_argument("--attention", nargs="+", default=["luong"], help="name and settings; default: luong")
    args = parser.parse_args()
    run = reference(args.runs, args.attention, args.size)
    seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    memory: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for index in range(args.rounds + 1):
        for engine in ENGINES:
            spent, peak = first_line(run, engine, args.threads)
            if index:  # round 0 only fills the disk cache
                seconds[engine].append(spent)
                memory[engine].append(peak / 2**20)
    model = f"{args.size} sizes, {' '.join(args.attention)}"
    rows = [(engine, with_quartiles(seconds[engine]), f"{median(memory[engine]):.0f}") for engine in ENGINES]
    lines = header(
        "From the command to the first line", f"{model}, one line of five words, beam 5, {args.rounds} rounds in turns"
    )
    lines += table(("engine", "s, median (quartiles)", "resident memory, MB"), rows)
    save(args.output / "startup.md", lines)


def first_line(run: Path, engine: str, threads: int) -> tuple[float, int]:
    """Return the seconds until the first line on stdout, and the peak resident memory in bytes until then."""
    command = [
        sys.executable,
        "-m",
        "nmt.commands.programs",
        "translate",
        f"model={run}",
        f"engine={engine}",
        f"threads={threads}",
    ]
    # Programs are installed with their bytecode. Without it, compiling would take 0.1 s.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, **streams)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"bado kibe fogu mane lipo\n")
    process.stdin.flush()
    process.stdout.readline()
    seconds, memory = time.perf_counter() - started, peak_memory(process.pid)
    process.stdin.close()
    if process.wait():
        sys.exit(f"{' '.join(command)}: failed")
    return seconds, memory


if __name__ == "__main__":
    main()
