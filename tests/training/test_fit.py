"""Training in bfloat16, and warnings: where it is slow, and of a run that ends before its rate has warmed up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nmt.config.compose import train_config
from nmt.training import fit as precision
from nmt.training.fit import slowdown, too_few_updates


def test_slowdown_compares_the_fastest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([9.0, 3.0, 5.0, 4.0, 7.0, 2.0, 1.5, 8.0, 2.0, 2.0])
    dtypes = []
    monkeypatch.setattr(precision, "_seconds", lambda x: dtypes.append(x.dtype) or next(seconds))
    assert slowdown() == 3.0 / 1.5
    assert dtypes == [torch.bfloat16] * 5 + [torch.float32] * 5


def problem(batches: int, *arguments: str) -> str | None:
    data: Any = SimpleNamespace(batches_per_epoch=lambda: batches)
    return too_few_updates(train_config([*arguments]), data)


@pytest.mark.parametrize(
    ("batches", "arguments", "start", "fix"),
    [
        (1, [], "training.max_epochs=4: ends after 4 updates,", "set training.max_epochs=1000,"),
        (30, ["batches.accumulate=8"], "training.max_epochs=4: ends after 16 updates,", "set training.max_epochs=250,"),
        (900, ["training.max_steps=1"], "training.max_steps=1: ends after 1 update,", "set training.max_steps=1000,"),
    ],
)
def test_a_run_shorter_than_its_warm_up_is_named(batches: int, arguments: list[str], start: str, fix: str) -> None:
    message = problem(batches, *arguments)
    assert message is not None and message.startswith(start) and fix in message
    assert problem(batches, *arguments, fix.removeprefix("set ").rstrip(",")) is None


@pytest.mark.parametrize(
    ("batches", "arguments"),
    [
        (50, []),
        (1, ["schedule.warmup_steps=4"]),
        (1, ["schedule.warmup_steps=0"]),
        (1, ["training.max_epochs=null", "training.max_minutes=1"]),
        (400, ["schedule=plateau", "training.max_steps=2000"]),
    ],
)
def test_other_runs_are_not_named(batches: int, arguments: list[str]) -> None:
    assert problem(batches, *arguments) is None
