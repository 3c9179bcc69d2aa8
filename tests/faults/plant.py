"""Plant the faults of faults.toml one at a time, and report which of them the tests notice.

    nice python tests/faults/plant.py --stage near --results faults.jsonl     the tests of the fault's room only
    nice python tests/faults/plant.py --results faults.jsonl                  then all other tests, where these pass
    python tests/faults/plant.py --only data-eos-masked --pytest "tests/text tests/training"
    python tests/faults/plant.py --results faults.jsonl --table               a Markdown table of the results

The tracked files of the working tree are copied into a temporary folder, which PYTHONPATH names, so that subprocesses
of the tests import it too. A fault is noticed if a test fails or hangs. The tests that most likely notice it run first:
those of its room, and those named like its file. Before all that, the tests have to pass without a fault. An
interrupted run continues with the faults that ``--results`` lacks. To use more cores, start a run per ``--group``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TESTS = "tests"
SELECTION = "tests -m 'not slow and not thorough'"  # what `make test` runs
PYTEST = (*("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"), "--ignore=tests/faults")  # it notices every fault
NO_TESTS = 5  # pytest's exit code if a selection is empty
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """A mistake in ``file``: the text ``new`` in the place of ``old``, which occurs there once."""

    id: str
    group: str
    file: str
    description: str
    old: str
    new: str


def load_faults() -> list[Fault]:
    """Return all faults of faults.toml, in order."""
    text = Path(__file__).with_name("faults.toml").read_text("utf-8")
    return [Fault(**entry) for entry in tomllib.loads(text)["fault"]]


def near_tests(fault: Fault, root: Path) -> list[str]:
    """Return the test files of the fault's room and those named like its file, the most likely to notice it first."""
    module = Path(fault.file).with_suffix("")
    files = {*(root / "tests" / module.parts[1]).rglob("test_*.py"), *root.glob(f"tests/**/test_{module.name}.py")}

    texts = {file: file.read_text("utf-8").lower() for file in files}
    words = {module.name, *re.findall(r"\w{4,}", fault.description.lower())}
    share = {word: 1 / max(1, sum(word in text for text in texts.values())) for word in words}  # rare words say most

    def relevance(file: Path) -> tuple[bool, float, str]:
        score = sum(share[word] for word in words if word in texts[file])
        return f"test_{module.name}.py" != file.name, -score, file.as_posix()

    return [file.relative_to(root).as_posix() for file in sorted(files, key=relevance)]


class Copy:
    """A copy of the tracked files in the folder ``root``, in which faults are planted."""

    def __init__(self, root: Path, arguments: argparse.Namespace) -> None:
        self.root, self.stage, self.timeout_s = root, arguments.stage, arguments.timeout
        for name in subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0"):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        words = shlex.split(arguments.pytest)
        self.paths = [word for word in words if (root / word.partition("::")[0]).exists()] or [TESTS]
        self.options = [word for word in words if word not in self.paths]
        own = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1", "OMP_NUM_THREADS": "1"}
        self.environment = {"NMT_SHARED_DATA": str(ROOT.parent / "shared" / "data"), **os.environ, **own}

    def near(self, fault: Fault) -> list[str]:
        """Return the near tests that the selection contains."""
        return [file for file in near_tests(fault, self.root) if any(Path(file).is_relative_to(p) for p in self.paths)]

    def first_failure(self, tests: Sequence[str], *, ignored: Iterable[str] = ()) -> str | None:
        """Run these tests. Return the id of the first one that fails, ``timeout``, or None if all pass."""
        command = [sys.executable, *PYTEST, *tests, *self.options, *(f"--ignore={file}" for file in ignored)]
        options: Any = {"cwd": self.root, "env": self.environment, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **options, start_new_session=True) as process:
            try:
                output, _ = process.communicate(timeout=self.timeout_s)
            except subprocess.TimeoutExpired:
                return "timeout"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)  # the group of this pytest and its children
        failed = FAILED.search(output)
        passed = process.returncode in (0, NO_TESTS)
        return None if passed else failed[1] if failed else f"exit code {process.returncode}: {output[-200:]}"

    def result(self, fault: Fault, *, near_passed: bool) -> dict[str, Any]:
        """Plant the fault and return the result. With ``near_passed``, the near tests have missed it before."""
        file, near, started = self.root / fault.file, self.near(fault), time.monotonic()
        original = file.read_text("utf-8")
        assert original.count(fault.old) == 1, f"{fault.id}: `old` must occur once in {fault.file}"
        file.write_text(original.replace(fault.old, fault.new), "utf-8")
        shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)  # a stale one would hide the fault
        try:
            test = self.first_failure(near) if near and not near_passed else None
            if test is None and self.stage == "all":
                test = self.first_failure(self.paths, ignored=near)
        finally:
            file.write_text(original, "utf-8")
        seconds = round(time.monotonic() - started, 1)
        return {"id": fault.id, "stage": self.stage, "noticed": test is not None, "test": test, "seconds": seconds}


def table(faults: Iterable[Fault], results: dict[str, dict[str, Any]]) -> str:
    """Return the results as a Markdown table."""
    rows = ["| fault | mistake | noticed by | seconds |", "|---|---|---|---|"]
    for fault in faults:
        result = results.get(fault.id, {"test": "not run", "seconds": ""})
        test = result["test"] or f"**nothing** (stage {result['stage']})"
        rows.append(f"| {fault.id} | {fault.description} | {test.replace('|', '')} | {result['seconds']} |")
    return "\n".join(rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--only", nargs="+", metavar="ID", help="plant these faults only")
    add("--group", help="plant the faults of this group only")
    add("--stage", choices=("near", "all"), default="all", help="near: only the tests of the room")
    add("--pytest", default=SELECTION, metavar="ARGS", help="the tests to run (default: %(default)s)")
    add("--results", type=Path, metavar="FILE", help="append one JSON line per fault to this file")
    add("--timeout", type=float, default=3600, help="seconds per pytest run (default: %(default)s)")
    add("--no-check", action="store_true", help="do not run the tests without a fault first")
    add("--table", action="store_true", help="print the stored results and exit")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    faults = [fault for fault in load_faults() if arguments.group in (None, fault.group)]
    faults = [fault for fault in faults if arguments.only is None or fault.id in arguments.only]
    stored = arguments.results.read_text("utf-8") if arguments.results and arguments.results.exists() else ""
    results = {result["id"]: result for result in map(json.loads, stored.splitlines())}
    if arguments.table:
        print(table(faults, results))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends pytest too and deletes the copy
    missed = {key for key, result in results.items() if not result["noticed"] and result["stage"] == "near"}
    open_faults = [f for f in faults if f.id not in results or (arguments.stage == "all" and f.id in missed)]
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = Copy(Path(folder), arguments)
        near = sorted({file for fault in open_faults for file in copy.near(fault)})
        if not arguments.no_check and (test := copy.first_failure(near if arguments.stage == "near" else copy.paths)):
            sys.exit(f"{test}: fails without a fault; correct it, or give --no-check")
        for fault in open_faults:
            result = copy.result(fault, near_passed=fault.id in missed)
            print(f"{fault.id}: {result['test'] or 'not noticed'} ({result['seconds']} s)", flush=True)
            if arguments.results is not None:
                with arguments.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
