"""The moving average of the weights, and the average of the best checkpoints."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from builders import call_before
from pytorch_lightning.plugins.precision import MixedPrecision
from tiny import WITHOUT_ATTENTION, metrics, stored_weights, summary

from nmt.commands.sweep import _measured
from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.text.batches import Batch
from nmt.training import weights as module
from nmt.training.checkpoints import Kept
from nmt.training.metrics import quality
from nmt.training.task import TranslationTask
from nmt.training.weights import Average, average_weights, describe_average, validate_weights

Weights = dict[str, torch.Tensor]
WORDS = [*WITHOUT_ATTENTION, "batches.max_tokens=300"]


def weights_of(task: TranslationTask) -> Weights:
    return {name: weight.detach().clone() for name, weight in task.model.state_dict().items()}


def assert_close(first: Weights, second: Weights) -> None:
    for name, weight in second.items():
        torch.testing.assert_close(first[name], weight, msg=name)


def test_moving_average_is_validated_and_stored(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with the average that its formula gives, in double precision."""
    updates: list[Weights] = []
    validated: list[Weights] = []
    translated: list[Weights] = []

    def record_update(task: TranslationTask, *arguments: Any) -> None:
        if task.global_step > len(updates):
            updates.append(weights_of(task))

    monkeypatch.setattr(TranslationTask, "on_train_batch_end", record_update)
    for name, recorded in (("validation_values", validated), ("_translate", translated)):
        call_before(monkeypatch, TranslationTask, name, lambda task, _, to=recorded: to.append(weights_of(task)))
    train([*WORDS, "training.ema_decay=0.6", "training.monitor=valid_loss"])
    assert len(updates) > 4
    averages: list[Weights] = []
    for number, weights in enumerate(updates):
        decay = min(0.6, (1 + number) / (10 + number)) if number else 0.0
        before = averages[-1] if averages else weights
        averages.append(
            {name: decay * before[name].double() + (1 - decay) * weight.double() for name, weight in weights.items()}
        )
    expected = [{name: weight.float() for name, weight in average.items()} for average in averages]
    epoch = len(updates) // 2
    for recorded in (validated, translated):
        assert_close(recorded[0], expected[epoch - 1])
        assert_close(recorded[-1], expected[-1])
    assert_close(stored_weights(run / "checkpoints" / "last.ckpt"), expected[-1])
    kept = summary(run)["kept_epoch"]
    assert_close(stored_weights(run / "model.pt"), expected[kept * epoch - 1])
    current = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["current_model_state"]
    assert_close({name.removeprefix("model."): weight for name, weight in current.items()}, updates[-1])


@pytest.mark.parametrize("better", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_average_of_the_best_checkpoints_is_kept_if_it_validates_as_well(
    run: Path, better: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = module.validate_weights

    def validate(task: TranslationTask, weights: Weights, batches: Any, precision: Any) -> dict[str, float]:
        best = original(task, stored_weights(max((run / "checkpoints").glob("best-epoch=2*"))), batches, precision)
        logged = metrics(run, "valid_loss")[2]
        for name in ("valid_loss", "valid_accuracy", "valid_bleu"):
            assert best[name] == pytest.approx(float(logged[name]), rel=1e-5)
        return original(task, weights, batches, precision) | {"valid_loss": 0.5 if better else 99.0}

    monkeypatch.setattr(module, "validate_weights", validate)
    train([*WORDS, "training.max_epochs=3", "training.average_checkpoints=2", "training.monitor=valid_loss"])
    files = sorted((run / "checkpoints").glob("best-*"))
    assert [file.name.partition("-valid")[0] for file in files] == ["best-epoch=1", "best-epoch=2"]
    first, second = map(stored_weights, files)
    mean = {name: ((first[name].double() + second[name].double()) / 2).float() for name in first}
    assert_close(stored_weights(run / "model.pt"), mean if better else second)
    content = summary(run)
    assert content["averaged_epochs"] == ([2, 3] if better else None)
    assert (content["valid_best"] == 0.5) is better
    kept = "mean of the weights of epochs 2, 3 was" if better else f"weights of epoch {content['kept_epoch']} were"
    assert f"the {kept} kept" in (run / "card.md").read_text()
    logged = float(metrics(run, "valid_loss")[content["kept_epoch"] - 1]["valid_loss"])
    assert _measured(run, content)["valid_loss"] == (None if better else logged)
    assert f"the {'average' if better else 'best checkpoint'} is kept" in capsys.readouterr().err


def test_mean_of_weights_keeps_their_type() -> None:
    models = [{"w": torch.tensor([1.0, value], dtype=torch.bfloat16)} for value in (1.0, 2.0, 6.0)]
    assert average_weights(models)["w"].tolist() == [1.0, 3.0]
    assert average_weights(models)["w"].dtype == torch.bfloat16
    text = describe_average(Average({}, [2, 3], 24.5, True), "valid_bleu", 24.0)
    assert text == "average of epochs 2, 3: valid_bleu 24.500, the best checkpoint 24.000; the average is kept"


def test_average_is_validated_in_the_precision_of_training_and_translates_in_full_precision() -> None:
    """As after an epoch. Otherwise rounding could decide whether the average is at least as good as the best."""
    autocast: list[bool] = []
    losses = iter([(1.0, 1), (4.0, 3)])

    def values(batch: Batch) -> tuple[dict[str, torch.Tensor], int]:
        autocast.append(torch.is_autocast_enabled("cpu"))
        loss, pieces = next(losses)
        return {"valid_loss": torch.tensor(loss)}, pieces

    def scores() -> dict[str, float]:
        autocast.append(torch.is_autocast_enabled("cpu"))
        return {"valid_bleu": 1.0}

    model = torch.nn.Linear(1, 1)
    task: Any = SimpleNamespace(model=model, translation_scores=scores, validation_values=values, device="cpu")
    batches = [Batch(*[torch.zeros(1)] * 6)] * 2
    validated = validate_weights(task, model.state_dict(), batches, MixedPrecision("bf16-mixed", "cpu"))
    assert validated == {"valid_loss": 13 / 4, "valid_bleu": 1.0}
    assert autocast == [True, True, False]


@pytest.mark.parametrize(
    ("loss", "bleu", "kept"),
    [(2.0, 30.0, True), (2.1, 30.0, False), (1.9, 30.0, True), (2.1, 30.1, True), (math.nan, 31.0, False)],
)
def test_average_is_kept_if_it_is_at_least_as_good(
    loss: float, bleu: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = {"valid_loss": loss, "valid_bleu": bleu}
    monkeypatch.setattr(module, "validate_weights", lambda *_: scores)
    models = [Kept({"w": torch.ones(1)}, epoch, bleu) for epoch in (3, 2)]
    best: Any = SimpleNamespace(monitor="valid_bleu", read_best=lambda count, model: models[:count])
    best.best_quality = lambda: quality({"valid_loss": 2.0, "valid_bleu": 30.0}, "valid_bleu")
    config = train_config(["training.average_checkpoints=2", "device=cpu"])
    task: Any = SimpleNamespace(model=None, to=lambda device: None, config=config, settings=config.training)
    data: Any = SimpleNamespace(all_valid=lambda: [])
    trainer: Any = SimpleNamespace(precision_plugin=None)
    average: Any = module.average_best(best, task, data, trainer)
    assert (average.epochs, average.score, average.kept) == ([2, 3], bleu, kept)
