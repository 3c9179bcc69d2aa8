"""Draw the alignments that all models give to the same sentences, and what they write and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.comparison.figures import draw_heatmaps, save_figure
from nmt.comparison.page import Picture, Sentence

Panel = tuple[str, np.ndarray, Sequence[str], Sequence[str]]


def draw_sentences(
    drawn: Mapping[str, Sequence[Mapping[str, Any]]], pairs: Sequence[tuple[str, str]], folder: Path
) -> list[Sentence]:
    """Draw each pair once for all models: their alignments, then α and β of those that write into slots."""
    sentences = []
    for number, (source, reference) in enumerate(pairs):
        weights = {label: examples[number] for label, examples in drawn.items() if examples[number]["weights"]}
        slots = {label: example for label, example in weights.items() if example["write"]}
        pictures = []
        if weights:
            path = folder / f"alignments-{number + 1}"
            text = f"Alignments between words: {', '.join(weights)}."
            pictures.append(Picture(save_figure(draw_heatmaps([*map(_words, *_pairs(weights))]), path), text))
        if slots:
            path = folder / f"slots-{number + 1}"
            panels = [panel for label, example in slots.items() for panel in _slots(label, example)]
            text = "α (written): each source piece in each slot. β (read): each slot for each target piece."
            pictures.append(Picture(save_figure(draw_heatmaps(panels, columns=2), path), text))
        sentences.append(Sentence(source, reference, pictures))
    return sentences


def _pairs(examples: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[Mapping[str, Any]]]:
    return [*examples], [*examples.values()]


def _words(label: str, example: Mapping[str, Any]) -> Panel:
    return label, np.array(example["weights"]), example["target"], example["source"]


def _slots(label: str, example: Mapping[str, Any]) -> list[Panel]:
    write, read = np.array(example["write"]), np.array(example["read"])
    return [
        (f"{label}: α, slots down, source across", write, [], example["source_pieces"]),
        (f"{label}: β, target down, slots across", read, example["target_pieces"], []),
    ]
