"""Parts of models from another package: those of docs/extending.md, and an encoder that continues."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from builders import refusal, save_random, tiny_config
from torch import Tensor, nn, tanh

from nmt.inference.forced_decoding import forced_links
from nmt.inference.memories import encode_line, load_memories, save_memories, translate_encoded
from nmt.inference.model_folder import load_folder
from nmt.inference.onnx.export import export
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.model.encoder import Final
from nmt.testing import check_attention
from nmt.text.tokenizer import Tokenizer

DOCS = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
LINES = ["a small dog sees red houses", "a dog", "red houses see a small small dog"]
LUONG, COVARIANCE = ({"_target_": f"nmt.attention.{name}Attention"} for name in ("Luong", "Covariance"))
LSTM = {"_target_": "nmt.model.LSTMEncoder", "bidirectional": False}
GIST, CONVOLUTION, SUM, MINIMAL = (
    {"_target_": f"mine.{name}"} for name in ("GistAttention", "ConvolutionalEncoder", "RunningSum", "MinimalDecoder")
)
CASES: dict[str, tuple[Any, ...]] = {  # attention, encoder and decoder
    "convolution, luong": (LUONG, CONVOLUTION, None),
    "running sum, luong": (LUONG, SUM, None),
    "running sum, covariance": (COVARIANCE, SUM, None),
    "LSTM, gist": (GIST, LSTM, None),
    "Transformer, gist": (GIST, LSTM, {"_target_": "nmt.model.TransformerDecoder", "heads": 2}),
    "LSTM, covariance, decoder": (COVARIANCE, LSTM, MINIMAL),
    "convolution, gist, decoder": (GIST, CONVOLUTION, MINIMAL),
}
REFUSED = ("convolution, luong", "running sum, luong", "convolution, gist, decoder")  # to encode in parts


class RunningSum(nn.Module):
    """State s is tanh of the sum of the projected embeddings up to s."""

    resumable = True

    def __init__(self, *, embedding_size: int, hidden_size: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.state_size = hidden_size
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(embedding_size, hidden_size)

    def forward(self, embedded: Tensor, mask: Tensor, state: Final | None = None) -> tuple[Tensor, Final]:
        sums = self.project(embedded).masked_fill(~mask[..., None], 0).cumsum(1)
        if state is not None:
            assert state.cell is not None
            sums = sums + state.cell
        last = sums[:, -1:]
        return tanh(sums), Final(tanh(last), last)


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package ``mine`` with the parts."""
    package: Any = ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", package)
    for block in re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL):
        if re.search("class (ConvolutionalEncoder|GistAttention|MinimalDecoder)", block):
            exec(block, package.__dict__)
    package.ConvolutionalEncoder.__module__ = "mine"
    package.RunningSum = type("RunningSum", (RunningSum,), {"__module__": "mine"})
    return package


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def translator(case: str, mine: Any, tmp_path: Path) -> Translator:
    """A model with these parts, saved and loaded again."""
    attention, encoder, decoder = CASES[case]
    config = {**tiny_config(attention, encoder=encoder, decoder=decoder), "trust": ["mine"]}
    save_random(tmp_path, config, Tokenizer.train(LINES, vocab_size=275), scale=4)
    return Translator(load_folder(tmp_path, trust=["mine"]))


def test_the_attention_of_the_page_keeps_all_laws(mine: Any) -> None:
    check_attention(mine.GistAttention)


def assert_equal(actual: list[Translation], expected: list[Translation]) -> None:
    for best, other in zip(actual, expected, strict=True):
        assert (best.text, best.tokens) == (other.text, other.tokens)
        assert best.log_prob == pytest.approx(other.log_prob, abs=1e-4)
        np.testing.assert_allclose(best.alignment, other.alignment, atol=1e-4)


def test_translation_is_the_same_in_every_batch_and_from_stored_memories(
    case: str, translator: Translator, tmp_path: Path
) -> None:
    expected = translator.translate(LINES)
    assert_equal([translator.translate([line])[0] for line in LINES], expected)
    assert len(forced_links(translator, LINES, LINES[::-1])) == 3
    if case in REFUSED:
        assert refusal(encode_line, translator, LINES[0], piece_length=2).startswith("piece_length")
    for piece_length in (None,) if case in REFUSED else (None, 2):
        lines = [encode_line(translator, line, piece_length=piece_length, trace=True) for line in LINES]
        save_memories(tmp_path / "lines", lines, translator)
        stored = load_memories(tmp_path / "lines", translator)
        assert_equal(translate_encoded(translator, stored, alignments=True), expected)


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["convolution, gist, decoder"])
def test_graphs_give_the_same_translations(translator: Translator, tmp_path: Path) -> None:
    export(translator.trained, tmp_path, engines=["onnx"])
    assert_equal(Translator.load(tmp_path, engine="onnx").translate(LINES), translator.translate(LINES))
