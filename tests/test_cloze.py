"""The cloze benchmark: documents with distractors and one row for every attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.papers.cloze_kinds import FOLDER, build, kinds
from benchmarks.papers.cloze_report import read_csv, write_csv
from benchmarks.papers.cloze_task import FAMILY, GIVEN, PLACES, VOCABULARY, Batch, facts

pytestmark = pytest.mark.thorough


def read(batch: Batch, row: int) -> dict[tuple[int, int], int]:
    """Return the place of each person in a document."""
    document = batch.document[row].reshape(-1, 3).tolist()
    people = {(given, family): place for given, family, place in document}
    assert len(people) == len(document)
    return people


@pytest.mark.parametrize("distractors", [0, 1, 7])
def test_questions_ask_about_facts_and_never_about_distractors(distractors: int) -> None:
    batch = facts(np.random.default_rng(3), 5, 20, distractors)
    assert batch.document.shape == (5, 3 * (20 + distractors))
    assert int(batch.document.max()) < VOCABULARY
    for row in range(5):
        people = read(batch, row)
        strangers = [person for person in people if person[1] >= GIVEN + FAMILY]
        assert len(strangers) == distractors
        for question, answer in zip(batch.questions[row].tolist(), batch.answers[row].tolist(), strict=True):
            assert people[tuple(question)] == VOCABULARY - PLACES + answer
            assert question[1] < GIVEN + FAMILY


def test_distractors_come_in_random_order_and_repeat_with_the_seed() -> None:
    first, second = (facts(np.random.default_rng(3), 40, 10, 10) for _ in range(2))
    assert all(torch.equal(left, right) for left, right in zip(first[:3], second[:3], strict=True))
    strangers = first.document.reshape(40, -1, 3)[:, :, 1] >= GIVEN + FAMILY
    assert (strangers.float().mean(0) - 0.5).abs().max() < 0.4  # at each place of a document, some of both


def test_every_attention_has_a_row_that_can_be_built() -> None:
    rows = kinds()
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {row.split()[0] for row in rows}
    assert len(rows) == len(set(rows))
    assert "kernel feature_map=taylor" in rows
    attention = build("memory slots=100 position_encoding=false", longest=9)
    assert attention.W_alpha.weight.shape[0] == 100


def test_csv_keeps_cells_for_the_next_call(tmp_path: Path) -> None:
    curve = [(50, 3.5, 0.25), (100, 3.0, 0.5)]
    cells = {
        ("0", "kernel feature_map=elu", 2): {
            "accuracy": {"10": 0.5, "200": None},
            "curve": curve,
            "seconds": 12.5,
            "commit": "0123456",
        },
        ("babi", "none", 1): {"accuracy": {"babi": 0.125}, "curve": curve, "seconds": 3.0, "commit": "0123456"},
    }
    write_csv(cells, 100, tmp_path / "cloze.csv")
    assert read_csv(tmp_path / "cloze.csv") == cells
    assert read_csv(tmp_path / "missing.csv") == {}
