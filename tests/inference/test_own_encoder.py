"""Encoders of another package: the one in docs/extending.md, and one that continues a source part by part."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from builders import random_model, tiny_config
from torch import Tensor, nn

from nmt.attention.base import Attention
from nmt.errors import UserError
from nmt.inference.forced_decoding import forced_links
from nmt.inference.memories import encode_line, require_streaming, translate_encoded
from nmt.inference.memory_file import load_memory, save_memory, weights_fingerprint
from nmt.inference.model_folder import TrainedModel, load_folder, save_folder
from nmt.inference.onnx.export import export
from nmt.inference.translator import Translator
from nmt.model.encoder import Final
from nmt.text.tokenizer import Tokenizer

DOCS = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
LINES = ["a small dog sees red houses", "a dog", "red houses see a small small dog"]
ATTENTIONS = {
    "luong": {"_target_": "nmt.attention.LuongAttention"},
    "covariance": {"_target_": "nmt.attention.CovarianceAttention"},
}


class RunningSum(nn.Module):
    """State s is tanh of the sum of the projected embeddings up to s."""

    final_states = 1
    resumable = True

    def __init__(self, *, embedding_size: int, hidden_size: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.state_size = hidden_size
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(embedding_size, hidden_size)

    def forward(
        self, embedded: Tensor, mask: Tensor, state: Final | None = None, *, resumable: bool = False
    ) -> tuple[Tensor, Final]:
        sums = self.project(embedded).masked_fill(~mask[..., None], 0).cumsum(1)
        if state is not None:
            assert state.cell is not None
            sums = sums + state.cell
        last = sums[:, -1:]
        return torch.tanh(sums), Final(torch.tanh(last), last if resumable or state is not None else None)


@pytest.fixture(params=["convolution", "running sum"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Offer the encoder in a package ``mine``, and return its name there."""
    package: Any = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", package)
    if request.param == "convolution":
        blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
        (code,) = [block for block in blocks if "class ConvolutionalEncoder" in block]
        exec(code, package.__dict__)
        package.ConvolutionalEncoder.__module__ = "mine"
        return "mine.ConvolutionalEncoder"
    package.RunningSum = type("RunningSum", (RunningSum,), {"__module__": "mine"})
    return "mine.RunningSum"


@pytest.fixture(params=ATTENTIONS)
def translator(request: pytest.FixtureRequest, encoder: str, tmp_path: Path) -> Translator:
    """A model with this encoder, saved and loaded again."""
    tokenizer = Tokenizer.train(LINES, vocab_size=275)
    config = {**tiny_config(ATTENTIONS[request.param], encoder={"_target_": encoder}), "trust": ["mine"]}
    model = random_model(config, vocabulary=len(tokenizer), scale=4)
    save_folder(
        tmp_path, TrainedModel(model=model, source=tokenizer, target=tokenizer, config=config, longest_source=40)
    )
    return Translator(load_folder(tmp_path, trust=["mine"]))


def test_translation_is_aligned_and_the_same_in_every_batch(translator: Translator) -> None:
    together = translator.translate(LINES)
    for line, translation in zip(LINES, together, strict=True):
        (alone,) = translator.translate([line])
        assert (alone.text, alone.tokens) == (translation.text, translation.tokens)
        assert translation.alignment is not None
        assert translation.alignment.shape == (len(translation.tokens), len(translation.source_tokens))
        np.testing.assert_allclose(alone.alignment, translation.alignment, atol=1e-5)
    assert len(forced_links(translator, LINES, LINES[::-1])) == 3


def test_stored_memories_give_the_same_translations(translator: Translator, tmp_path: Path) -> None:
    model = weights_fingerprint(translator.trained)
    encoded = []
    for number, line in enumerate(LINES):
        file = tmp_path / f"{number}.safetensors"
        kind = translator.attention.class_name
        save_memory(file, encode_line(translator, line, trace=True), kind=kind, model=model)
        encoded.append(load_memory(file, translator.trained, model=model))
    expected = translator.translate(LINES)
    for translation, direct in zip(translate_encoded(translator, encoded, alignments=True), expected, strict=True):
        assert translation.text == direct.text
        np.testing.assert_allclose(translation.alignment, direct.alignment, atol=1e-5)


def test_source_in_parts_works_or_is_refused_by_name(translator: Translator) -> None:
    attention: Attention = translator.trained.model.attention
    if not translator.trained.model.resumable:
        with pytest.raises(UserError, match=r"^piece_length: .* mine\.ConvolutionalEncoder, needs the whole line"):
            require_streaming(translator)
    elif not attention.streaming:
        with pytest.raises(UserError, match=r"^piece_length: Luong attention .* needs the whole line"):
            require_streaming(translator)
    else:
        require_streaming(translator)
        parts = [encode_line(translator, line, piece_length=2, trace=True) for line in LINES]
        direct = translator.translate(LINES)
        for translation, expected in zip(translate_encoded(translator, parts, alignments=True), direct, strict=True):
            assert translation.text == expected.text
            np.testing.assert_allclose(translation.alignment, expected.alignment, atol=1e-5)


def test_export_is_refused_by_name(translator: Translator, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine\.\w+") as caught:
        export(translator.trained, tmp_path)
    assert "\n" not in str(caught.value) and not (tmp_path / "onnx").exists()
