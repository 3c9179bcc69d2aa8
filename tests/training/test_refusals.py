"""Odd settings, too little memory, and damaged checkpoints end in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import TINY, stop_at

from nmt.commands.train import train
from nmt.config import train_config
from nmt.errors import UserError
from nmt.training.checkpoints import BestCheckpoints

INFINITE = torch.ones(3) / 0
ONE_EPOCH = [*TINY, "training.max_epochs=1"]


@pytest.mark.thorough
def test_a_beta_of_zero_is_a_number(run: Path) -> None:
    train([*ONE_EPOCH, "optimizer.betas=[0.9,0]"])


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: 12 bytes"),
        RuntimeError("DefaultCPUAllocator: not enough memory"),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(
    "place", ["nmt.training.task.TranslationTask.training_step", "nmt.training.weights.build_model"]
)
def test_out_of_memory(run: Path, error: Exception, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(place, fail)
    with pytest.raises(UserError, match="batches.max_tokens=2048: not enough memory.*; lower it, or the sizes"):
        train(TINY)


@pytest.mark.thorough
def test_closed_stdout(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        train(ONE_EPOCH)
    assert (run / "summary.json").is_file()


@pytest.mark.thorough
@pytest.mark.attack("damaged checkpoint, resumed")
@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored.pop("callbacks"),
        lambda stored: stored.pop("loops"),
        lambda stored: stored.pop("optimizer_states"),
        lambda stored: stored.pop("state_dict"),
        lambda stored: stored.update(epoch="one"),
        lambda stored: stored.update(loops=[]),
        lambda stored: stored.update(optimizer_states={}),
        lambda stored: stored.update(state_dict={"x": 1}),
        lambda stored: stored["callbacks"].update(LastCheckpoint={"random": 1}),
        lambda stored: stored.clear(),
    ],
)
def test_checkpoint_without_its_keys(stopped: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    last = stopped / "checkpoints" / "last.ckpt"
    stored = torch.load(last)
    change(stored)
    torch.save(stored, last)
    not_resumed = r"cannot be resumed \(.*\); start a new run"
    no_checkpoint = r"has no valid '\w+'; it is not a checkpoint that nmt-train wrote"
    with pytest.raises(UserError, match=rf"last\.ckpt: ({not_resumed}|{no_checkpoint})$"):
        train(["resume=true"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": None}, "no valid format version; start a new run"),
        ({"format": 2}, "format 2, but this version reads format 3; start a new run"),
        ({"format": 4}, "format 4, but this version reads format 3; update the toolkit"),
    ],
)
def test_checkpoint_of_another_format_is_refused(stopped: Path, change: dict[str, Any], problem: str) -> None:
    last = stopped / "checkpoints" / "last.ckpt"
    torch.save({**torch.load(last), **change}, last)
    with pytest.raises(UserError, match=f"last.ckpt: {problem}"):
        train(["resume=true"])


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("state_dict", None, "has no valid 'state_dict'"),
        ("state_dict", [1], "has no valid 'state_dict'"),
        ("epoch", "one", "has no valid 'epoch'"),
        ("state_dict", {"model.weight": torch.zeros(3, 2)}, "weight model.bias is not that of this model"),
        (
            "state_dict",
            {"model.weight": torch.zeros(2, 2), "model.bias": torch.zeros(3)},
            "weight model.weight is not that",
        ),
        ("state_dict", {"model.weight": "x", "model.bias": torch.zeros(3)}, "weight model.weight is not that"),
        (
            "state_dict",
            {"model.weight": torch.zeros(3, 2), "model.bias": torch.ones(3) / 0},
            "weight model.bias is not fin",
        ),
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


@pytest.mark.thorough
def test_damaged_length_in_a_checkpoint_is_refused(tmp_path: Path, run: Path) -> None:
    train([*ONE_EPOCH, "name=start"])
    stop_at(2, [*ONE_EPOCH, "init_from=runs/start"])
    last = run / "checkpoints" / "last.ckpt"
    stored = torch.load(last)
    stored["portable"]["longest_source"] = "many"
    torch.save(stored, last)
    with pytest.raises(UserError, match=r"last\.ckpt: cannot be resumed \(longest_source='many'\); start a new run"):
        train(["resume=true"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["batches.accumulate=100000000000000000000"], "batches.accumulate=1.*: must be at most 2147483647"),
        (["embeddings.size=100000000000000000000"], "embeddings.size=1.*: must be at most 65536"),
        (["optimizer.lr=1e38"], "loss is (inf|nan) at update 1: training cannot continue"),
        (["optimizer._target_=torch.optim.SparseAdam"], "SparseAdam refuses its settings: .*dense gradients"),
        (["schedule._target_=torch.optim.lr_scheduler.StepLR", "+schedule.step_size=0"], "StepLR refuses"),
        (
            [
                "schedule._target_=torch.optim.lr_scheduler.OneCycleLR",
                "+schedule.max_lr=1",
                "+schedule.total_steps=3",
            ],
            "schedule: torch.optim.lr_scheduler.OneCycleLR fails at update 4: ",
        ),
    ],
)
def test_odd_settings(run: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = {"optimizer": "_target_: torch.optim.Adam\nlr: 0.01\n", "schedule": "_target_: x\n"}
    for name, text in blocks.items():
        (run.parents[1] / "conf" / name).mkdir(parents=True)
        (run.parents[1] / "conf" / name / "plain.yaml").write_text(text)
    plain = [f"{name}=plain" for name in blocks if words[0].startswith(f"{name}._target_")]
    with pytest.raises(UserError, match=message):
        train([*TINY, "--config-dir=conf", *plain, *words])
