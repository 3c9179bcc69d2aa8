"""Every attention learns to copy; a model without attention does not. Takes minutes: run with ``-m slow``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import metrics

from nmt.commands.train import train
from nmt.config.overrides import config_dir

TASK = [
    *("data=copy", "data.train_pairs=20000", "data.valid_pairs=500", "data.test_pairs=20", "tokenizer.vocab_size=300"),
    *("embeddings.size=64", "encoder.hidden_size=128", "decoder.hidden_size=128", "batches.max_tokens=1024"),
    *("training.max_epochs=8", "training.decode_sentences=0", "training.monitor=valid_accuracy", "threads=1"),
    "export=false",
]
KINDS = sorted(file.stem for file in (config_dir() / "attention").glob("*.yaml") if file.stem != "none")
SETTINGS = {kind: [f"attention={kind}"] for kind in KINDS}
SETTINGS["covariance_paper"].append("optimizer.lr=0.002")  # the rates that these YAMLs recommend
SETTINGS["memory_paper"].append("optimizer.lr=0.01")
SETTINGS |= {f"luong {score}": ["attention=luong", f"attention.score={score}"] for score in ("dot", "concat")}


def accuracy(settings: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the share of pieces that the model ranks first, given the true prefix, in unseen sentences."""
    monkeypatch.chdir(folder)
    train([*TASK, *settings, "name=copy"])
    return max(float(row["valid_accuracy"]) for row in metrics(Path("runs/copy"), "valid_accuracy"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETTINGS)
def test_every_attention_learns_to_copy(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert accuracy(SETTINGS[kind], tmp_path, monkeypatch) >= 0.99


@pytest.mark.slow
def test_model_without_attention_does_not_learn_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = accuracy(["attention=none"], tmp_path, monkeypatch)
    print(f"token accuracy without attention: {share:.3f}")
    assert share < 0.99
