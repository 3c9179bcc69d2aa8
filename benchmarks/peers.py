"""How much faster than another toolkit? Both decode in turns, with as many lines, pieces a line, beams and steps.

The other's command is run once a round, with {out} in its place for a file to which it adds a JSON line for each of its
measurements: lines, beam, batch, max_len (steps), wall (seconds), rss_mb, src (the file that it read, for the lengths).

    python benchmarks/peers.py --name OpenNMT-py --source FOLDER --command 'bash bench.sh {out} onmt "fixs fix1"'
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from decode import ENGINES, endless, header, made
from machine import writable
from reference import reference

from nmt.text.specials import EOS

Work = tuple[str, int, int, int, int]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--name", required=True, help="the other toolkit's")
    options.add_argument("--command", required=True)
    options.add_argument("--source", type=Path, required=True, help="folder of the files that it reads: pieces by line")
    options.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES)
    options.add_argument("--attention", nargs="+", default=["luong"])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--runs", type=Path, default=Path("runs/decode"))
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results" / "peers.md")
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    engines = dict(made(reference(asked.runs, asked.attention), asked))
    theirs: dict[Work, list[float]] = {}
    ours: dict[tuple[Work, str], list[float]] = {}
    for _ in range(asked.rounds):
        found = other(asked.command)
        for work, seconds in found.items():
            theirs.setdefault(work, []).append(seconds)
            for name, engine in engines.items():
                ours.setdefault((work, name), []).append(once(engine, asked.source, work))
    report = [
        f"- {' '.join(asked.attention)}, random weights, against a checkpoint of {asked.name} that never ends, "
        f"{asked.threads} threads, {asked.rounds} rounds in turns; seconds are medians, ratios medians of each round's",
        "",
        f"| lines | beam | batch | steps | {asked.name}, s | engine | s | ratio (all rounds) |",
        "|---" * 8 + "|",
    ]
    for (work, name), mine in ours.items():
        source, lines, beam, batch, steps = work
        ratios = sorted(one / other for one, other in zip(theirs[work], mine, strict=True))
        spread = f"{ratios[0]:.2f}–{ratios[-1]:.2f}"
        row = [f"{lines} of {source}", beam, batch, steps, f"{median(theirs[work]):.2f}", name, f"{median(mine):.2f}"]
        report.append(f"| {' | '.join(map(str, row))} | {median(ratios):.1f}× ({spread}) |")
    asked.output.write_text("\n".join([*header(f"Beside {asked.name}"), *report]) + "\n", encoding="utf-8")
    print("\n".join(report))


def other(command: str) -> dict[Work, float]:
    """The least seconds that the other toolkit took for each kind of work."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.jsonl"
        subprocess.run(command.format(out=out), shell=True, check=True, stdout=subprocess.DEVNULL)
        rows: list[dict[str, Any]] = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    found: dict[Work, float] = {}
    for row in rows:
        if not row.get("fixed"):
            sys.exit(f"{row}: not a fixed number of steps, so that it cannot be compared")
        work = (row["src"], row["lines"], row["beam"], row["batch"], row["max_len"])
        found[work] = min(row["wall"], found.get(work, float("inf")))
    return found


def once(engine: Any, folder: Path, work: Work) -> float:
    source, count, beam, batch, steps = work
    lines = [
        [*range(300, 300 + len(line.split())), EOS]  # random weights: only lengths matter
        for line in (folder / source).read_text(encoding="utf-8").splitlines()[:count]
    ]
    lines.sort(key=len)
    endless(engine, lines[:batch], beam, batch, 2)
    started = time.perf_counter()
    endless(engine, lines, beam, batch, steps)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
