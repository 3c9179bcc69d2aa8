"""Tiny models with random weights, and fixtures for stdin and stdout."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nmt.inference.model_folder import TrainedModel, save_folder
from nmt.model.build import build_model
from nmt.text.tokenizer import Tokenizer

SENTENCES = [
    "the small dog sees a red house",
    "der kleine Hund sieht ein rotes Haus",
    "a cat sleeps",
    "eine Katze schläft",
]


def save_model(
    folder: Path, attention: dict[str, object], *, lowercase: bool = False, bidirectional: bool = True
) -> Path:
    """Save a model with random weights in ``folder``. How commands treat lines does not depend on training."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=300)
    config = {
        "data": {"kind": "text", "lowercase": lowercase},
        "embeddings": {"size": 8, "shared": True},
        "encoder": {
            "_target_": "nmt.model.LSTMEncoder",
            "hidden_size": 16,
            "dropout": 0.0,
            "bidirectional": bidirectional,
        },
        "attention": attention,
        "decoder": {"_target_": "nmt.model.LSTMDecoder", "hidden_size": 16, "dropout": 0.0},
    }
    model = build_model(config, source_vocabulary=300, target_vocabulary=300, longest_source=20)
    with torch.no_grad():
        for weights in model.decoder.parameters():
            weights.mul_(3)  # far from uniform, so that hypotheses and lines differ
        model.decoder.output.bias[4:260] -= 20  # no byte pieces: random ones rarely form a valid character
        model.decoder.output.bias[3] -= 1.5  # a less likely </s>, so that no translation is empty
    folder.mkdir(parents=True)
    save_folder(folder, TrainedModel(model, tokenizer, tokenizer, config, 20))
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model with Bahdanau attention."""
    attention = {"_target_": "nmt.attention.BahdanauAttention", "attention_size": 8}
    return save_model(tmp_path_factory.mktemp("models") / "bahdanau", attention)


@pytest.fixture(scope="session")
def model_without_attention(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model without attention, trained on lower-cased text."""
    attention: dict[str, object] = {"_target_": "nmt.attention.NoAttention"}
    return save_model(tmp_path_factory.mktemp("models") / "none", attention, lowercase=True)


@pytest.fixture(scope="session")
def short_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model whose attention reads sources of at most 20 pieces."""
    attention: dict[str, object] = {"_target_": "nmt.attention.LowRankAttention", "slots": 3}
    return save_model(tmp_path_factory.mktemp("models") / "low_rank", attention)


@pytest.fixture
def make_model(tmp_path: Path) -> Callable[..., Path]:
    """Function that saves a model with the given attention block and returns its folder."""
    return lambda attention, **options: save_model(tmp_path / "models" / attention["_target_"], attention, **options)


@pytest.fixture
def pipe_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Function that makes bytes the content of stdin."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))

    return put


@pytest.fixture
def read_output(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[[], list[str]]:
    """Function that returns the lines written to stdout since its last call."""

    def read() -> list[str]:
        out = capfdbinary.readouterr().out.decode()
        assert out.endswith("\n") or not out
        return out.split("\n")[:-1]

    return read
