"""A copy task that trains in seconds, and functions that interrupt or observe such a run."""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from nmt import Translator
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.config import train_config
from nmt.text.batches import collate
from nmt.text.prepare import open_prepared
from nmt.training.guide import build_guide, normalise
from nmt.training.task import TranslationTask
from nmt.training.weights import new_model

TINY = [
    *("data=copy", "data.train_pairs=300", "data.valid_pairs=20", "data.test_pairs=8", "tokenizer.vocab_size=280"),
    *("embeddings.size=8", "encoder.hidden_size=8", "decoder.hidden_size=8", "attention.slots=3"),
    *("training.max_epochs=2", "training.decode_sentences=5", "search.max_length=8", "device=cpu", "threads=1"),
    "export=false",
]

SMALL = [*TINY, "data.train_pairs=60", "data.test_pairs=2"]


def on_prepared(folder: str, *settings: str, parts: Sequence[str] = ("train", "valid")) -> list[str]:
    """Run nmt-prepare with these settings into ``folder``, and return the arguments of a tiny run on it."""
    Path("a.src").write_text("".join(f"Ban des {'Gin ' * n}kor\n" for n in range(30)))
    Path("a.tgt").write_text("".join(f"Ban des {'Gni ' * n}kor\n" for n in range(30)))
    files = [f"data.{part}.{side}=a.{side}" for part in parts for side in ("src", "tgt")]
    prepare([*files, "tokenizer.vocab_size=276", *settings, f"output={folder}"])
    model = [word for word in TINY if not word.startswith(("data", "tokenizer"))]
    return [*model, "data=prepared", f"data.folder={folder}"]


def record_batches(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return a list that collects the rows of every training batch, in order."""
    batches: list[list[int]] = []
    original = TranslationTask.training_step

    def training_step(self: TranslationTask, batch: Any, index: int) -> Any:
        batches.append(batch.index.tolist())
        return original(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", training_step)
    return batches


def validations(run: Path) -> list[tuple[str, str]]:
    """Return (step, epoch) of each validation."""
    with (run / "metrics.csv").open(newline="") as file:
        return [(row["step"], row["epoch"]) for row in csv.DictReader(file) if row["valid_loss"]]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, *, step: int, signal_number: int = signal.SIGINT) -> None:
    """Send Ctrl-C, or the signal ``signal_number``, once during the update number ``step``."""
    original = TranslationTask.training_step
    pending = [signal_number]

    def training_step(self: TranslationTask, batch: Any, index: int) -> Any:
        if self.global_step == step and pending:
            signal.raise_signal(pending.pop())
        return original(self, batch, index)

    monkeypatch.setattr(TranslationTask, "training_step", training_step)


def stop_at(step: int, words: Sequence[str], *, signal_number: int = signal.SIGINT) -> None:
    """Train with these arguments until the signal stops the run during this update."""
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, step=step, signal_number=signal_number)
        with pytest.raises(KeyboardInterrupt):
            train([*words])


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Return the weights of the model of a run."""
    stored: dict[str, torch.Tensor] = torch.load(run / "model.pt", weights_only=True)["weights"]
    return stored


def assert_same_model(run: Path, other: Path) -> None:
    """Assert that the models of two runs have the same weights, bit for bit."""
    first, second = weights(run), weights(other)
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def summary(run: Path) -> dict[str, Any]:
    """Return the content of the run's summary.json."""
    content: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return content


def assert_same_run(run: Path, other: Path) -> None:
    """Assert that two runs have the same model, metrics, checkpoints and scores, and no files that the other lacks."""
    assert_same_model(run, other)
    assert (run / "metrics.csv").read_text() == (other / "metrics.csv").read_text()
    first, second = ({file.name: file for file in (folder / "checkpoints").iterdir()} for folder in (run, other))
    assert first.keys() == second.keys()
    assert {file.name for file in run.iterdir()} == {file.name for file in other.iterdir()}
    for name in first:
        states = [torch.load(files[name], weights_only=True)["state_dict"] for files in (first, second)]
        assert all(torch.equal(weight, states[1][key]) for key, weight in states[0].items()), name
    keys = ("epochs", "updates", "kept_epoch", "averaged_epochs", "valid_best", "test")
    assert [summary(run)[key] for key in keys] == [summary(other)[key] for key in keys]


def check_resumed(words: Sequence[str], stops: Sequence[int], *, killed: bool = False) -> None:
    """Check that a run equals the uninterrupted one although it is stopped, or killed, during these updates."""
    with pytest.MonkeyPatch.context() as patch:
        batches = record_batches(patch)
        train([*words, "name=whole"])
        expected = batches.copy()
        batches.clear()
        for number, step in enumerate(stops):
            (kill_at if killed else stop_at)(step, words if number == 0 else ["resume=true"])
        assert 0 < len(batches) <= len(expected)
        assert killed or Translator.load(Path("runs/demo")).translate(["ban"])  # it has a model already
        train(["resume=true"])
    assert killed or batches == expected
    assert_same_run(Path("runs/demo"), Path("runs/whole"))


def kill_at(step: int, words: Sequence[str]) -> None:
    """Train with these arguments until the run dies during this update, without saving anything."""
    original = TranslationTask.training_step

    def training_step(self: TranslationTask, batch: Any, index: int) -> Any:
        if self.global_step == step:
            raise SystemExit
        return original(self, batch, index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TranslationTask, "training_step", training_step)
        with pytest.raises(SystemExit):
            train([*words])


def joined_gradients(
    words: Sequence[str], run: Path, weights: dict[str, torch.Tensor], rows: Sequence[int]
) -> dict[str, torch.Tensor]:
    """Return the gradients of these weights for one batch with these rows, computed without the classes of training."""
    config, prepared = train_config([*words]), open_prepared(run / "data")
    model = new_model(config, prepared).model.train()
    model.load_state_dict(weights, strict=False)
    batch = collate(prepared.corpora["train"], rows)
    features, alignment = model.aligned_features(batch.source, batch.source_mask, batch.target_in)
    logits = model.decoder.output(features)[batch.target_mask]
    loss = functional.cross_entropy(logits, batch.target_out[batch.target_mask])
    if (guide := build_guide(config.guide, prepared, trust=[])) is not None:
        given = guide.targets(batch).double()
        loss += -0.1 * (given * (normalise(alignment.double()) + 1e-6).log()).sum() / (given.sum(2) > 0).sum()
    loss.backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
