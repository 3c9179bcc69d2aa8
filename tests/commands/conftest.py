"""Tiny models with random weights, and fixtures for stdin and stdout."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from builders import random_model, tiny_config, trained_model

from nmt.inference.model_folder import save_folder
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
    torch.set_num_threads(1)
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=300)
    config = tiny_config(attention, size=16, encoder={"bidirectional": bidirectional})
    config["data"]["lowercase"] = lowercase
    # The scale makes hypotheses and lines differ. The bias keeps translations from being empty.
    model = random_model(config, vocabulary=300, longest_source=20, seed=1, scale=3.0, eos_bias=-1.5)
    with torch.no_grad():
        model.decoder.output.bias[4:260] -= 20  # no byte pieces: random ones rarely form a valid character
    folder.mkdir(parents=True)
    save_folder(folder, trained_model(config, tokenizer, model, longest_source=20))
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


@pytest.fixture(scope="session")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model whose number of slots, up to 6, is chosen when it translates."""
    attention: dict[str, object] = {"_target_": "nmt.attention.NestedMemoryAttention", "slots": 6}
    return save_model(tmp_path_factory.mktemp("models") / "nested", attention)


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


@pytest.fixture(scope="session")
def golden_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stored run with graphs of tests/golden. Only for copying."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(Path(__file__).parents[1] / "golden" / "present.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "runs" / "finished"
