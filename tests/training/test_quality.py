"""Which model a run keeps: the monitored score decides, and the validation loss where scores are equal or near zero."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import WITHOUT_ATTENTION, stop_at, summary

from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.training.checkpoints import BestCheckpoints, Patience
from nmt.training.task import TranslationTask

TRAINING = train_config(["training.monitor=valid_bleu"]).training


def script_validations(patch: pytest.MonkeyPatch, bleu: list[float], loss: list[float]) -> None:
    """Replace the scores of each epoch's validation by these."""
    original = TranslationTask.log_dict

    def log_dict(self: TranslationTask, values: dict[str, Any], **options: Any) -> None:
        original(self, {**values, "valid_loss": torch.tensor(loss[self.current_epoch])}, **options)

    def on_validation_epoch_end(self: TranslationTask) -> None:
        self.log("valid_bleu", bleu[self.current_epoch])
        self.log("valid_chrf", bleu[self.current_epoch])

    patch.setattr(TranslationTask, "log_dict", log_dict)
    patch.setattr(TranslationTask, "on_validation_epoch_end", on_validation_epoch_end)


def kept_epochs(run: Path) -> list[int]:
    return sorted(int(file.name.split("=")[1].split("-")[0]) for file in (run / "checkpoints").glob("best-*"))


def test_resumed_run_keeps_the_same_model(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script_validations(monkeypatch, [0.02, 0.01, 0.03], [5.1, 5.7, 5.2])
    words = [*WITHOUT_ATTENTION, "batches.max_tokens=300", "training.max_epochs=3"]
    for step in (6, 12):  # in the second and the third epoch
        stop_at(step, words)
        words = ["resume=true"]
    train(words)
    assert kept_epochs(run) == [0]


@pytest.mark.parametrize(
    ("patience", "bleu", "loss", "epochs"),
    [
        (2, [0.5, 0.4, 0.3, 0.2, 0.1], [5.0, 4.0, 3.0, 2.0, 1.0], 5),  # the loss falls: progress
        (2, [0.1, 0.2, 0.3, 0.4, 0.5], [1.0, 2.0, 3.0, 4.0, 5.0], 3),  # only chance improves the score
        ("null", [0.5] * 5, [1.0] * 5, 5),
    ],
)
def test_patience_counts_the_same_progress(
    run: Path,
    patience: int | str,
    bleu: list[float],
    loss: list[float],
    epochs: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script_validations(monkeypatch, bleu, loss)
    train([*WITHOUT_ATTENTION, "training.max_epochs=5", f"training.patience={patience}"])
    assert summary(run)["epochs"] == epochs
    early = "stopped early: valid_bleu did not improve in 2 validations (training.patience); the model of epoch 1 is"
    assert (early in capsys.readouterr().err) is (epochs == 3)


SCORES = st.floats(0, 100, width=32) | st.sampled_from([0.0, 0.5, 0.99, 1.0, 1.004, 50.0, 50.001])
LOSSES = st.floats(0, 9, width=32) | st.sampled_from([1.0, 2.0])


@given(st.lists(st.tuples(SCORES, LOSSES), min_size=1, max_size=8), st.integers(1, 3), st.integers(0, 8))
def test_best_checkpoints_are_the_first_of_all_when_sorted(
    values: list[tuple[float, float]], keep: int, resumed: int
) -> None:
    """Also with a resumption in between. The naive version sorts all epochs at once, the latest first."""
    settings = replace(TRAINING, keep_best=keep)
    with TemporaryDirectory() as folder:
        best = BestCheckpoints(Path(folder), settings)
        for epoch, (bleu, loss) in enumerate(values):
            if epoch == resumed:
                state, best = best.state_dict(), BestCheckpoints(Path(folder), settings)
                best.load_state_dict(state)
            trainer = SimpleNamespace(current_epoch=epoch, loggers=[], save_checkpoint=lambda path, **_: path.touch())
            trainer.callback_metrics = {"valid_bleu": torch.tensor(bleu), "valid_loss": torch.tensor(loss)}
            best.on_train_epoch_end(trainer, None)  # type: ignore[arg-type]
            best.remove_replaced()

    def naive(epoch: int) -> tuple[float, float, int]:
        bleu, loss = values[epoch]
        printed = float(f"{bleu:.2f}") if bleu >= 1 else 0.0
        return -printed, loss, -epoch

    expected = sorted(range(len(values)), key=naive)[:keep]
    assert [int(Path(path).name.split("=")[1].split("-")[0]) for path in best.best_k_models] == expected


@given(st.lists(st.floats(0, 9), min_size=2, max_size=8), st.integers(1, 7), st.integers(1, 3))
def test_patience_of_a_resumed_run_counts_on(losses: list[float], stop: int, patience: int) -> None:
    def validate(callback: Patience, losses: list[float]) -> list[bool]:
        """Return whether training stops after each validation."""
        stops = []
        for loss in losses:
            callback.count({"valid_loss": loss})
            stops.append(callback.is_over)
        return stops

    def new() -> Patience:
        return Patience("valid_loss", patience)

    first, resumed = new(), new()
    before = validate(first, losses[:stop])
    resumed.load_state_dict(first.state_dict())
    assert before + validate(resumed, losses[stop:]) == validate(new(), losses)
