"""Training runs as cells of a benchmark, and a record of each run that has finished."""

from __future__ import annotations

import argparse
import csv
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Self

from nmt.errors import counted
from nmt.files.atomic import write_lines

KEPT = "test signatures seconds tokens_per_s epochs updates text_checksum toolkit machine".split()  # of summary.json


class Runs:
    """The training runs of a benchmark in ``folder``, and the records of those that have finished.

    A record holds settings, scores, commit, and the logged values of the columns in ``curves``. The records are a
    results file, ``records``/NAME.jsonl for a folder NAME. A table can therefore be completed on another machine,
    without the folders of the runs that finished earlier.
    """

    def __init__(self, folder: Path, records: Path, *, threads: int = 1, curves: Sequence[str] = ()) -> None:
        self.folder, self.threads, self.curves = folder, threads, curves
        self.file = records / f"{folder.name}.jsonl"
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.is_file() else []
        self.records: dict[str, dict[str, Any]] = {record["name"]: record for record in map(json.loads, lines)}
        self.used: set[str] = set()
        self.lock = RLock()  # runs may train in several threads

    @classmethod
    def of(cls, args: argparse.Namespace, *, curves: Sequence[str] = ()) -> Self:
        """Return the runs of a script with the options of ``argument_parser``: their records lie beside its results."""
        results = args.output.parent if args.output.suffix else args.output
        return cls(args.runs, results / "records", threads=args.threads, curves=curves)

    def train(self, name: str, settings: Sequence[str], *, model: bool = False) -> dict[str, Any]:
        """Train a run, unless it has finished, and return its record. An interrupted run is resumed.

        A run whose folder is gone is trained again only if its ``model`` is needed. Exits with the error output if
        training fails, and with one line if the run has other settings.
        """
        run = self.finished(name)
        if run is None or (model and not self._has(name)):
            self._train(name, settings)
            run = self._record(name)
        if run["settings"] is None:  # just trained, trained by hand, or recorded by a report
            run["settings"] = _portable(settings)
            self._write()
        if run["settings"] != _portable(settings):
            place = self.folder / name if self._has(name) else self.file
            sys.exit(f"{name}: {place} has a run with other settings; remove it, or choose another --runs and --output")
        return run

    def finished(self, name: str) -> dict[str, Any] | None:
        """Return the record of a run, or None if it has not finished. The folder decides if there is one."""
        if self._has(name):
            return self._record(name)
        self.used.add(name)
        return self.records.get(name)

    def score(self, name: str, key: str, measure: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """Return ``measure(folder)`` of a finished run; the result is kept in its record as ``key``."""
        scores: dict[str, Any] = self.records[name]["scores"]
        if key not in scores:
            if not self._has(name):
                sys.exit(f"{name}: no model in {self.folder} to measure; remove its line from {self.file} to train it")
            scores[key] = measure(self.folder / name)
            self._write()
        measured: dict[str, Any] = scores[key]
        return measured

    def commits(self) -> str:
        """Return the commits and the number of training texts of the runs that were asked for; ``+``: with changes."""
        records = [self.records[name] for name in self.used & {*self.records}]
        if not records:
            return "no run has finished"
        toolkits = [record["toolkit"] for record in records]
        texts = {record.get("text_checksum") for record in records}
        known = f"; {counted(len(texts), 'training text')}" * (None not in texts)
        counts = Counter(
            (kit["commit"] or "unknown")[:7] + "+" * bool(kit["changed"]) for kit in toolkits
        ).most_common()
        return "trained at " + ", ".join(f"{commit} ({counted(count, 'run')})" for commit, count in counts) + known

    def _has(self, name: str) -> bool:
        return (self.folder / name / "summary.json").is_file()

    def _train(self, name: str, settings: Sequence[str]) -> None:
        has_checkpoint = (self.folder / name / "checkpoints" / "last.ckpt").is_file()
        if not has_checkpoint:
            shutil.rmtree(self.folder / name, ignore_errors=True)  # nmt-train would choose another name
        resume = ["resume=true"] if has_checkpoint else []
        command = [sys.executable, "-m", "nmt.commands.programs", "train", f"runs={self.folder}", f"name={name}"]
        command += [f"threads={self.threads}", "export=false"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        result = subprocess.run(
            [*command, *settings, *resume], env=environment, capture_output=True, text=True, preexec_fn=end_with_parent
        )
        if result.returncode:
            sys.exit(f"{' '.join(settings)}:\n{result.stderr}")

    def _record(self, name: str) -> dict[str, Any]:
        """Return the record of the run in its folder, and keep it.

        Settings and scores are those of the record before, or None and empty if that was another run of this name.
        """
        folder = self.folder / name
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        rows = _rows(folder / "metrics.csv")
        record = {
            "name": name,
            "settings": None,
            **{key: summary.get(key) for key in KEPT},
            "metrics": {column: values[-1][1] for column, values in rows.items()},
            "curves": {column: rows[column] for column in self.curves if column in rows},
            "scores": {},
        }
        with self.lock:
            self.used.add(name)
            before = self.records.get(name, {})
            if all(before.get(key) == record[key] for key in KEPT):
                record |= {key: before[key] for key in ("settings", "scores")}
            if record != before:
                self.records[name] = record
                self._write()
            return self.records[name]

    def _write(self) -> None:
        with self.lock:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_lines(self.file, [json.dumps(self.records[name]) for name in sorted(self.records)])


def evaluate(*words: str) -> dict[str, Any]:
    """Return the scores that nmt-evaluate prints as JSON."""
    scores: dict[str, Any] = json.loads(program("evaluate", *words, "json=true"))
    return scores


def program(name: str, *words: str) -> str:
    """Run the command nmt-``name``, and return what it prints."""
    command = [sys.executable, "-m", "nmt.commands.programs", name, *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def _portable(settings: Sequence[str]) -> list[str]:
    """Return the settings without those that name a file or a folder: these differ between machines."""
    return [word for word in settings if not Path(word.partition("=")[2]).is_absolute()]


def end_with_parent() -> None:
    """Let this process get SIGTERM when its parent ends, so that a stopped benchmark leaves no training behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _rows(file: Path) -> dict[str, list[list[float]]]:
    """Return [update from 0, value] of each column of a metrics file, where it has a value."""
    columns: dict[str, list[list[float]]] = {}
    with file.open(newline="", encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            for name, value in row.items():
                if value:
                    columns.setdefault(name, []).append([int(row["step"]), float(value)])
    return columns
