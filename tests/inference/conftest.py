"""Exported models that several tests share, because an export takes seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import save_random
from filelock import FileLock

from nmt.config.compose import compose_train
from nmt.inference.onnx.export import ENGINES
from nmt.text.tokenizer import Tokenizer

WORDS = "a small dog sees red houses two cats sleep here today jürgen 日本".split()
SIZES = ["encoder.hidden_size=16", "decoder.hidden_size=16", "embeddings.size=16"]
WIDE = ["encoder.hidden_size=320", "decoder.hidden_size=320"]  # onnxruntime splits sums of more than 128 terms
TRANSFORMER = ["encoder=transformer", "decoder=transformer", "encoder.layers=1", "decoder.layers=2"]
MODELS = {
    "memory": ["attention=memory"],
    "bahdanau": ["attention=bahdanau"],
    "covariance": ["attention=gated_covariance"],
    "feeding": ["attention=luong", "decoder.input_feeding=true", "encoder.layers=2", "decoder.layers=2", *WIDE],
    "gru": ["attention=luong", "encoder=bigru", "decoder=gru", "decoder.layers=2", *WIDE],
    "ssru": ["attention=memory", "decoder=ssru", "decoder.layers=2", "decoder.hidden_size=320"],
    "mingru": ["attention=memory", "decoder=mingru", "decoder.input_feeding=true", "decoder.output_layer=direct"],
    "transformer": TRANSFORMER,
    "transformer memory": ["attention=stretch_memory", "attention.slots=1", "decoder=transformer", "decoder.layers=1"],
}


@pytest.fixture(scope="session")
def vocabulary() -> Tokenizer:
    """The tokenizer of both sides of the exported models."""
    return Tokenizer.train([" ".join(WORDS)], vocab_size=300)


@pytest.fixture(scope="session")
def exported_model(tmp_path_factory: pytest.TempPathFactory, vocabulary: Tokenizer) -> Callable[[str], Path]:
    """Return a function that gives the folder of an exported model with random weights, by its name in ``MODELS``.

    The processes of pytest-xdist share it.
    """
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder(name: str) -> Path:
        path = base / f"exported-{name}"
        with FileLock(f"{path}.lock"):
            if not (path / "onnx").exists():  # which is written last, and atomically
                config = compose_train([*SIZES, *MODELS[name]])
                config["data"]["lowercase"] = False
                scale = 2.0 if "transformer" in name else 3.0  # more layers: 8 bits must still represent the model
                save_random(
                    path, config, vocabulary, engines=ENGINES, longest_source=200, seed=1, scale=scale, eos_bias=3.0
                )
        return path

    return folder
