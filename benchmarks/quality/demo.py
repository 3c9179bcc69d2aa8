"""Measure the default run, which `make train` starts: scores, minutes and peak memory, and what it prints.

Further arguments are settings of nmt-train. They make the run another one, for a quick trial of this script.

    python -m benchmarks.quality.demo
    python -m benchmarks.quality.demo --threads 1 data.train_pairs=2000 training.max_epochs=1
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import argument_parser, header, save, table


def main() -> None:
    parser = argument_parser(__doc__, "demo.md")
    parser.add_argument("settings", nargs="*", help="key=value, as for nmt-train; default: none")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "nmt.commands.train", f"runs={folder}", f"threads={args.threads}"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "COLUMNS": "120"}
        started = time.perf_counter()
        result = subprocess.run([*command, *args.settings], env=environment, capture_output=True, text=True)
        minutes = (time.perf_counter() - started) / 60
        if result.returncode:
            sys.exit(f"nmt-train failed:\n{result.stderr}")
        summary = json.loads((Path(folder) / "demo" / "summary.json").read_text(encoding="utf-8"))
        printed = f"{result.stderr}{result.stdout}".replace(f"{folder}/", "runs/")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10  # of the largest child; kB on Linux
    test = summary["test"]
    cells = [f"{test['bleu']:.2f}", f"{test['chrf']:.2f}", f"{test['aer']:.3f}", f"{minutes:.1f}", f"{peak:.0f}"]
    lines = header("The default run", f"threads: {args.threads}", f"settings: {' '.join(args.settings) or 'none'}")
    lines += table(("run", "BLEU", "chrF", "AER", "minutes", "peak MB"), [["default", *cells]])
    save(args.output, [*lines, "", "```text", *(line.rstrip() for line in printed.splitlines()), "```"])


if __name__ == "__main__":
    main()
