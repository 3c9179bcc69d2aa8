"""A tiny model of random weights: what the filters do with lines does not depend on what the model has learnt."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from builders import random_model, tiny_config

from nmt.inference.model_folder import TrainedModel, save_folder
from nmt.text.tokenizer import Tokenizer

SENTENCES = [
    "the small dog sees a red house",
    "der kleine Hund sieht ein rotes Haus",
    "a cat sleeps",
    "eine Katze schläft",
]


def make_model(
    folder: Path, attention: dict[str, object], *, lowercase: bool = False, bidirectional: bool = True
) -> Path:
    torch.set_num_threads(1)
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=300)
    config = tiny_config(attention, size=16, encoder={"bidirectional": bidirectional})
    config["data"] = {"kind": "text", "lowercase": lowercase}
    model = random_model(config, vocabulary=300, longest_source=20, seed=1)
    with torch.no_grad():
        for weights in model.decoder.parameters():
            weights.mul_(3)  # far from uniform, so that beams and lines have something to disagree about
        model.decoder.output.bias[4:260] -= 20  # no bytes, which would seldom spell a character
        model.decoder.output.bias[3] -= 1.5  # no translation is empty
    folder.mkdir(parents=True)
    save_folder(folder, TrainedModel(model, tokenizer, tokenizer, config, 20))
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with Bahdanau's attention."""
    attention = {"_target_": "nmt.attention.BahdanauAttention", "attention_size": 8}
    return make_model(tmp_path_factory.mktemp("models") / "bahdanau", attention)


@pytest.fixture(scope="session")
def blind_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lower-cased model without attention."""
    attention: dict[str, object] = {"_target_": "nmt.attention.NoAttention"}
    return make_model(tmp_path_factory.mktemp("models") / "none", attention, lowercase=True)


@pytest.fixture
def model_of(tmp_path: Path) -> Callable[..., Path]:
    """Makes the folder of a model with the attention block given."""
    return lambda attention, **given: make_model(tmp_path / "models" / attention["_target_"], attention, **given)


@pytest.fixture
def pipe_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Puts bytes on stdin."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))

    return put
