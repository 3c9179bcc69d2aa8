"""Each setting of a training run reaches the code that uses it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from builders import call_before
from pytorch_lightning.callbacks import Timer
from tiny import ONE_EPOCH, SMALL, record_batches

from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.training import fit as precision
from nmt.training import task as module
from nmt.training.fit import build_trainer, slowdown, too_few_updates
from nmt.training.metrics import quality
from nmt.training.optimizers import build_schedule
from nmt.training.schedules import inverse_sqrt, linear, warm_up
from nmt.training.settings import ScheduleSettings
from nmt.training.task import TranslationTask


class OtherPlateau(torch.optim.lr_scheduler.ReduceLROnPlateau):
    """A schedule of another package."""


def task_of(*words: str, step: int = 0) -> Any:
    """Return a task with a single linear layer, whose trainer is at update ``step``."""
    task: Any = TranslationTask.__new__(TranslationTask)
    pl.LightningModule.__init__(task)
    task.model = torch.nn.Linear(1, 1)
    task.config = train_config(list(words))
    task.settings = task.config.training
    task._trainer = SimpleNamespace(global_step=step, lr_scheduler_configs=[])
    return task


@pytest.mark.parametrize(("kind", "optimizer_class"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_optimizer_has_the_configured_class_and_settings(kind: str, optimizer_class: type) -> None:
    words = [f"optimizer={kind}", "optimizer.betas=[0.7,0.8]", "optimizer.weight_decay=0.3", "optimizer.lr=0.125"]
    optimizer = task_of(*words, "schedule.warmup_steps=1").configure_optimizers()["optimizer"]
    (group,) = optimizer.param_groups
    assert type(optimizer) is optimizer_class
    assert (group["betas"], group["weight_decay"], group["initial_lr"]) == ((0.7, 0.8), 0.3, 0.125)


def test_adamw_decays_weights_as_in_pytorch() -> None:
    default = torch.optim.AdamW([torch.zeros(1)]).defaults["weight_decay"]
    assert train_config(["optimizer=adamw"]).optimizer["weight_decay"] == default > 0


@pytest.mark.parametrize(
    ("monitor", "better"), [("valid_loss", "min"), *((f"valid_{name}", "max") for name in ("bleu", "chrf", "accuracy"))]
)
def test_plateau_lowers_the_rate_without_progress(monitor: str, better: str) -> None:
    words = [f"training.monitor={monitor}", "schedule=plateau", "schedule.factor=0.25"]
    configured = task_of(*words, "schedule.patience=1", "optimizer.lr=1").configure_optimizers()
    plateau, (group,) = configured["lr_scheduler"]["scheduler"], configured["optimizer"].param_groups
    rates = []
    for value in (5, 6, 7, 8, 9, 9, 9) if better == "max" else (9, 8, 7, 6, 5, 5, 5):
        plateau.step(quality({"valid_loss": 1.0, monitor: value}, monitor))
        rates.append(group["lr"])
    assert rates == [1] * 6 + [0.25]


def test_plateau_keeps_the_rate_while_only_the_loss_improves() -> None:
    """A BLEU below 1 says nothing, as for the best checkpoint and for ``training.patience``."""
    words = ["training.monitor=valid_bleu", "schedule=plateau", "schedule.patience=0", "optimizer.lr=1"]
    task = task_of(*words)
    configured = task.configure_optimizers()
    task._trainer = SimpleNamespace(
        lr_scheduler_configs=[SimpleNamespace(scheduler=configured["lr_scheduler"]["scheduler"])]
    )
    rates = []
    for bleu, loss in ((0.0, 5.0), (0.5, 4.0), (0.0, 3.0), (0.4, 3.0), (2.0, 3.1)):
        task._trainer.callback_metrics = {"valid_bleu": bleu, "valid_loss": loss}
        task.on_validation_end()
        rates.append(configured["optimizer"].param_groups[0]["lr"])
    assert rates == [1, 1, 1, 0.5, 0.5]


@pytest.mark.parametrize(("monitor", "mode"), [("valid_loss", "min"), ("valid_bleu", "max")])
@pytest.mark.parametrize("name", ["torch.optim.lr_scheduler.ReduceLROnPlateau", f"{__name__}.OtherPlateau"])
def test_other_plateau_schedules_learn_which_values_are_better(name: str, monitor: str, mode: str) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    config = train_config([f"training.monitor={monitor}", f"trust=[{__name__}]"])
    config = replace(config, schedule=ScheduleSettings(block={"_target_": name}))
    schedule: Any = build_schedule(config, optimizer, lambda: 1)
    assert schedule.mode == mode


@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_validation_does_not_depend_on_the_size_of_its_chunks(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task, output, features = task_of(), torch.nn.Linear(6, 9), torch.randn(3, 5, 6)
    del task.model
    task.model = SimpleNamespace(features=lambda *_: features, decoder=SimpleNamespace(output=output))
    pieces, mask = torch.randint(9, (3, 5)), torch.arange(5) < torch.tensor([5, 2, 4])[:, None]
    batch: Any = SimpleNamespace(source=pieces, source_mask=mask, target_in=pieces, target_out=pieces, target_mask=mask)
    monkeypatch.setattr(module, "CHUNK", rows * 9)
    values, count = task.validation_values(batch)
    logits = output(features[mask])
    assert count == 11
    torch.testing.assert_close(values["valid_loss"], torch.nn.functional.cross_entropy(logits, pieces[mask]))
    torch.testing.assert_close(values["valid_accuracy"], (logits.argmax(1) == pieces[mask]).float().mean())


def test_schedule_with_its_own_length_needs_no_limit_of_the_run() -> None:
    words = ["schedule=linear", "+schedule.total_steps=100", "schedule.warmup_steps=0", "training.max_epochs=null"]
    configured = task_of(*words, "optimizer.lr=1").configure_optimizers()
    configured["optimizer"].step()
    for _ in range(50):
        configured["lr_scheduler"]["scheduler"].step()
    assert configured["optimizer"].param_groups[0]["lr"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("step", [0, 3, 6, 9, 12])
def test_plateau_warms_up(step: int) -> None:
    task = task_of("schedule=plateau", "schedule.warmup_steps=10", "optimizer.lr=0.5", step=step)
    configured = task.configure_optimizers()
    optimizer = configured["optimizer"]
    task._trainer.lr_scheduler_configs = [SimpleNamespace(scheduler=configured["lr_scheduler"]["scheduler"])]
    task.on_train_batch_start(None, 0)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * warm_up(10)(step))


def test_time_limit_reaches_lightning(tmp_path: Path) -> None:
    trainer = build_trainer(train_config(["training.max_minutes=3"]), tmp_path, [])
    (timer,) = (callback for callback in trainer.callbacks if isinstance(callback, Timer))
    assert timer._duration == datetime.timedelta(minutes=3).total_seconds()


@pytest.mark.thorough
def test_label_smoothing_reaches_the_loss(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smoothings: set[float] = set()
    call_before(monkeypatch, module, "output_loss", lambda *_, smoothing: smoothings.add(smoothing))
    train([*ONE_EPOCH, "training.label_smoothing=0.3"])
    assert smoothings == {0.3}


@pytest.mark.thorough
def test_each_epoch_has_new_batches(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = record_batches(monkeypatch)
    train([*SMALL, "batches.max_tokens=300"])
    rows = [row for batch in batches for row in batch]
    assert sorted(rows[:60]) == sorted(rows[60:]) == list(range(60)) and rows[:60] != rows[60:]


@pytest.mark.parametrize(
    ("factor", "rates"),
    [
        (warm_up(10), {0: 0.1, 4: 0.5, 9: 1.0, 1000: 1.0}),
        (warm_up(0), {0: 1.0}),
        (inverse_sqrt(10), {0: 0.1, 4: 0.5, 9: 1.0, 39: 0.5}),  # four times the warm-up: half the rate
        (inverse_sqrt(0), {0: 1.0}),
        (linear(10, 110), {0: 0.1, 4: 0.5, 9: 1.0, 10: 1.0, 60: 0.5, 110: 0.0, 500: 0.0}),
        (linear(0, 100), {0: 1.0}),
    ],
)
def test_rates_of_schedules(factor: Callable[[int], float], rates: dict[int, float]) -> None:
    assert [factor(step) for step in rates] == pytest.approx([*rates.values()])


def test_linear_rate_falls_even_if_the_run_is_shorter_than_the_warm_up() -> None:
    assert 0.0 <= linear(10, 5)(5) <= linear(10, 5)(3) <= 1.0


def test_slowdown_compares_the_fastest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([9.0, 3.0, 5.0, 4.0, 7.0, 2.0, 1.5, 8.0, 2.0, 2.0])
    dtypes = []
    monkeypatch.setattr(precision, "_seconds", lambda x: dtypes.append(x.dtype) or next(seconds))
    assert slowdown() == 3.0 / 1.5
    assert dtypes == [torch.bfloat16] * 5 + [torch.float32] * 5


@pytest.mark.parametrize(
    ("batches", "arguments", "problem", "fix"),
    [
        (1, [], "training.max_epochs=4: ends after 4 updates,", "training.max_epochs=1000"),
        (30, ["batches.accumulate=8"], "training.max_epochs=4: ends after 16 updates,", "training.max_epochs=250"),
        (900, ["training.max_steps=1"], "training.max_steps=1: ends after 1 update,", "training.max_steps=1000"),
        (50, [], None, ""),
        (1, ["schedule.warmup_steps=4"], None, ""),
        (1, ["schedule.warmup_steps=0"], None, ""),
        (1, ["training.max_epochs=null", "training.max_minutes=1"], None, ""),
        (400, ["schedule=plateau", "training.max_steps=2000"], None, ""),
    ],
)
def test_a_run_shorter_than_its_warm_up_is_named(
    batches: int, arguments: list[str], problem: str | None, fix: str
) -> None:
    data: Any = SimpleNamespace(batches_per_epoch=lambda: batches)
    message = too_few_updates(train_config(arguments), data)
    if problem is None:
        assert message is None
        return
    assert message is not None and message.startswith(problem) and f"set {fix}," in message
    assert too_few_updates(train_config([*arguments, fix]), data) is None
