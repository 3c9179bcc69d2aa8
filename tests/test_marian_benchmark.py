"""benchmarks/quality/marian.py gives Marian the pieces of our models, and CTranslate2 what Marian computes."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.quality import marian, marian_peer
from benchmarks.quality.ct2_transformer import arrays
from benchmarks.quality.students import TRANSFORMER
from nmt.config.compose import train_config
from nmt.files.atomic import write_lines
from nmt.model.build import build_model
from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.thorough
LINES = ['Two men, in "hats".', "A \\ dog: it runs", "", "Ein Mädchen läuft"]


def test_pieces_spell_the_lower_cased_text_and_are_in_the_vocabulary(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([line.lower() for line in LINES[:3]] * 9, vocab_size=300)
    model = tmp_path / "students" / "teacher" / "data" / "source.model"
    model.parent.mkdir(parents=True)
    model.write_bytes(tokenizer.to_bytes())
    for part in ("train", "valid"):
        for language in ("en", "de"):
            write_lines(tmp_path / f"{part}.{language}.gz", LINES)
    args = Namespace(runs=tmp_path / "runs", students=tmp_path / "students", data=tmp_path, corpus="captions")
    folder = marian.write_pieces("original", args)
    entries = (folder / "vocab.yml").read_text("utf-8").splitlines()
    names = [json.loads(entry.rpartition(":")[0]) for entry in entries]
    assert [entry.rpartition(": ")[2] for entry in entries] == [str(number) for number in range(len(names))]
    assert names[:2] == ["</s>", "<unk>"] and len(set(names)) == len(names) == len(tokenizer) - 2
    written = (folder / "train.src").read_text("utf-8").splitlines()
    assert {piece for line in written for piece in line.split()} <= {*names}
    _, decode = marian_peer.pieces(folder)
    assert [decode(line.split()) for line in written] == [line.lower() for line in LINES]


def test_positions_are_those_of_marian(tmp_path: Path) -> None:
    settings = np.frombuffer(b"type: transformer\n\0\0\0", dtype=np.int8)
    np.savez(tmp_path / "model.npz", Wemb=np.zeros((3, 6)), **{"special:model.yml": settings})
    model = marian.with_positions(tmp_path / "model.npz")
    assert model["special:model.yml"].tobytes() == b"type: transformer\n\0"
    for position in (0, 1, 7):
        angles = [position * math.exp(-i * math.log(10_000) / 2) for i in range(3)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert np.allclose(model["Wpos"][position], expected, atol=1e-6)


def test_weights_for_ctranslate2_compute_what_the_transformer_computes() -> None:
    torch.manual_seed(0)
    sizes = [f"{part}.hidden_size=16" for part in ("encoder", "decoder")]
    config = train_config([*sizes, "embeddings.size=16", "decoder=transformer", "attention=multi_head", *TRANSFORMER])
    model = build_model(config, source_vocabulary=30, target_vocabulary=30, longest_source=9).eval()
    for weight in model.parameters():  # biases and gains begin as 0 and 1, and could be exchanged
        torch.nn.init.normal_(weight, std=0.5)
    sources, targets = [7, 9, 25, 4, 3], [2, 6, 12, 8]
    ids = torch.tensor([sources])
    memory, final = model.encode(ids, ids > 0)
    features, _ = model.decoder.features(torch.tensor([targets]), model.decoder.init(final, memory), memory)
    logits = NaiveTransformer(arrays(model), heads=4).logits(sources, targets)
    assert np.allclose(logits, model.decoder.output(features)[0].detach().numpy(), atol=1e-4)


class NaiveTransformer:
    """A Transformer for one sentence, as CTranslate2 computes it, with normalisation before each part."""

    def __init__(self, weights: dict[str, np.ndarray], heads: int) -> None:
        self.weights, self.heads = weights, heads

    def logits(self, sources: list[int], targets: list[int]) -> np.ndarray:
        states = self.embed("encoder", "embeddings/0", sources)
        for layer in range(4):
            states = self.layer(f"encoder/layer/{layer}", states, np.ones((len(sources), len(sources)), dtype=bool))
        encoded = self.norm("encoder/layer_norm", states)
        states = self.embed("decoder", "embeddings", targets)
        for layer in range(2):
            causal = np.tril(np.ones((len(targets), len(targets)), dtype=bool))
            states = self.layer(f"decoder/layer/{layer}", states, causal, encoded)
        return self.linear("decoder/projection", self.norm("decoder/layer_norm", states))

    def embed(self, part: str, table: str, ids: list[int]) -> np.ndarray:
        rows = self.weights[f"{part}/{table}/weight"][ids]
        return rows * math.sqrt(rows.shape[1]) + self.weights[f"{part}/position_encodings/encodings"][: len(ids)]

    def layer(self, name: str, states: np.ndarray, mask: np.ndarray, encoded: np.ndarray | None = None) -> np.ndarray:
        normal = self.norm(f"{name}/self_attention/layer_norm", states)
        queries, keys, values = np.split(self.linear(f"{name}/self_attention/linear/0", normal), 3, axis=1)
        mixed = self.attend(queries, keys, values, mask)
        states = states + self.linear(f"{name}/self_attention/linear/1", mixed)
        if encoded is not None:
            queries = self.linear(f"{name}/attention/linear/0", self.norm(f"{name}/attention/layer_norm", states))
            keys, values = np.split(self.linear(f"{name}/attention/linear/1", encoded), 2, axis=1)
            mixed = self.attend(queries, keys, values, np.ones((len(states), len(encoded)), dtype=bool))
            states = states + self.linear(f"{name}/attention/linear/2", mixed)
        inner = self.linear(f"{name}/ffn/linear_0", self.norm(f"{name}/ffn/layer_norm", states))
        return states + self.linear(f"{name}/ffn/linear_1", inner.clip(min=0))

    def attend(self, queries: np.ndarray, keys: np.ndarray, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        outputs = []
        split = (np.split(part, self.heads, axis=1) for part in (queries, keys, values))
        for query, key, value in zip(*split, strict=True):
            scores = np.where(mask, query @ key.T / math.sqrt(query.shape[1]), -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            outputs.append(weights / weights.sum(axis=1, keepdims=True) @ value)
        return np.concatenate(outputs, axis=1)

    def linear(self, name: str, states: np.ndarray) -> np.ndarray:
        return states @ self.weights[f"{name}/weight"].T + self.weights.get(f"{name}/bias", 0)

    def norm(self, name: str, states: np.ndarray) -> np.ndarray:
        centred = states - states.mean(axis=1, keepdims=True)
        normal = centred / np.sqrt(centred.var(axis=1, keepdims=True) + 1e-5)
        return normal * self.weights[f"{name}/gamma"] + self.weights[f"{name}/beta"]
