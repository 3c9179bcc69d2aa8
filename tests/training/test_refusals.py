"""Odd settings, too little memory, and damaged checkpoints end in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from builders import call_before
from tiny import TINY, refuse

from nmt.config.compose import train_config
from nmt.training import weights
from nmt.training.checkpoints import BestCheckpoints
from nmt.training.task import TranslationTask

PROCESSES = "no such key; use torchrun --nproc-per-node=2"
NO_LENGTH = "schedule._target_=torch.optim.lr_scheduler.OneCycleLR +schedule.max_lr=1 +schedule.total_steps=3"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tokenizer.vocab_size=100000", "^tokenizer.vocab_size=100000: "),
        ("device=tpu", "^device=tpu: "),
        ("batches.accumulate=100000000000000000000", "^batches.accumulate=1.*: must be at most 2147483647"),
        ("optimizer._target_=torch.optim.SparseAdam", "SparseAdam refuses its settings: .*dense gradients"),
        ("schedule._target_=torch.optim.lr_scheduler.StepLR +schedule.step_size=0", "StepLR refuses"),
        ("data=generated tokenizer=unigram batches.bpe_dropout=0.1", "^batches.bpe_dropout=0.1: unigram pieces"),
        ("data=generated guide=links batches.bpe_dropout=0.1", "^batches.bpe_dropout=0.1: guide=links aligns"),
        (
            "training.max_epochs=null training.patience=null",
            "^training.max_epochs=null: training would never end; set training.max_steps or training.max_epochs",
        ),
        (
            "training.max_epochs=null schedule=linear",
            "^training.max_epochs=null: Linear needs the number of updates; set training.max_steps or max_epochs",
        ),
        ("devices=2", f"^devices: {PROCESSES}"),
        ("logger=wandb logger._target_=os.system", "package 'os' is not trusted"),
        ("logger=wandb logger._target_=pytorch_lightning.Trainer", "pytorch_lightning"),
        ("logger=wandb +logger.id=x", "logger.id=x: no such key"),
        ("logger=mlflow logger.experiment_name=[3]", "logger.experiment_name=.*: must be text"),
    ],
)
def test_setting_is_refused_before_training(run: Path, words: str, message: str) -> None:
    refuse([*TINY, *own_blocks(words), *words.split()], message)
    assert not run.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("optimizer.lr=1e38", "loss is (inf|nan) at update 1: training cannot continue"),
        (NO_LENGTH, "schedule: torch.optim.lr_scheduler.OneCycleLR fails at update 4: "),
    ],
)
def test_setting_with_which_training_fails_is_named(run: Path, words: str, message: str) -> None:
    refuse([*TINY, *own_blocks(words), *words.split()], message)


def own_blocks(words: str) -> list[str]:
    """Write an optimizer and a schedule with few settings, and choose the one whose class is overridden."""
    blocks = {"optimizer": "_target_: torch.optim.Adam\nlr: 0.01\n", "schedule": "_target_: x\n"}
    for name, text in blocks.items():
        Path("conf", name).mkdir(parents=True)
        Path("conf", name, "plain.yaml").write_text(text)
    return ["--config-dir=conf", *(f"{name}=plain" for name in blocks if words.startswith(f"{name}._target_"))]


@pytest.mark.parametrize(("owner", "name"), [(TranslationTask, "training_step"), (weights, "build_model")])
def test_out_of_memory(run: Path, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call_before(monkeypatch, owner, name, Mock(side_effect=MemoryError))
    refuse(TINY, "batches.max_tokens=2048: not enough memory.*; lower it, or the sizes")


UNRESUMABLE = (
    r"(cannot be resumed \(.*\); start a new run|has no valid '\w+'; it is not a checkpoint that .* wrote; .*)$"
)


@pytest.mark.attack("damaged checkpoint, resumed")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda stored: stored.pop("callbacks"), UNRESUMABLE),
        (lambda stored: stored.pop("state_dict"), UNRESUMABLE),
        (lambda stored: stored.update(epoch="one"), UNRESUMABLE),
        (lambda stored: stored.update(state_dict={"x": 1}), UNRESUMABLE),
        (lambda stored: stored["callbacks"].update(LastCheckpoint={"random": 1}), UNRESUMABLE),
        (lambda stored: stored.update(format=None), "no valid format version; start a new run"),
        (lambda stored: stored.update(format=2), "format 2, but this version reads format 3; start a new run"),
        (None, "cannot be read as a model"),
    ],
)
def test_damaged_last_checkpoint_is_refused(
    stopped: Path, change: Callable[[dict[str, Any]], Any] | None, problem: str
) -> None:
    last = stopped / "checkpoints" / "last.ckpt"
    if change is None:
        last.write_bytes(last.read_bytes()[:-1000])
    else:
        stored = torch.load(last)
        change(stored)
        torch.save(stored, last)
    refuse(["resume=true"], rf"last\.ckpt: {problem}")


WEIGHT, BIAS = torch.zeros(3, 2), torch.zeros(3)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("state_dict", None, "has no valid 'state_dict'"),
        ("epoch", "one", "has no valid 'epoch'"),
        ("state_dict", {"model.weight": WEIGHT}, "weight model.bias does not fit this model"),
        ("state_dict", {"model.weight": torch.zeros(2, 2), "model.bias": BIAS}, "weight model.weight does not fit"),
        ("state_dict", {"model.weight": WEIGHT, "model.bias": BIAS / 0}, "weight model.bias is not fin"),
    ],
)
def test_damaged_best_checkpoint_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: Any, problem: str
) -> None:
    model = torch.nn.Linear(2, 3)
    good = {"epoch": 4, "state_dict": {f"model.{name}": weight for name, weight in model.state_dict().items()}}
    best = BestCheckpoints(tmp_path, train_config(["training.monitor=valid_loss"]).training)
    torch.save({**good, key: value}, tmp_path / "best.ckpt")
    torch.save(good, tmp_path / "last.ckpt")
    best.scores["best.ckpt"] = {"valid_loss": 1.0}
    kept = best.read(tmp_path / "last.ckpt", model)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {tmp_path}/best.ckpt: {problem}") and line.endswith("; the checkpoint is skipped")
    assert kept is not None and kept.epoch == 5 and torch.equal(kept.weights["weight"], model.weight)
