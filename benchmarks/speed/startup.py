"""Measure seconds and memory from the start of nmt-translate to its first line, for each engine.

The engines take turns, with files in the disk cache.

    python -m benchmarks.speed.startup
    python -m benchmarks.speed.startup --ct2 ct2/bin/python        random Transformers in CTranslate2, too
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.machine import peak_memory
from benchmarks.report import argument_parser, header, save, table, with_quartiles
from benchmarks.speed.ct2_peer import SIZES as PEER_SIZES
from benchmarks.speed.reference import SIZES, reference

ENGINES = ("torch", "onnx", "onnx-int8")
SAVE = """
import sys, ct2_peer
ct2_peer.save_model(sys.argv[1], *ct2_peer.SIZES[int(sys.argv[2])], vocabulary=8000, shortlist=0)
"""
PEER = """
import sys, ctranslate2
translator = ctranslate2.Translator(sys.argv[1], compute_type="int8", inter_threads=1, intra_threads=int(sys.argv[2]))
for line in sys.stdin:
    print(translator.translate_batch([["t1", "t2", "t3", "t4", "t5"]], beam_size=5, max_decoding_length=20), flush=True)
"""


class Start(NamedTuple):
    """What it took a process to write its first line."""

    seconds: float  #: from its start to the line
    memory: int  #: its peak until then, in bytes
    processor: float  #: seconds of processor time, with its end


def main() -> None:
    parser = argument_parser(__doc__, rounds=10, runs="runs/decode")
    parser.add_argument("--size", choices=SIZES, default="reference", help="default: %(default)s")
    parser.add_argument("--attention", nargs="+", default=["luong"], help="name and settings; default: luong")
    parser.add_argument("--ct2", type=Path, help="a Python with ctranslate2, to compare with random Transformers")
    args = parser.parse_args()
    run = reference(args.runs, args.attention, args.size)
    commands = {engine: command(run, engine, args.threads) for engine in ENGINES}
    for millions in PEER_SIZES if args.ct2 else ():
        folder = (args.runs / f"ct2-{millions}").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        words = [str(args.ct2.absolute()), "-c", SAVE, str(folder), str(millions)]
        subprocess.run(words, cwd=Path(__file__).parent, check=True)
        peer = [str(args.ct2), "-c", PEER, str(folder), str(args.threads)]
        commands[f"CTranslate2 int8, {millions} M"] = peer
    starts: dict[str, list[Start]] = {name: [] for name in commands}
    for index in range(args.rounds + 1):
        for name, words in commands.items():
            start = first_line(words)
            if index:  # round 0 only fills the disk cache
                starts[name].append(start)
    rows = [
        (
            name,
            with_quartiles([start.seconds for start in found]),
            with_quartiles([start.processor for start in found]),
            f"{median(start.memory for start in found) / 2**20:.0f}",
        )
        for name, found in starts.items()
    ]
    model = f"{args.size} sizes, {' '.join(args.attention)}"
    lines = header(
        "From the command to the first line",
        f"{model}, one line of five words, beam 5, {args.rounds} rounds in turns",
        "processor time: of the whole process, with its end",
    )
    lines += table(("engine", "s, median (quartiles)", "processor time, s", "resident memory, MB"), rows)
    name = "startup" if args.size == "reference" else f"startup_{args.size}"
    save(args.output / f"{name}.md", lines)


def command(run: Path, engine: str, threads: int) -> list[str]:
    """Return the command that translates with an engine."""
    words = [f"model={run}", f"engine={engine}", f"threads={threads}"]
    return [sys.executable, "-m", "nmt.commands.programs", "translate", *words]


def first_line(words: list[str]) -> Start:
    """Run a command until it has written a line for a line on stdin, and until its end."""
    # Programs are installed with their bytecode. Without it, compiling would take 0.1 s.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    started = time.perf_counter()
    process = subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, stderr=nothing)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"bado kibe fogu mane lipo\n")
    process.stdin.flush()
    process.stdout.readline()
    seconds, memory = time.perf_counter() - started, peak_memory(process.pid)
    process.stdin.close()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)}: failed")
    return Start(seconds, memory, usage.ru_utime + usage.ru_stime)


if __name__ == "__main__":
    main()
