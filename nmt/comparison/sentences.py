"""Draw the alignments that all models give to the same sentences, and what they write and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.comparison.figures import Panel, draw_heatmaps, save_figure
from nmt.comparison.models import TestSet
from nmt.comparison.page import Picture, Sentence


def draw_sentences(
    drawn: Mapping[str, Sequence[Mapping[str, Any]]], test: TestSet, rows: Sequence[int], folder: Path
) -> list[Sentence]:
    """Draw each pair once for all models: their alignments, then α and β of those that write into slots."""
    sentences = []
    for number, row in enumerate(rows):
        gold = frozenset() if test.golds is None else test.golds[row].possible
        weights = {label: examples[number] for label, examples in drawn.items() if examples[number]["weights"]}
        slots = {label: example for label, example in weights.items() if example["write"]}
        pictures = []
        if weights:
            path = folder / f"alignments-{number + 1}"
            text = f"Alignments between words: {', '.join(weights)}."
            panels = [
                Panel(label, np.array(example["weights"]), example["target"], example["source"], gold)
                for label, example in weights.items()
            ]
            pictures.append(Picture(save_figure(draw_heatmaps(panels), path), text))
        if slots:
            path = folder / f"slots-{number + 1}"
            text = "α (written): each source piece in each slot. β (read): each slot for each target piece."
            panels = [panel for label, example in slots.items() for panel in _slots(label, example)]
            pictures.append(Picture(save_figure(draw_heatmaps(panels, columns=2), path), text))
        sentences.append(Sentence(test.sources[row], test.references[row], pictures))
    return sentences


def _slots(label: str, example: Mapping[str, Any]) -> list[Panel]:
    write, read = np.array(example["write"]), np.array(example["read"])
    return [
        Panel(f"{label}: α, slots down, source across", write, [], example["source_pieces"], quantity="α"),
        Panel(f"{label}: β, target down, slots across", read, example["target_pieces"], [], quantity="β"),
    ]
