"""What do damaged files, odd settings, killed processes and random text break?

Runs all tests that are marked as attacks, small and large, and writes their table. 10,000 damaged files of each kind
take most of the time. ``--only`` takes an expression of pytest's -k.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import argument_parser, header, save

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argument_parser(__doc__, "attacks.md", threads=None)
    parser.add_argument("--only", default="", help="names of tests; default: all attacks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.md"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "attack", f"--attack-table={table}", "-k", options.only]
        command.append("--timeout=0")  # each of its 10,000 trials has a limit
        code = subprocess.run([*command, "tests"], cwd=ROOT).returncode
        if table.is_file():
            save(options.output, [*header("Attacks", "pytest -m attack"), *table.read_text("utf-8").splitlines()])
    return code


if __name__ == "__main__":
    sys.exit(main())
