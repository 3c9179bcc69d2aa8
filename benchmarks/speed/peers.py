"""Compare decoding speed with another toolkit, on the same number of lines, pieces per line, beams and steps.

Both take turns. The other toolkit's command runs once per round, with {out} replaced by a file name. It appends a JSON
line per measurement to that file: lines, beam, batch, max_len (steps), wall (seconds), src (the file that it read), and
fixed (true if every translation took max_len steps).

    python -m benchmarks.speed.peers --name OpenNMT-py --source FOLDER --command 'bash bench.sh {out} onmt "fixs fix1"'
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from benchmarks.report import argument_parser, header, save, table
from benchmarks.speed.decode import ENGINES, decode_steps
from benchmarks.speed.reference import reference
from nmt import Translator
from nmt.text.specials import EOS


class Work(NamedTuple):
    """A decoding task: the first ``lines`` of a file with a fixed number of decoder steps."""

    source: str
    lines: int
    beam: int
    batch: int
    steps: int


def main() -> None:
    parser = argument_parser(__doc__, "peers.md", rounds=3, runs="runs/decode")
    parser.add_argument("--name", required=True, help="name of the other toolkit")
    parser.add_argument("--command", required=True, help="shell command of the other toolkit; see above")
    parser.add_argument("--source", type=Path, required=True, help="folder of the files that it reads (pieces)")
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES, help="default: all")
    parser.add_argument("--attention", nargs="+", default=["luong"], help="name and settings; default: luong")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    run = reference(args.runs, args.attention)
    models = {name: Translator.load(run, engine=name, threads=args.threads).loaded_model for name in args.engine}
    peer_seconds: dict[Work, list[float]] = {}
    own_seconds: dict[tuple[Work, str], list[float]] = {}
    for _ in range(args.rounds):
        for work, seconds in measure_peer(args.command).items():
            peer_seconds.setdefault(work, []).append(seconds)
            for name, model in models.items():
                engine = model.engine(trace=False, hypotheses=work.batch * work.beam)
                own_seconds.setdefault((work, name), []).append(measure_engine(engine, args.source, work))
    rows = []
    for (work, name), times in own_seconds.items():
        ratios = sorted(peer / own for peer, own in zip(peer_seconds[work], times, strict=True))
        cells = [f"{work.lines} of {work.source}", work.beam, work.batch, work.steps]
        cells += [f"{median(peer_seconds[work]):.2f}", name, f"{median(times):.2f}"]
        rows.append([*cells, f"{median(ratios):.1f}× ({ratios[0]:.2f}–{ratios[-1]:.2f})"])
    columns = ("lines", "beam", "batch", "steps", f"{args.name}, s", "engine", "s", "ratio (all rounds)")
    conditions = (
        f"{' '.join(args.attention)}, random weights, against a checkpoint of {args.name} that never ends, "
        f"{args.threads} threads, {args.rounds} rounds in turns; seconds are medians, ratios medians over the rounds"
    )
    save(args.output, [*header(f"Comparison with {args.name}", conditions), *table(columns, rows)])


def measure_peer(command: str) -> dict[Work, float]:
    """Run the other toolkit and return its least seconds for each kind of work."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.jsonl"
        subprocess.run(command.format(out=out), shell=True, check=True, stdout=subprocess.DEVNULL)
        records: list[dict[str, Any]] = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    seconds: dict[Work, float] = {}
    for record in records:
        if not record.get("fixed"):
            sys.exit(f"{record}: the number of steps is not fixed; only fixed steps can be compared")
        work = Work(record["src"], record["lines"], record["beam"], record["batch"], record["max_len"])
        seconds[work] = min(record["wall"], seconds.get(work, float("inf")))
    return seconds


def measure_engine(engine: Any, folder: Path, work: Work) -> float:
    """Return the seconds of one engine for this work, after a short warm-up."""
    lines = [
        [*range(300, 300 + len(line.split())), EOS]  # the weights are random, so only the lengths matter
        for line in (folder / work.source).read_text(encoding="utf-8").splitlines()[: work.lines]
    ]
    lines.sort(key=len)
    decode_steps(engine, lines[: work.batch], work.beam, work.batch, 2)
    started = time.perf_counter()
    decode_steps(engine, lines, work.beam, work.batch, work.steps)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
