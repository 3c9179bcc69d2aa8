"""Exported models that several tests share, because an export takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from builders import BAHDANAU, MEMORY, save_random, tiny_config

from nmt.inference.onnx.export import ENGINES
from nmt.text.tokenizer import Tokenizer

WORDS = "a small dog sees red houses two cats sleep here today jürgen 日本".split()
ATTENTIONS: dict[str, dict[str, Any]] = {
    "bahdanau": BAHDANAU,
    "memory": MEMORY,
    "covariance": {"_target_": "nmt.attention.CovarianceAttention", "gate": "value"},
}


@pytest.fixture(scope="session")
def vocabulary() -> Tokenizer:
    """The tokenizer of both sides of the exported models."""
    return Tokenizer.train([" ".join(WORDS)], vocab_size=300)


@pytest.fixture(scope="session")
def exported_model(tmp_path_factory: pytest.TempPathFactory, vocabulary: Tokenizer) -> Callable[[str], Path]:
    """Return a function that gives the folder of an exported model with this attention and random weights."""

    @cache
    def folder(attention: str) -> Path:
        path = tmp_path_factory.mktemp(attention)
        config = tiny_config(ATTENTIONS[attention], size=16)
        save_random(path, config, vocabulary, engines=ENGINES, seed=1, scale=3.0, eos_bias=3.0)
        return path

    return folder
