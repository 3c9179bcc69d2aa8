"""Training on shards: it starts without reading them all, resumes bit for bit, and stops at a damaged one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import interrupt_at, on_prepared, record_batches

from nmt.commands.train import train
from nmt.errors import UserError
from nmt.text import shards

pytestmark = pytest.mark.thorough


@pytest.fixture
def words(run: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the arguments of a tiny run on ten shards, which training reads two at a time."""
    monkeypatch.setattr(shards, "WINDOW_PAIRS", 6)
    return [*on_prepared("mine", "shard_pairs=3"), "batches.max_tokens=60", "batches.bpe_dropout=0.3"]


def test_resumed_run_on_shards_makes_the_same_updates(
    run: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len([*Path("mine").glob("train-*.arrow")]) == 10
    batches = record_batches(monkeypatch)
    train([*words, "name=other"])
    expected = batches.copy()
    assert sorted(row for rows in expected[: len(expected) // 2] for row in rows) == list(range(30))
    batches.clear()
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=len(expected) // 2 + 3)  # in the second epoch
        with pytest.raises(KeyboardInterrupt):
            train(words)
    assert 0 < len(batches) < len(expected)
    train(["resume=true"])
    assert batches == expected
    weights, expected_weights = (torch.load(run.parent / name / "model.pt")["weights"] for name in (run.name, "other"))
    assert all(torch.equal(weights[name], expected_weights[name]) for name in weights)


def test_damaged_shard_stops_training_in_one_line(run: Path, words: list[str]) -> None:
    file = Path("mine/train-00004.arrow")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"kor", b"kot", 1))
    with pytest.raises(UserError, match=r"^mine/train-00004\.arrow: cannot be read as a corpus \(wrong checksum\); "):
        train(words)
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"^mine/train-00004\.arrow: not a corpus \(.*\); prepare the corpus again"):
        train([*words, "name=second"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["data=generated", "tokenizer=unigram"],
            "batches.bpe_dropout=0.1: unigram pieces have no merges; remove",
        ),
        (["data=generated", "guide=links"], "batches.bpe_dropout=0.1: guide=links aligns the stored pieces; remove"),
    ],
)
def test_dropout_that_cannot_work_is_refused_before_any_work(run: Path, settings: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        train([*settings, "batches.bpe_dropout=0.1"])
    assert message in str(caught.value)
    assert not run.exists()
