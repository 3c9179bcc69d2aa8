"""Rebuild all tables of results/ at one commit, one script after the other, and continue where an earlier call stopped.

An entry is done if its results file names a commit since which neither nmt/, conf/ nor the scripts have changed.
An entry that lacks data, a trained model or another toolkit is skipped and named. A failed entry does not stop the
others. What a script prints goes to runs/rebuild/NAME.log. Afterwards, ``tables.py`` copies the tables into the pages.
Trainings of many hours are the jobs of run_queue.py. They are listed here and run there, except with ``--only``.

    python -m benchmarks.rebuild --list                 every entry, its question, its minutes on two cores, its state
    python -m benchmarks.rebuild --timings              only what needs a quiet machine
    python -m benchmarks.rebuild --trainings            the rest, which may share the machine
    python -m benchmarks.rebuild --only cost inversion  these, even if they are done
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.rebuild_list import ENTRIES, Entry
from benchmarks.report import RESULTS

ROOT = Path(__file__).resolve().parents[1]
CODE = ["nmt", "conf", ":(glob)benchmarks/**/*.py"]
LOGS = Path("runs/rebuild")


def main() -> int:
    args = parse_arguments()
    entries = [entry for entry in ENTRIES if selected(entry, args)]
    if args.list:
        for entry in entries:
            print(described(entry))
        for job in long_jobs() if not (args.only or args.timings) else ():
            print(
                f"{job['name']:18} training {job['minutes']:4} min  {job['command']} [python -m benchmarks.run_queue]"
            )
        return 0
    if (changes := git("status", "--porcelain", "--", *CODE)) and not args.allow_changes:
        print(f"uncommitted changes: {changes.splitlines()[0].strip()} …; commit them, or add --allow-changes")
        return 2
    failed = [entry.name for entry in entries if not finish(entry, again=bool(args.only))]
    print(f"failed: {', '.join(failed)}" if failed else "next: python -m benchmarks.tables")
    return 1 if failed else 0


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--list", action="store_true", help="show the entries and run nothing")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these entries; names: see --list")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--timings", action="store_true", help="only entries that measure time or memory")
    kinds.add_argument("--trainings", action="store_true", help="only the other entries")
    parser.add_argument("--allow-changes", action="store_true", help="run although code has uncommitted changes")
    return parser.parse_args()


def selected(entry: Entry, args: argparse.Namespace) -> bool:
    """Tell if the options choose this entry."""
    if args.only:
        return entry.name in args.only
    if entry.name in {job["name"] for job in long_jobs()}:
        return False
    return not (args.timings and not entry.timing) and not (args.trainings and entry.timing)


def finish(entry: Entry, *, again: bool) -> bool:
    """Run the entry unless it is done or lacks something; return False if it failed."""
    if not again and is_done(entry):
        print(f"{entry.name}: done", flush=True)
    elif missing := missing_files(entry):
        print(f"{entry.name}: skipped, needs {', '.join(missing)}", flush=True)
    else:
        return run(entry)
    return True


def run(entry: Entry) -> bool:
    """Run the entry's script; return True if it succeeded."""
    print(f"{entry.name}: {question(entry)} About {entry.minutes} min.", flush=True)
    log = ROOT / LOGS / f"{entry.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with log.open("w", encoding="utf-8") as file:
        code = subprocess.run(command(entry), cwd=ROOT, stdout=file, stderr=subprocess.STDOUT).returncode
    minutes = (time.perf_counter() - started) / 60
    if code:
        last = [line for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()][-1:]
        print(f"{entry.name}: failed after {minutes:.0f} min: {''.join(last)}; see {LOGS / log.name}", flush=True)
    else:
        print(f"{entry.name}: finished in {minutes:.0f} min", flush=True)
    return not code


def command(entry: Entry) -> list[str]:
    """Return the command of an entry; without a script it trains a model."""
    module = f"benchmarks.{entry.script}" if entry.script else "nmt.commands.train"
    return [sys.executable, "-m", module, *entry.arguments]


def is_done(entry: Entry) -> bool:
    """Tell if the entry's result exists, and if the commit that it names has today's code."""
    if entry.model:
        return (ROOT / entry.model).is_file()
    file = RESULTS / f"{entry.name}.md"
    commit = re.search(r"^- commit: (\w+)$", file.read_text("utf-8"), re.MULTILINE) if file.is_file() else None
    return commit is not None and git("diff", "--stat", commit[1], "HEAD", "--", *CODE) == ""


def git(*words: str) -> str | None:
    """Return the output of a git command; None if it fails."""
    result = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return None if result.returncode else result.stdout


def missing_files(entry: Entry) -> list[str]:
    """Return the files that the entry needs and that do not exist."""
    return [file for file in entry.needs if not (ROOT / file).exists()]


def long_jobs() -> list[dict[str, Any]]:
    """Return the jobs of run_queue.py: name, command, minutes and priority."""
    file = ROOT / "benchmarks" / "run_queue.yaml"
    jobs: list[dict[str, Any]] = yaml.safe_load(file.read_text("utf-8")) if file.is_file() else []
    return jobs


def question(entry: Entry) -> str:
    """Return the first line of the script's docstring."""
    if not entry.script:
        return "Train the model that other entries need."
    return (
        (ROOT / "benchmarks" / f"{entry.script.replace('.', '/')}.py").read_text("utf-8").partition("\n")[0].strip('"')
    )


def described(entry: Entry) -> str:
    """Return a line for --list."""
    state = "done" if is_done(entry) else "open"
    if missing := missing_files(entry):
        state = f"needs {', '.join(missing)}"
    kind = "timing" if entry.timing else "training"
    return f"{entry.name:18} {kind:8} {entry.minutes:4} min  {question(entry)} [{state}]"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; the same command continues")
        sys.exit(130)
