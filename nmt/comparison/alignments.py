"""Alignments of the compared models: their entropy, and the write and read weights of their slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from nmt.alignment.word_weights import display_weights, piece_labels
from nmt.comparison.measures import Measurements, alignment_entropies
from nmt.comparison.models import FinishedRun, Model, TestSet
from nmt.errors import print_message
from nmt.files.checksum import fingerprint
from nmt.inference.forced_decoding import force_decode, slot_weights
from nmt.inference.model_folder import load_folder
from nmt.inference.translator import Translator

GROUP = 256  # test sentences whose alignments are in memory at once
DIGITS = 4  # significant digits of stored weights
ByLabel = dict[str, list[dict[str, Any]]]


def measure_alignments(
    models: Sequence[Model], test: TestSet, rows: Sequence[int], store: Measurements, trust: Sequence[str]
) -> tuple[ByLabel, ByLabel]:
    """Return, by label, the parameters and entropy of each run, and the weights of ``rows`` for its first run."""
    measured: ByLabel = {}
    drawn: ByLabel = {}
    text = fingerprint([*test.sources, *test.references])
    split = test.golds is None
    for label, runs in models:
        for run in runs:
            load = cache(partial(load_translator, run, trust))  # a model is loaded when it is first needed, and once
            key = {"kind": "alignments", "model": run.fingerprint, "text": text}
            measured.setdefault(label, []).append(store.measure(key, partial(_entropy, load, run, test)))
            for row in rows if run is runs[0] else ():
                pair = test.sources[row], test.references[row]
                key = {"kind": "example", "model": run.fingerprint, "text": fingerprint([*pair, str(split)])}
                drawn.setdefault(label, []).append(store.measure(key, partial(_example, load, *pair, split=split)))
    return measured, drawn


def load_translator(run: FinishedRun, trust: Sequence[str]) -> Translator:
    return Translator(load_folder(run.folder, trust=trust))


def _entropy(load: Callable[[], Translator], run: FinishedRun, test: TestSet) -> dict[str, Any]:
    """Return the number of parameters, and the mean entropy over all target pieces of the force-decoded references."""
    translator = load()
    parameters = sum(weight.numel() for weight in translator.trained.model.parameters())
    if not translator.attention.reads_source:
        return {"parameters": parameters, "entropy": None, "signed": False}
    print_message(f"aligning the references with {run.folder}")
    entropies: list[float] = []
    for first in range(0, len(test.sources), GROUP):
        part = slice(first, first + GROUP)
        decodings = force_decode(
            translator, test.sources[part], test.references[part], on_failure=lambda row, reason: None
        )
        for decoding in decodings:
            entropies += alignment_entropies(decoding.alignment).tolist() if decoding.alignment.size else []
    entropy = float(np.mean(entropies)) if entropies else None
    return {"parameters": parameters, "entropy": entropy, "signed": translator.attention.signed}


def _example(load: Callable[[], Translator], source: str, reference: str, *, split: bool) -> dict[str, Any]:
    """Return the word weights of a pair, and its write and read weights. They are None without attention.

    With ``split``, words of scripts without spaces are split into pieces. Gold links need whole words.
    """
    translator = load()
    empty: dict[str, Any] = {"weights": None, "write": None, "read": None}
    if not translator.attention.reads_source:
        return empty
    (decoding,) = force_decode(translator, [source], [reference], on_failure=lambda row, reason: None)
    if not decoding.alignment.size:
        return empty
    words = display_weights(decoding, translator.change_text(source), translator.change_text(reference), split=split)
    slots = slot_weights(translator, source, reference)
    return {
        "weights": _rounded(words.weights),
        "source": words.source,
        "target": words.target,
        "source_pieces": piece_labels(decoding.source_tokens),
        "target_pieces": piece_labels(decoding.tokens),
        "write": None if slots is None else _rounded(slots.write),
        "read": None if slots is None else _rounded(slots.read),
    }


def _rounded(weights: np.ndarray) -> list[list[float]]:
    return [[float(f"{weight:.{DIGITS}g}") for weight in row] for row in weights.tolist()]
