"""Decoding speed and RAM of several models, which are measured in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from nmt.comparison.measures import Bucket, Measurements
from nmt.comparison.models import CompareOptions, FinishedRun, Model, TestSet
from nmt.comparison.records import Record
from nmt.errors import UserError, print_message, reason
from nmt.files.checksum import fingerprint
from nmt.inference.engines import GRAPH_SUFFIX
from nmt.inference.scores import corpus_scores


class Timing(NamedTuple):
    """The timed rows of the test set by source length, and the machine and toolkit that time them."""

    options: CompareOptions
    test: TestSet
    groups: Sequence[tuple[Bucket, Sequence[int]]]
    machine: Mapping[str, Any]


def measure_speed(models: Sequence[Model], timing: Timing, store: Measurements) -> tuple[list[Record], dict[str, str]]:
    """Return the records of all rounds, and the error of each model and engine that cannot run.

    The first run of each model is measured. Every second round takes the models in the opposite order.
    """
    records: list[Record] = []
    failures: dict[str, str] = {}
    options = timing.options
    with TemporaryDirectory() as exports:
        for round_number, engine in product(range(options.rounds), options.engines):
            for label, (run, *_) in models[:: -1 if round_number % 2 else 1]:
                name = f"not timed: {label}, {engine}"
                if name in failures:
                    continue
                key = _key(run, engine, timing, round_number)
                progress = f"timing {label}: {engine}, round {round_number + 1} of {options.rounds}"
                try:
                    measured = store.measure(key, partial(_measure, run, engine, timing, Path(exports), progress))
                except UserError as error:
                    failures[name] = str(error)
                    print_message(f"warning: {label}: engine={engine} is not measured: {error}")
                    continue
                records += _records(partial(Record, label, str(run.folder), engine=engine), measured, timing)
    return records, failures


def _records(record: partial[Record], measured: Mapping[str, Any], timing: Timing) -> Iterator[Record]:
    """Yield the records of one round of one engine."""
    if measured["memory_mb"] is not None:
        yield record("memory_mb", measured["memory_mb"])
    sizes = [len(rows) for _, rows in timing.groups]
    for beam, timed in measured["beams"].items():
        yield record("timed_bleu", timed["bleu"], beam=int(beam))
        yield record("sentences_per_s", sum(sizes) / sum(timed["seconds"]), beam=int(beam))
        for (bucket, _), size, seconds in zip(timing.groups, sizes, timed["seconds"], strict=True):
            yield record("ms", 1000 * seconds / size, beam=int(beam), lengths=bucket.label)


def _key(run: FinishedRun, engine: str, timing: Timing, round_number: int) -> dict[str, Any]:
    options, test, groups, machine = timing
    rows = [row for _, group in groups for row in group]
    return {
        "kind": "speed",
        "model": run.fingerprint,
        "engine": engine,
        "beams": options.beams,
        "search": _search(run),
        "groups": [len(group) for _, group in groups],
        "tokenizer": test.tokenizer,
        "text": fingerprint([*(test.sources[row] for row in rows), *(test.references[row] for row in rows)]),
        "round": round_number,
        "device": options.device if engine == "torch" else "cpu",
        "threads": options.threads,
        "machine": machine,
    }


def _search(run: FinishedRun) -> dict[str, Any]:
    off = ("temperature", "top_k", "top_p", "mbr")
    return {**run.config.get("search", {}), "n_best": 1, "seed": 1, **dict.fromkeys(off)}


def _measure(run: FinishedRun, engine: str, timing: Timing, exports: Path, progress: str) -> dict[str, Any]:
    """Translate in a new process. Raises UserError if the engine cannot run the model."""
    options, test, groups, _ = timing
    folder = _export(run, exports, options.trust) if engine in GRAPH_SUFFIX else run.folder
    print_message(progress)
    search = _search(run)
    if search.get("coverage_penalty") and 1 in options.beams:
        search["coverage_penalty"] = 0.0  # greedy search has none, and all beam sizes must do the same work
    result = run_worker(
        {
            "model": str(folder),
            "engine": engine,
            "device": options.device if engine == "torch" else "auto",
            "threads": options.threads,
            "trust": list(options.trust),
            "beams": list(options.beams),
            "groups": [[test.sources[row] for row in group] for _, group in groups],
            "search": search,
        }
    )
    references = [test.references[row] for _, group in groups for row in group]
    for beam in result["beams"].values():
        texts = [text for group in beam.pop("texts") for text in group]
        beam["bleu"] = corpus_scores(texts, references, tokenizer=test.tokenizer).bleu
    return result


def run_worker(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a worker process. Raises UserError if it fails."""
    # -P: no modules from the current folder. The path: a package that trust= names may lie anywhere.
    command = [sys.executable, "-P", "-m", "nmt.comparison.worker"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.run(
        command, input=json.dumps(job), capture_output=True, text=True, encoding="utf-8", env=environment
    )
    try:
        result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        cause = process.stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise UserError(f"the measuring process failed ({cause[0][:200]}); free some memory, and repeat") from None
    if "error" in result:
        raise UserError(result["error"])
    return result


def _export(run: FinishedRun, parent: Path, trust: Sequence[str]) -> Path:
    """Export the model of a run, once, into a folder of ``parent``, and return that folder.

    The graphs do not go into the run: they would change the engine that nmt-translate selects for it.
    """
    from nmt.inference.model_folder import load_folder
    from nmt.inference.onnx.export import write_deployment

    folder = parent / run.fingerprint
    if (folder / "complete").exists():
        return folder
    folder.mkdir(exist_ok=True)
    trained = load_folder(run.folder, trust=trust)
    print_message(f"exporting {run.folder} for onnxruntime …")
    try:
        engines = list(GRAPH_SUFFIX)
        write_deployment(folder, trained, None, name=folder.name, engines=engines, fingerprint=run.fingerprint)
    except UserError:
        raise
    except Exception as error:  # the exporters raise anything
        raise UserError(f"its export failed ({reason(error)})") from error
    (folder / "complete").touch()
    return folder
