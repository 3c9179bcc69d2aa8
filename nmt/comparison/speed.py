"""Decoding speed and RAM of several models, which are measured in turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nmt.comparison.models import CompareOptions, FinishedRun, Model, TestSet
from nmt.comparison.records import Record
from nmt.comparison.worker import measure
from nmt.errors import UserError, print_message
from nmt.inference.engines import ABOUT, GRAPH_SUFFIX
from nmt.inference.scores import bleu_metric
from nmt.system.processes import run_tasks

ROUNDS = 3
SENTENCES = 500  # test sentences that are timed, from the first on
OFF: dict[str, Any] = {
    **{"n_best": 1, "seed": 1, "coverage_penalty": 0.0},  # greedy search has no coverage penalty
    **dict.fromkeys(("temperature", "top_k", "top_p", "mbr")),
}
Groups = Mapping[str, Sequence[int]]
"""The rows of the test set to time, by the range of their source lengths."""


def measure_speed(
    models: Sequence[Model], options: CompareOptions, test: TestSet, groups: Groups
) -> tuple[list[Record], dict[str, str]]:
    """Return the records of all rounds, and the error of each model and engine that cannot run.

    The first run of each model is measured. Every second round takes the models in the opposite order.
    """
    records: list[Record] = []
    failures: dict[str, str] = {}
    lines = [[test.sources[row] for row in rows] for rows in groups.values()]
    with TemporaryDirectory() as exports:
        for turn, engine in product(range(ROUNDS), options.engines):
            for number, (label, (run, *_)) in [*enumerate(models)][:: -1 if turn % 2 else 1]:
                name = f"not timed: {label}, {engine}"
                if name in failures:
                    continue
                try:
                    load = {
                        "folder": _export(run, Path(exports, f"{number}"), options)
                        if engine in GRAPH_SUFFIX
                        else run.folder,
                        **{"engine": engine, "device": options.device if engine == "torch" else "auto"},
                        **{"threads": options.threads, "trust": options.trust},
                    }
                    print_message(f"timing {label}: {engine}, round {turn + 1} of {ROUNDS}")
                    search = {**run.config.get("search", {}), **OFF}
                    job = {"load": load, "beams": options.beams, "groups": lines, "search": search}
                    [(_, measured)] = run_tasks(measure, [job], workers=2)  # one worker would be this process
                except UserError as error:
                    failures[name] = str(error)
                    print_message(f"warning: {label}: engine={engine} is not measured: {error}")
                    continue
                records += _records(partial(Record, label, str(run.folder), engine=engine), measured, test, groups)
    return records, failures


def _records(record: partial[Record], measured: Mapping[str, Any], test: TestSet, groups: Groups) -> Iterator[Record]:
    """Yield the records of one round of one engine."""
    if measured["memory_mb"] is not None:
        yield record("memory_mb", measured["memory_mb"])
    references = [test.references[row] for rows in groups.values() for row in rows]
    for beam, (seconds, tokens, texts) in measured["beams"].items():
        yield record("timed_bleu", bleu_metric(test.tokenizer).corpus_score(texts, [references]).score, beam=beam)
        yield record("sentences_per_s", len(texts) / sum(seconds), beam=beam)
        for lengths, spent, written in zip(groups, seconds, tokens, strict=True):
            if written:
                yield record("ms_per_token", 1000 * spent / written, beam=beam, lengths=lengths)


def _export(run: FinishedRun, folder: Path, options: CompareOptions) -> Path:
    """Export the model of a run, once, into ``folder``, and return that folder.

    The graphs do not go into the run: they would change the engine that nmt-translate selects for it.
    """
    from nmt.inference.model_folder import load_folder
    from nmt.inference.onnx.export import write_deployment

    if not (folder / ABOUT).exists():
        folder.mkdir(exist_ok=True)
        print_message(f"exporting {run.folder} for onnxruntime …")
        trained = load_folder(run.folder, trust=options.trust)
        write_deployment(folder, trained, None, name=folder.name, engines=[*GRAPH_SUFFIX], fingerprint="")
    return folder
