"""A copy task that trains in seconds, and functions that interrupt or observe such a run."""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import call_before, write_parts
from torch.nn import functional

from nmt import Translator
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.errors import UserError
from nmt.text.batches import collate
from nmt.text.prepare import open_prepared
from nmt.training.guide import build_guide
from nmt.training.task import TranslationTask
from nmt.training.weights import new_model

TINY = [
    *("data=copy", "data.train_pairs=300", "data.valid_pairs=20", "data.test_pairs=8", "tokenizer.vocab_size=280"),
    *("embeddings.size=8", "encoder.hidden_size=8", "decoder.hidden_size=8", "attention.slots=3"),
    *("training.max_epochs=2", "training.decode_sentences=5", "search.max_length=8", "device=cpu", "threads=1"),
    "export=false",
]
ONE_EPOCH = [*TINY, "training.max_epochs=1"]
SMALL = [*TINY, "data.train_pairs=60", "data.test_pairs=2"]
MODEL = [word for word in TINY if not word.startswith(("data", "tokenizer"))]  # for other text
WITHOUT_ATTENTION = [*(word for word in SMALL if "slots" not in word), "attention=none"]  # ends sooner: draws nothing
SENTENCES = [(f"Ban des {'Gin ' * n}kor", f"Ban des {'Gni ' * n}kor") for n in range(30)]
NO_REPORT = {"test": None, "tokens_per_s": 0, "epochs": 0, "updates": 0}  # drawing alignments takes seconds


def refuse(words: Sequence[str], message: str) -> None:
    """Assert that training with these arguments is an error with this message, a regular expression."""
    with pytest.raises(UserError, match=message):
        train([*words])


def on_prepared(
    folder: str,
    *settings: str,
    parts: Sequence[str] = ("train", "valid"),
    pairs: Sequence[tuple[str, str]] = SENTENCES,
) -> list[str]:
    """Run nmt-prepare with these settings into ``folder``, and return the arguments of a tiny run on it."""
    files = write_parts(Path(), dict.fromkeys(parts, pairs))
    prepare([*files, "tokenizer.vocab_size=276", *settings, f"output={folder}"])
    return [*MODEL, "data=prepared", f"data.folder={folder}"]


def record_batches(patch: pytest.MonkeyPatch) -> list[list[int]]:
    """Return a list that collects the rows of every training batch, in order."""
    batches: list[list[int]] = []
    call_before(patch, TranslationTask, "training_step", lambda _, batch, index: batches.append(batch.index.tolist()))
    return batches


def metrics(run: Path, column: str) -> list[dict[str, str]]:
    """Return the rows of metrics.csv with a value in this column."""
    with (run / "metrics.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row[column]]


def interrupt_at(patch: pytest.MonkeyPatch, *, step: int, signal_number: int = signal.SIGINT, times: int = 1) -> None:
    """Send Ctrl-C, or the signal ``signal_number``, during the update number ``step``."""
    pending = [signal_number] * times

    def send(task: TranslationTask, batch: Any, index: int) -> None:
        while task.global_step == step and pending:
            signal.raise_signal(pending.pop())

    call_before(patch, TranslationTask, "training_step", send)


def stop_at(step: int, words: Sequence[str]) -> None:
    """Train with these arguments until Ctrl-C stops the run during this update."""
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, step=step)
        with pytest.raises(KeyboardInterrupt):
            train([*words])


def kill_at(step: int, words: Sequence[str]) -> None:
    """Train with these arguments until the run dies during this update, without saving anything."""

    def die(task: TranslationTask, batch: Any, index: int) -> None:
        if task.global_step == step:
            raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        call_before(patch, TranslationTask, "training_step", die)
        with pytest.raises(SystemExit):
            train([*words])


def weights_of(task: TranslationTask) -> dict[str, torch.Tensor]:
    """Return a copy of the weights that a task trains, by their names in the model."""
    return {name: weight.detach().clone() for name, weight in task.model.named_parameters()}


def stored_weights(file: Path) -> dict[str, torch.Tensor]:
    """Return the weights of a model or a checkpoint, by their names in the model."""
    stored = torch.load(file, map_location="cpu", weights_only=True)
    named = stored.get("weights") or stored["state_dict"]
    return {name.removeprefix("model."): weight for name, weight in named.items()}


def same_weights(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> bool:
    """Return whether both have the same tensors, bit for bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def same_model(run: Path, other: Path) -> bool:
    """Return whether the models of two runs have the same weights, bit for bit."""
    return same_weights(stored_weights(run / "model.pt"), stored_weights(other / "model.pt"))


def summary(run: Path) -> dict[str, Any]:
    """Return the content of the run's summary.json."""
    content: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return content


def last_step(run: Path) -> int:
    """Return the number of updates before the last checkpoint."""
    step: int = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["global_step"]
    return step


def assert_same_run(run: Path, other: Path) -> None:
    """Assert that two runs have the same model, metrics, checkpoints and scores, and no files that the other lacks."""
    assert same_model(run, other)
    assert (run / "metrics.csv").read_text() == (other / "metrics.csv").read_text()
    names = {file.name for file in (run / "checkpoints").iterdir()}
    assert names == {file.name for file in (other / "checkpoints").iterdir()}
    assert {file.name for file in run.iterdir()} == {file.name for file in other.iterdir()}
    for name in names:
        assert same_weights(*(stored_weights(folder / "checkpoints" / name) for folder in (run, other))), name
    keys = ("epochs", "updates", "kept_epoch", "valid_best", "test")
    assert [summary(run)[key] for key in keys] == [summary(other)[key] for key in keys]


def check_resumed(words: Sequence[str], stops: Sequence[int], *, killed_after: int | None = None) -> None:
    """Check that a run equals the uninterrupted one although it is stopped during these updates.

    With ``killed_after`` it is killed instead, and its last checkpoint is that after ``killed_after`` updates.
    """
    run = Path("runs/demo")
    with pytest.MonkeyPatch.context() as patch:
        batches = record_batches(patch)
        train([*words, "name=whole"])
        expected = batches.copy()
        batches.clear()
        for number, step in enumerate(stops):
            (stop_at if killed_after is None else kill_at)(step, words if number == 0 else ["resume=true"])
        assert 0 < len(batches) <= len(expected)
        if killed_after is None:
            assert Translator.load(run).translate(["ban"])  # it has a model already
        else:
            assert last_step(run) == killed_after, last_step(run)
        train(["resume=true"])
    assert killed_after is not None or batches == expected
    assert_same_run(run, Path("runs/whole"))


def joined_gradients(
    words: Sequence[str], text: Path, weights: dict[str, torch.Tensor], rows: Sequence[int]
) -> dict[str, torch.Tensor]:
    """Return the gradients of these weights for one batch with these rows of the prepared ``text``.

    It uses none of the classes of training.
    """
    config, prepared = train_config([*words]), open_prepared(text)
    model = new_model(config, prepared).model.train()
    model.load_state_dict(weights, strict=False)
    batch = collate(prepared.corpora["train"], rows)
    features, alignment = model.aligned_features(batch.source, batch.source_mask, batch.target_in)
    logits = model.decoder.output(features)[batch.target_mask]
    pieces = batch.target_out[batch.target_mask]
    loss = functional.cross_entropy(logits, pieces)
    if (guide := build_guide(config.guide, prepared, trust=[])) is not None:
        given = guide.targets(batch).double()  # type: ignore[attr-defined]
        shares = alignment.double().abs() / alignment.double().abs().sum(2, keepdim=True)
        loss += -0.1 * (given * (shares + 1e-6).log()).sum() / len(pieces)
    loss.backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
