"""An attention of another package whose memory has one more field: the one in docs/extending.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from builders import random_model, tiny_config

from nmt.inference.memories import encode_line, translate_encoded
from nmt.inference.memory_file import load_memory, save_memory, weights_fingerprint
from nmt.inference.model_folder import TrainedModel, load_folder, save_folder
from nmt.inference.onnx.export import export
from nmt.inference.translator import Translator
from nmt.testing import check_attention
from nmt.text.tokenizer import Tokenizer

DOCS = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
LINES = ["a small dog sees red houses", "a dog", "red houses see a small small dog"]


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package ``mine`` with the attention of the page."""
    package = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", package)
    [code] = re.findall(r"`mine/gist\.py`:\n\n```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    exec(code, package.__dict__)
    return package


@pytest.fixture(params=["LSTMDecoder", "TransformerDecoder"])
def folder(request: pytest.FixtureRequest, mine: Any, tmp_path: Path) -> Path:
    tokenizer = Tokenizer.train(LINES, vocab_size=275)
    encoder = {"_target_": "nmt.model.LSTMEncoder", "bidirectional": False}
    decoder = {"_target_": f"nmt.model.{request.param}"} | ({"heads": 2} if "Transformer" in request.param else {})
    attention = {"_target_": "mine.GistAttention"}
    config = {**tiny_config(attention, encoder=encoder, decoder=decoder), "trust": ["mine"]}
    model = random_model(config, vocabulary=len(tokenizer), scale=4)
    save_folder(
        tmp_path, TrainedModel(model=model, source=tokenizer, target=tokenizer, config=config, longest_source=40)
    )
    return tmp_path


def test_the_attention_of_the_page_keeps_all_laws(mine: Any) -> None:
    check_attention(mine.GistAttention)


def test_stored_memories_keep_the_field(folder: Path, tmp_path: Path) -> None:
    translator = Translator(load_folder(folder, trust=["mine"]))
    model = weights_fingerprint(translator.trained)
    expected = translator.translate(LINES)
    for piece_length in (None, 2):
        stored = []
        for number, line in enumerate(LINES):
            path = tmp_path / f"{number}.safetensors"
            encoded = encode_line(translator, line, piece_length=piece_length, trace=True)
            save_memory(path, encoded, kind="GistAttention", model=model)
            stored.append(load_memory(path, translator.trained, model=model))
            assert stored[-1].source is not None
            assert type(stored[-1].source.memory).__name__ == "GistMemory"
        for best, other in zip(translate_encoded(translator, stored, alignments=True), expected, strict=True):
            assert best.text == other.text and best.log_prob == pytest.approx(other.log_prob, abs=1e-4)
            np.testing.assert_allclose(best.alignment, other.alignment, atol=1e-4)


@pytest.mark.thorough
def test_exported_graphs_keep_the_field(folder: Path) -> None:
    translator = Translator(load_folder(folder, trust=["mine"]))
    expected = translator.translate(LINES)
    export(translator.trained, folder, engines=["onnx"])
    for best, other in zip(Translator.load(folder, engine="onnx").translate(LINES), expected, strict=True):
        assert best.text == other.text and best.log_prob == pytest.approx(other.log_prob, abs=1e-4)
        np.testing.assert_allclose(best.alignment, other.alignment, atol=1e-4)
