"""Decoding speed and memory of several models, measured in turns: model after model, round after round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nmt.comparison.models import Model, Run, TestSet
from nmt.comparison.store import Measurements
from nmt.errors import UserError, print_message, reason
from nmt.files.atomic import make_folder
from nmt.files.checksum import fingerprint
from nmt.files.private import private_folder
from nmt.inference.engines import GRAPH_SUFFIX
from nmt.inference.scores import corpus_scores

FIXED_SEARCH = {"n_best": 1, "temperature": None, "top_k": None}


@dataclass(frozen=True)
class Timing:
    """How to time: engines, beam sizes, rounds, and rows of the test set in groups of similar length."""

    engines: Sequence[str]
    beams: Sequence[int]
    rounds: int
    groups: Sequence[Sequence[int]]
    device: str
    threads: int | None
    trust: Sequence[str]
    machine: Mapping[str, Any]


def measure_speed(
    models: Sequence[Model], timing: Timing, test: TestSet, store: Measurements
) -> tuple[dict[tuple[str, str], list[dict[str, Any]]], dict[tuple[str, str], str]]:
    """Return the measurements of each (label, engine), one for each round, and why engines cannot run some models.

    The first run of each model is measured. Every second round takes the models in the opposite order.
    """
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    failures: dict[tuple[str, str], str] = {}
    with _exports(store.folder.parent, timing.trust) as export:
        for round_number in range(timing.rounds):
            for engine in timing.engines:
                for model in models[:: -1 if round_number % 2 else 1]:
                    pair = (model.label, engine)
                    if pair in failures:
                        continue
                    key = _key(model.runs[0], engine, timing, round_number, test)
                    action = partial(_measure, model, engine, timing, test, round_number, export)
                    try:
                        results.setdefault(pair, []).append(store.measure(key, action))
                    except UserError as error:
                        failures[pair] = str(error)
                        print_message(f"warning: {model.label}: engine={engine} is not measured: {error}")
    return results, failures


def _key(run: Run, engine: str, timing: Timing, round_number: int, test: TestSet) -> dict[str, Any]:
    rows = [row for group in timing.groups for row in group]
    return {
        "kind": "speed",
        "model": run.fingerprint,
        "engine": engine,
        "beams": timing.beams,
        "search": _search(run),
        "groups": [len(group) for group in timing.groups],
        **test.tokenizer_key,
        "text": fingerprint([*(test.sources[row] for row in rows), *(test.references[row] for row in rows)]),
        "round": round_number,
        "device": timing.device if engine == "torch" else "cpu",
        "threads": timing.threads,
        "machine": timing.machine,
    }


def _search(run: Run) -> dict[str, Any]:
    return {**run.config.get("search", {}), **FIXED_SEARCH}


def _measure(
    model: Model, engine: str, timing: Timing, test: TestSet, round_number: int, export: Callable[[Run], Path]
) -> dict[str, Any]:
    """Translate in a new process. Raises UserError if the engine cannot run the model."""
    run = model.runs[0]
    place = export(run) if engine in GRAPH_SUFFIX else run.folder
    print_message(f"timing {model.label}: {engine}, round {round_number + 1} of {timing.rounds}")
    search = _search(run)
    if search.get("coverage_penalty") and 1 in timing.beams:
        search["coverage_penalty"] = 0.0  # greedy search has none, and all beam sizes shall do the same work
    result = run_worker(
        {
            "model": str(place),
            "engine": engine,
            "device": timing.device if engine == "torch" else "auto",
            "threads": timing.threads,
            "trust": list(timing.trust),
            "beams": list(timing.beams),
            "groups": [[test.sources[row] for row in group] for group in timing.groups],
            "search": search,
        }
    )
    references = [test.references[row] for group in timing.groups for row in group]
    for beam in result["beams"].values():
        texts = [text for group in beam.pop("texts") for text in group]
        beam["bleu"] = corpus_scores(texts, references, tokenizer=test.tokenizer).bleu
    return result


def run_worker(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the worker reports. Raises UserError if it fails."""
    # -P: no modules from the current folder. The path: a package that trust= names may lie anywhere.
    command = [sys.executable, "-P", "-m", "nmt.comparison.worker"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.run(
        command, input=json.dumps(job), capture_output=True, text=True, encoding="utf-8", env=environment
    )
    try:
        result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        reason = process.stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise UserError(f"the measuring process failed ({reason[0][:200]}); free some memory, and repeat") from None
    if "error" in result:
        raise UserError(result["error"])
    return result


@contextmanager
def _exports(report: Path, trust: Sequence[str]) -> Iterator[Callable[[Run], Path]]:
    """Yield a function that exports the model of a run, once, into a temporary folder, and returns that folder.

    The graphs do not go into the run: they would change the engine that nmt-translate selects for it. The temporary
    folder is in that of the report, whose next comparison deletes what a killed one left.
    """
    make_folder(report)
    with private_folder(report) as private:
        parent = private.resolve()  # other processes read it
        folders: dict[str, Path] = {}

        def export(run: Run) -> Path:
            if run.fingerprint not in folders:
                folder = parent / str(len(folders))
                folder.mkdir()
                _export(run, folder, trust)
                folders[run.fingerprint] = folder
            return folders[run.fingerprint]

        yield export


def _export(run: Run, folder: Path, trust: Sequence[str]) -> None:
    from nmt.inference.model_folder import load_folder
    from nmt.inference.onnx.deployment import write_deployment

    trained = load_folder(run.folder, trust=trust)
    if trained.model.attention.sequential:
        raise UserError("this attention needs torch to encode the source")
    print_message(f"exporting {run.folder} for onnxruntime …")
    try:
        write_deployment(
            folder, trained, None, name=folder.name, engines=list(GRAPH_SUFFIX), fingerprint=run.fingerprint
        )
    except UserError:
        raise
    except Exception as error:  # the exporters raise anything
        raise UserError(f"its export failed ({reason(error)})") from error
