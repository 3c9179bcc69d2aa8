"""Rates, the rule that ranks models, averages of weights, and the losses that training and validation report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import pytorch_lightning as pl
import torch
from builders import call_before
from tiny import WITHOUT_ATTENTION, metrics, stored_weights, summary, weights_of
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR

from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.text.batches import Batch
from nmt.training import task as module
from nmt.training.checkpoints import Checkpoints, Patience
from nmt.training.metrics import QUALITY, quality
from nmt.training.run import too_few_updates
from nmt.training.schedules import Constant, InverseSqrt, Linear, build_schedule
from nmt.training.task import POINT_EVERY, TranslationTask

Weights = dict[str, torch.Tensor]
WORDS = [*WITHOUT_ATTENTION, "batches.max_tokens=300"]


def task_of(*words: str, step: int = 0) -> Any:
    """Return a task with a single linear layer, whose trainer is at update ``step``."""
    task: Any = TranslationTask.__new__(TranslationTask)
    pl.LightningModule.__init__(task)
    task.model = torch.nn.Linear(1, 1)
    task.config = train_config(list(words))
    task.settings = task.config.training
    data = SimpleNamespace(total_updates=lambda: 1000)
    task._trainer = SimpleNamespace(global_step=step, lr_scheduler_configs=[], datamodule=data)
    return task


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (partial(Constant, warmup_steps=10), {0: 0.1, 4: 0.5, 9: 1.0, 1000: 1.0}),
        (partial(Constant, warmup_steps=0), {0: 1.0}),
        (
            partial(InverseSqrt, warmup_steps=10),
            {0: 0.1, 4: 0.5, 9: 1.0, 39: 0.5},
        ),  # four times the warm-up: half the rate
        (partial(InverseSqrt, warmup_steps=0), {0: 1.0}),
        (
            partial(Linear, warmup_steps=10, total_steps=110),
            {0: 0.1, 4: 0.5, 9: 1.0, 10: 1.0, 60: 0.5, 110: 0.0, 500: 0.0},
        ),
        (partial(Linear, warmup_steps=0, total_steps=100), {0: 1.0}),
    ],
)
def test_rates_of_schedules(schedule: Callable[..., LambdaLR], rates: dict[int, float]) -> None:
    [factor] = schedule(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])).lr_lambdas
    assert [factor(step) for step in rates] == pytest.approx([*rates.values()])


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_optimizer_has_the_configured_settings(kind: str) -> None:
    words = [f"optimizer={kind}", "optimizer.betas=[0.7,0]", "optimizer.weight_decay=0.3", "optimizer.lr=0.125"]
    optimizer = task_of(*words).configure_optimizers()["optimizer"]
    (group,) = optimizer.param_groups
    assert type(optimizer).__name__.lower() == kind
    assert (group["betas"], group["weight_decay"], group["initial_lr"]) == ((0.7, 0), 0.3, 0.125)


@pytest.mark.parametrize("name", ["nmt.training.schedules.Plateau", "torch.optim.lr_scheduler.ReduceLROnPlateau"])
def test_plateau_lowers_the_rate_without_progress(name: str) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = {"_target_": name, "factor": 0.25, "patience": 1}
    plateau: Any = build_schedule(schedule, optimizer, 1)
    rates = []
    for merit in (-9, -8, -7, 2, 3, 3, 3):
        plateau.step(merit)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1] * 6 + [0.25]


@pytest.mark.parametrize("step", [0, 3, 6, 9, 12])
def test_plateau_warms_up(step: int) -> None:
    task = task_of("schedule=plateau", "schedule.warmup_steps=10", "optimizer.lr=0.5", step=step)
    configured = task.configure_optimizers()
    task._trainer.lr_scheduler_configs = [SimpleNamespace(scheduler=configured["lr_scheduler"]["scheduler"])]
    task.on_train_batch_start(None, 0)
    assert configured["optimizer"].param_groups[0]["lr"] == pytest.approx(0.5 * min(1, (step + 1) / 10))


@pytest.mark.parametrize(
    ("total", "words", "short"),
    [(9, [], True), (900, [], False), (None, [], False), (9, ["schedule.warmup_steps=9"], False)],
)
def test_a_run_shorter_than_its_warm_up_is_named(total: int | None, words: list[str], short: bool) -> None:
    data: Any = SimpleNamespace(total_updates=lambda: total)
    assert (too_few_updates(train_config(words), data) is not None) == short


# Quality.


@pytest.mark.parametrize(
    "worse_and_better", [((0.9, 3.0), (0.1, 2.0)), ((0.9, 1.0), (1.1, 9.0)), ((2.0, 1.0), (3.0, 9.0))]
)
@pytest.mark.parametrize("monitor", ["valid_bleu", "valid_chrf"])
def test_loss_decides_below_a_score_of_1(
    monitor: str, worse_and_better: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    worse, better = (quality({monitor: score, "valid_loss": loss}, monitor) for score, loss in worse_and_better)
    assert worse < better
    assert quality({"valid_loss": 3.0}, "valid_loss") < quality({"valid_loss": 2.0}, "valid_loss")


@pytest.mark.parametrize("seed", range(20))
def test_best_checkpoints_and_patience_survive_a_resumption(seed: int, tmp_path: Path) -> None:
    draw = Random(seed)
    folder = tmp_path.resolve()
    epochs = [(draw.choice([0.5, 0.99, 1.0, 1.004, 50.0, 50.001, 60.0]), draw.uniform(0.1, 9)) for _ in range(8)]
    wait, resumed = draw.randint(1, 3), draw.randrange(8)
    trainer: Any = SimpleNamespace(loggers=[], should_stop=False, fast_dev_run=False, sanity_checking=False)
    trainer.strategy = SimpleNamespace(
        reduce_boolean_decision=lambda value, **_: value, remove_checkpoint=lambda path: Path(path).unlink()
    )
    trainer.is_global_zero, trainer.ckpt_path = True, None
    trainer.state = SimpleNamespace(fn="fit")
    trainer.save_checkpoint = lambda path, weights_only=None: Path(path).touch()
    best, patience = Checkpoints(folder, "valid_bleu"), Patience(wait)
    waits = []
    merits = [quality({"valid_bleu": bleu, "valid_loss": loss}, "valid_bleu") for bleu, loss in epochs]
    for epoch, merit in enumerate(merits):
        if epoch == resumed:
            states = best.state_dict(), patience.state_dict()
            best, patience = Checkpoints(folder, "valid_bleu"), Patience(wait)
            best.load_state_dict(states[0])
            patience.load_state_dict(states[1])
        trainer.current_epoch, trainer.global_step = epoch, epoch + 1
        trainer.callback_metrics = {QUALITY: torch.tensor(merit)}
        patience._run_early_stopping_check(trainer)
        best._save_topk_checkpoint(trainer, best._monitor_candidates(trainer))
        waits.append(patience.wait_count)
    exact = [float(torch.tensor(merit)) for merit in merits]
    assert exact[int(Path(best.best_model_path).stem.partition("=")[2])] == max(exact)
    assert {str(file) for file in folder.iterdir()} == {best.best_model_path}
    naive = [epoch - max(range(epoch + 1), key=lambda e: (exact[e], -e)) for epoch in range(len(exact))]
    assert waits == naive and patience.is_over == (naive[-1] >= wait)


# Averages.


def assert_close(first: Weights, second: Weights) -> None:
    for name, weight in second.items():
        torch.testing.assert_close(first[name], weight, msg=name)


@pytest.mark.thorough
def test_moving_average_is_validated_and_stored(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with the average that its formula gives, in double precision."""
    updates: list[Weights] = []
    validated: list[Weights] = []
    translated: list[Weights] = []

    def record_update(task: TranslationTask, *arguments: Any) -> None:
        if task.global_step > len(updates):
            updates.append(weights_of(task))

    monkeypatch.setattr(TranslationTask, "on_train_batch_end", record_update)
    for name, recorded in (("validation_step", validated), ("_translate", translated)):
        call_before(monkeypatch, TranslationTask, name, lambda task, *_, to=recorded: to.append(weights_of(task)))
    train([*WORDS, "training.ema_decay=0.6", "training.monitor=valid_loss"])
    averages = [{name: weight.double() for name, weight in updates[0].items()}]
    for weights in updates[1:]:
        averages.append({name: 0.6 * averages[-1][name] + 0.4 * weight.double() for name, weight in weights.items()})
    expected = [{name: weight.float() for name, weight in average.items()} for average in averages]
    epoch = len(updates) // 2
    for recorded in (validated, translated):
        assert_close(recorded[0], expected[epoch - 1])
        assert_close(recorded[-1], expected[-1])
    assert_close(stored_weights(run / "checkpoints" / "last.ckpt"), expected[-1])
    assert_close(stored_weights(run / "model.pt"), expected[summary(run)["kept_epoch"] * epoch - 1])
    current = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["current_model_state"]
    assert_close({name.removeprefix("model."): weight for name, weight in current.items()}, updates[-1])


# Losses.


def task_on(output: torch.nn.Linear, features: torch.Tensor, *words: str) -> tuple[Any, Any]:
    """Return a task whose model ends with this output layer for these features (B, T, F), and a batch of pieces."""
    task = task_of(*words)
    del task.model
    task.model = SimpleNamespace(features=lambda *_: features, decoder=SimpleNamespace(output=output))
    task.guide = None
    pieces, mask = torch.randint(9, (3, 5)), torch.arange(5) < torch.tensor([5, 2, 4])[:, None]
    return task, Batch(pieces, mask, pieces, pieces, mask, torch.arange(3))


@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_validation_does_not_depend_on_the_size_of_its_chunks(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    output, features = torch.nn.Linear(6, 9), torch.randn(3, 5, 6)
    task, batch = task_on(output, features)
    monkeypatch.setattr(module, "CHUNK", rows * 9)
    task.log_dict = (logged := Mock())
    task.validation_step(batch, 0)
    (values,) = logged.call_args.args
    logits, pieces = output(features[batch.target_mask]), batch.target_out[batch.target_mask]
    assert logged.call_args.kwargs["batch_size"] == 11
    torch.testing.assert_close(values["valid_loss"], functional.cross_entropy(logits, pieces))
    torch.testing.assert_close(values["valid_accuracy"], (logits.argmax(1) == pieces).float().mean())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_logged_loss_has_no_label_smoothing(smoothing: float, bias: bool) -> None:
    output, features = torch.nn.Linear(6, 9, bias=bias), torch.randn(3, 5, 6)
    task, batch = task_on(output, features, f"training.label_smoothing={smoothing}")
    loss, parts = task.losses(batch)
    logits, pieces = output(features[batch.target_mask]), batch.target_out[batch.target_mask]
    smoothed = functional.cross_entropy(logits, pieces, reduction="sum", label_smoothing=smoothing)
    assert loss.item() == pytest.approx(smoothed.item(), rel=1e-5)
    plain = functional.cross_entropy(logits, pieces, reduction="sum")
    assert parts["train_loss"] == pytest.approx(plain.item(), rel=1e-5)


@pytest.mark.thorough
def test_point_of_the_curve_is_the_mean_of_all_pieces_since_the_last_one(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[tuple[int, float, int]] = []
    original = TranslationTask.losses

    def losses(self: TranslationTask, batch: Batch) -> Any:
        loss, parts = original(self, batch)
        collected.append((self.global_step, parts["train_loss"], int(batch.target_mask.sum())))
        return loss, parts

    monkeypatch.setattr(TranslationTask, "losses", losses)
    words = ["data.train_pairs=200", "batches.max_tokens=100", "batches.accumulate=2", "training.decode_sentences=0"]
    train([*WORDS, *words, "training.monitor=valid_loss"])
    logged = [(int(row["step"]), float(row["train_loss"])) for row in metrics(run, "train_loss")]
    assert len(logged) >= 2
    for last, loss in logged:
        chosen = [(total, count) for step, total, count in collected if last - POINT_EVERY < step <= last]
        assert loss == pytest.approx(sum(total for total, _ in chosen) / sum(count for _, count in chosen), rel=1e-6)
