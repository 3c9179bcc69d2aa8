"""How long from the command to its first translated line, and in how much memory? The engines in turns, warm files.

python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles

from machine import most_resident, provenance, writable
from reference import SIZES, reference

ENGINES = ("torch", "onnx", "onnx-int8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", choices=SIZES, default="reference")
    options.add_argument("--attention", nargs="+", default=["luong"])
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--runs", type=Path, default=Path("runs/decode"))
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    run = reference(asked.runs, asked.attention, asked.size)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ENGINES}
    for at in range(asked.rounds + 1):
        for name in ENGINES:
            once = first_line(run, name, asked.threads)
            found[name] += [once] if at else []  # the first round warms the files
    lines = ["# From the command to the first line", "", *(f"- {line}" for line in provenance())]
    lines += [
        f"- {asked.size} sizes, {' '.join(asked.attention)}, a line of five words, beam 5, {asked.rounds} rounds in "
        "turns"
    ]
    lines += ["", "| engine | s, median (quartiles) | resident memory, MB |", "|---|---|---|"]
    for name, each in found.items():
        seconds = [one for one, _ in each]
        low, _, high = quantiles(seconds, n=4)
        memory = median(one for _, one in each)
        lines.append(f"| {name} | {median(seconds):.2f} ({low:.2f}–{high:.2f}) | {memory:.0f} |")
    (asked.output / "startup.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def first_line(run: Path, engine: str, threads: int) -> tuple[float, float]:
    """Seconds until a line stands on stdout, and the most resident memory in MB until then."""
    command = [sys.executable, "-m", "nmt.commands.translate", f"model={run}", f"engine={engine}", f"threads={threads}"]
    started = time.perf_counter()
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert running.stdin is not None and running.stdout is not None
    running.stdin.write(b"bado kibe fogu mane lipo\n")
    running.stdin.flush()
    running.stdout.readline()
    seconds = time.perf_counter() - started
    memory = most_resident(running.pid)
    running.stdin.close()
    if running.wait():
        sys.exit(f"{' '.join(command)}: failed")
    return seconds, memory


if __name__ == "__main__":
    main()
