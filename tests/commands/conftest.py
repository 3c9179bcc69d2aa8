"""Tiny models with random weights, a folder with two texts, and a function that calls a command."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import random_trained, tiny_config, write_lines
from commands.texts import SOURCE, TARGET, Call, Printed

from nmt.commands.export import export
from nmt.inference.model_folder import save_folder
from nmt.text.tokenizer import Tokenizer

SENTENCES = [
    "the small dog sees a red house",
    "der kleine Hund sieht ein rotes Haus",
    "a cat sleeps",
    "eine Katze schläft",
]


def save_model(folder: Path, attention: str, *, lowercase: bool = False, **settings: Any) -> Path:
    """Save a model with random weights in ``folder``. How commands treat lines does not depend on training."""
    torch.set_num_threads(1)
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=300)
    block = {"_target_": f"nmt.attention.{attention}", **settings}
    config = tiny_config(block, size=16)
    config["data"]["lowercase"] = lowercase
    # The scale makes hypotheses and lines differ. The bias keeps translations from being empty.
    trained = random_trained(config, tokenizer, longest_source=20, seed=1, scale=3.0, eos_bias=-1.5)
    with torch.no_grad():
        trained.model.decoder.output.bias[4:260] -= 20  # no byte pieces: random ones rarely form a valid character
    save_folder(folder, trained)
    return folder


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model with Bahdanau attention."""
    return save_model(tmp_path_factory.mktemp("bahdanau", numbered=False), "BahdanauAttention", attention_size=8)


@pytest.fixture(scope="session")
def deployment(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment of that model, in a folder without the run. Only for reading."""
    folder = tmp_path_factory.mktemp("deployments") / "my_model"
    export([f"model={model}", f"output={folder}"])
    return folder


@pytest.fixture(scope="session")
def exported(model: Path, deployment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of that model with its ONNX graphs. Only for reading."""
    folder = shutil.copytree(model, tmp_path_factory.mktemp("exported") / "run")
    shutil.copytree(deployment, folder / "onnx")
    return folder


@pytest.fixture(scope="session")
def model_without_attention(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model without attention, trained on lower-cased text."""
    return save_model(tmp_path_factory.mktemp("none"), "NoAttention", lowercase=True)


@pytest.fixture(scope="session")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model whose number of slots, up to 6, is chosen when it translates."""
    return save_model(tmp_path_factory.mktemp("nested"), "NestedMemoryAttention", slots=6)


@pytest.fixture
def make_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Function that saves a model with the given attention and returns its folder."""
    return lambda attention, **options: save_model(tmp_path_factory.mktemp("model"), attention, **options)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files src and tgt."""
    monkeypatch.chdir(tmp_path)
    write_lines("src", SOURCE)
    write_lines("tgt", TARGET)
    return tmp_path


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str]) -> Callable[[], Printed]:
    """Function that returns what was printed since its last call."""

    def read() -> Printed:
        out, error = capfd.readouterr()
        assert out.endswith("\n") or not out
        return Printed(out.split("\n")[:-1], error)

    return read


@pytest.fixture
def call(printed: Callable[[], Printed], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Function that calls a command with arguments, and with this stdin, and returns what it printed."""

    def call(command: Callable[[list[str]], Any], *arguments: str, stdin: bytes = b"") -> Printed:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="ascii"))
        printed()
        command([*arguments])
        return printed()

    return call


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Function that limits the size of the files that this test writes, which stands for a full disk."""
    resource = pytest.importorskip("resource")
    used, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (used, hard))
