"""Plant the faults of faults.toml one at a time, and report which of them the tests notice.

    nice python tests/faults/plant.py --stage near --results faults.jsonl     the tests of the fault's room only
    nice python tests/faults/plant.py --results faults.jsonl                  then all tests of `make test`
    python tests/faults/plant.py --only data-eos-masked --group data

The tracked files of the working tree are copied into a temporary folder, which PYTHONPATH names, so that subprocesses
of the tests import it too. A fault is noticed if a test fails or hangs; the tests should pass without one. An
interrupted run continues with the faults that ``--results`` lacks. To use more cores, start a run per ``--group``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--ignore=tests/faults")
FAST = ("-m", "not slow and not thorough")  # the tests of `make test`
NO_TESTS = 5  # pytest's exit code if a selection is empty
TIMEOUT_S = 3600  # of one run of pytest
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def copy_tree(root: Path) -> None:
    """Copy the tracked files into ``root``."""
    for name in subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0"):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)


def near_tests(fault: dict[str, str], root: Path) -> list[str]:
    """Return the test files of the fault's room and those named like its file, which run first."""
    module = Path(fault["file"]).with_suffix("")
    named = sorted(root.glob(f"tests/**/test_{module.name}.py"))
    room = sorted((root / "tests" / module.parts[1]).rglob("test_*.py"))
    return [file.relative_to(root).as_posix() for file in dict.fromkeys([*named, *room])]


def first_failure(root: Path, *tests: str) -> str | None:
    """Run these tests in ``root``. Return the id of the first one that fails, ``timeout``, or None if all pass."""
    own = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1", "OMP_NUM_THREADS": "1"}
    environment = {"NMT_SHARED_DATA": str(ROOT.parent / "shared" / "data"), **os.environ, **own}
    options: Any = {"cwd": root, "env": environment, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *PYTEST, *FAST, *tests], **options, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the group of this pytest and its children
    if process.returncode in (0, NO_TESTS):
        return None
    failed = FAILED.search(output)
    return failed[1] if failed else f"exit code {process.returncode}: {output[-200:]}"


def noticed_by(fault: dict[str, str], root: Path, stage: str) -> str | None:
    """Plant the fault, and return the test that notices it, or None."""
    file, near = root / fault["file"], near_tests(fault, root)
    original = file.read_text("utf-8")
    assert original.count(fault["old"]) == 1, f"{fault['id']}: `old` must occur once in {fault['file']}"
    file.write_text(original.replace(fault["old"], fault["new"]), "utf-8")
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)  # a stale one would hide the fault
    try:
        test = first_failure(root, *near) if near else None
        if test is None and stage == "all":
            test = first_failure(root, "tests", *(f"--ignore={name}" for name in near))
        return test
    finally:
        file.write_text(original, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="ID", help="plant these faults only")
    parser.add_argument("--group", help="plant the faults of this group only")
    parser.add_argument("--stage", choices=("near", "all"), default="all", help="near: only the tests of the room")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append one JSON line per fault to this file")
    arguments = parser.parse_args()
    faults = tomllib.loads(Path(__file__).with_name("faults.toml").read_text("utf-8"))["fault"]
    known = arguments.results.read_text("utf-8") if arguments.results and arguments.results.exists() else ""
    done = {json.loads(line)["id"] for line in known.splitlines()}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends pytest too and deletes the copy
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy_tree(Path(folder))
        for fault in faults:
            chosen = arguments.group in (None, fault["group"]) and fault["id"] in (arguments.only or [fault["id"]])
            if not chosen or fault["id"] in done:
                continue
            test = noticed_by(fault, Path(folder), arguments.stage)
            print(f"{fault['id']}: {test or 'not noticed'}", flush=True)
            if arguments.results is not None:
                with arguments.results.open("a", encoding="utf-8") as file:
                    result = {"id": fault["id"], "stage": arguments.stage, "noticed": test is not None, "test": test}
                    file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
