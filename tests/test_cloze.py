"""The cloze benchmark: documents with distractors, files of questions, and one row for every attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import cloze
from benchmarks.papers.cloze_kinds import FOLDER, build, kinds
from benchmarks.papers.cloze_questions import PAD
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


def test_every_attention_has_a_row_that_can_be_built() -> None:
    rows = kinds()
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {row.split()[0] for row in rows}
    assert len(rows) == len(set(rows))
    assert "kernel feature_map=taylor" in rows
    attention = build("memory slots=100 position_encoding=false", longest=9)
    assert attention.W_alpha.weight.shape[0] == 100


QUESTION = """http://example.org/{number}

( @entity1 ) a dog saw @entity{number} in the garden {words}

@placeholder was seen by a dog

@entity{number}

@entity1:London
@entity{number}:Rex : the cat
"""


def write_questions(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(2, 2 + count):
        text = QUESTION.format(number=number, words="and then " * number)
        (folder / f"{number}.question").write_text(text, encoding="utf-8")


def test_questions_about_news_are_read(tmp_path: Path) -> None:
    for part, count in zip(cloze.PARTS, (4, 2, 5), strict=True):
        write_questions(tmp_path / part, count)
    training, _, test = cloze.read_data(tmp_path)
    (batch,) = training.batches
    assert training.candidates == [f"@entity{number}" for number in range(1, 6)]
    assert batch.document.shape == (4, 10 + 2 * 5) and batch.questions.shape == (4, 1, 6)
    words = [[training.vocabulary[index] for index in row if index != PAD] for row in batch.document.tolist()]
    assert words[1] == "( @entity1 ) a dog saw @entity3 in the garden and then and then and then".split()
    assert [training.candidates[answer] for answer in batch.answers[:, 0]] == [f"@entity{n}" for n in range(2, 6)]
    assert test.vocabulary is training.vocabulary
    assert test.batches[0].answers[-1].item() == -1  # @entity6 is not in the training set
    assert "<unk>" in [test.vocabulary[index] for index in test.batches[0].document[-1].tolist()]


def test_benchmark_trains_on_a_folder_of_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in cloze.PARTS:
        write_questions(tmp_path / part, 3)
    words = ["--data", str(tmp_path), "--kinds", "covariance", "--seeds", "1", "--updates", "20", "--jobs", "1"]
    monkeypatch.setattr("sys.argv", ["cloze", *words, "--output", str(tmp_path / "results")])
    cloze.main()
    report = (tmp_path / "results" / "cloze_20.md").read_text("utf-8")
    assert "| attention | news | seeds, news | s, news |" in report and "| covariance | " in report
