"""``train_loss`` is the mean per target piece over all batches since the last point of the learning curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny import NO_REPORT, TINY, metrics

from nmt.commands.train import train
from nmt.training.task import POINT_EVERY, TranslationTask

WORDS = [*TINY, "data.train_pairs=200", "batches.max_tokens=100"]


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float, int]]:
    """Collect (update, loss, target pieces) of every batch."""
    collected: list[tuple[int, float, int]] = []
    original = TranslationTask.losses

    def losses(self: TranslationTask, batch: Any) -> Any:
        loss, parts = original(self, batch)
        count = int(batch.target_mask.sum())
        collected.append((self.global_step, parts["train_loss"] / count, count))
        return loss, parts

    monkeypatch.setattr(TranslationTask, "losses", losses)
    monkeypatch.setattr("nmt.training.run.report", lambda *_: NO_REPORT)
    return collected


def naive(batches: list[tuple[int, float, int]], last: int) -> float:
    """Return the mean loss per piece of the updates up to ``last`` that belong to its point."""
    chosen = [(loss, count) for step, loss, count in batches if last - POINT_EVERY < step <= last]
    return sum(loss * count for loss, count in chosen) / sum(count for _, count in chosen)


@pytest.mark.thorough
@pytest.mark.parametrize("accumulate", [1, 3])
def test_point_is_the_mean_of_all_pieces_since_the_last_one(
    run: Path, batches: list[tuple[int, float, int]], accumulate: int
) -> None:
    train([*WORDS, f"batches.accumulate={accumulate}", f"training.max_epochs={2 * accumulate}"])
    logged = [(int(row["step"]), float(row["train_loss"])) for row in metrics(run, "train_loss")]
    assert len(logged) >= 3 and [step for step, _ in logged] == [19 + 20 * number for number in range(len(logged))]
    for step, loss in logged:
        assert loss == pytest.approx(naive(batches, step), rel=1e-6)
    assert len({count for *_, count in batches}) > 3  # an unweighted mean would differ
