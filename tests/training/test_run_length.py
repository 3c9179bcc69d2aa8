"""The number of updates of a run, which schedules need, also if it is resumed with other numbers of processes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from sharded import in_shards, random_pairs

from nmt.config.compose import train_config
from nmt.text.prepare import Prepared
from nmt.training import data as data_module
from nmt.training.data import CorpusBatches

EPOCHS = 4


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return in_shards(tmp_path_factory.mktemp("length") / "data", random_pairs(90), size=1000)


class Run:
    """The updates of a run, without training."""

    def __init__(self, prepared: Prepared, accumulate: int, processes: int, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(data_module, "world_size", lambda: processes)
        self.data = CorpusBatches(
            prepared, train_config(["batches.max_tokens=100", f"batches.accumulate={accumulate}"])
        )
        self.accumulate = accumulate
        self.trainer: Any = SimpleNamespace(current_epoch=0, global_step=0)
        self.data.trainer = self.trainer

    def train(self, epochs: int, most: int | None = None) -> None:
        """Make updates until ``epochs`` have ended, or until ``most`` updates of the epoch that is then current."""
        while self.trainer.current_epoch < epochs:
            batches: Any = self.data.train_dataloader().batch_sampler
            count = len(batches)
            for number, _ in enumerate(batches, batches.before + batches.skip + 1):
                updated = number % self.accumulate == 0 or number == count
                self.trainer.global_step += updated
                if updated and most is not None and number >= most * self.accumulate:
                    return
            self.data.end_epoch()
            self.trainer.current_epoch += 1

    def resume(self, before: Run) -> None:
        self.data.load_state_dict(before.data.state_dict())
        self.trainer.current_epoch, self.trainer.global_step = before.trainer.current_epoch, before.trainer.global_step


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("most", [None, 4])
@pytest.mark.parametrize("processes", [(1, 1, 1), (1, 2, 2), (3, 1, 2)])
def test_resumed_run_knows_its_last_update(
    prepared: Prepared, accumulate: int, most: int | None, processes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process trains a part of the run. ``most``: the first one is stopped within its second epoch."""
    run = Run(prepared, accumulate, processes[0], monkeypatch)
    first = run.data.updates_until(EPOCHS)
    assert first == EPOCHS * math.ceil(run.data.batches_per_epoch() / accumulate)
    run.train(2, most) if most else run.train(2)
    for ends, count in zip((3, EPOCHS), processes[1:], strict=True):
        before, run = run, Run(prepared, accumulate, count, monkeypatch)
        run.resume(before)
        total = run.data.updates_until(EPOCHS)
        assert total > run.trainer.global_step
        run.train(ends)
    assert total == run.trainer.global_step
    assert processes != (1, 1, 1) or total == first


def test_extended_run_has_more_updates(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Run(prepared, 1, 1, monkeypatch)
    total = before.data.updates_until(2)
    before.train(2)
    run = Run(prepared, 1, 1, monkeypatch)
    run.resume(before)
    assert run.data.updates_until(EPOCHS) == 2 * total
