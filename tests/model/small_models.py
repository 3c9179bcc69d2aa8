"""Tiny models of both architectures in float64, with sources and targets of ragged lengths."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from builders import LUONG, MEMORY, random_model, self_attention, tiny_config
from torch import Tensor

from nmt.model import Seq2Seq

ATTENTIONS: dict[str, dict[str, Any]] = {
    "none": {"_target_": "nmt.attention.NoAttention"},
    "bahdanau": {"_target_": "nmt.attention.BahdanauAttention", "attention_size": 5},
    "luong": LUONG,
    "memory": MEMORY,
    "covariance": {"_target_": "nmt.attention.CovarianceAttention"},
    "multi_head": {
        "_target_": "nmt.attention.MultiHeadAttention",
        "heads": 2,
        "inner": {"_target_": "nmt.attention.KernelAttention"},
    },
    "paper": {
        "_target_": "nmt.attention.MultiHeadAttention",
        "heads": 2,
        "inner": {"_target_": "nmt.attention.LuongAttention", "score": "scaled_dot"},
    },
    "located_memory": {"_target_": "nmt.attention.LocatedMemoryAttention", "slots": 3},
}
KINDS = {
    "softmax": {"self_attention": self_attention()},
    "elu": {"self_attention": self_attention("linear", feature_map="elu")},
    "scaling": {"self_attention": self_attention("linear", feature_map="scaling")},
}
LENGTHS = (5, 1, 3)
SHAPES: list[dict[str, Any]] = [
    {"layers": layers, "input_feeding": feeding, "output_layer": output}
    for layers, feeding, output in itertools.product((1, 2), (False, True), ("attentional", "direct"))
]
SHAPES += [{"unit": unit, **SHAPES[index]} for unit in ("GRU", "SSRU", "MinGRU") for index in (2, 4, 7)]


def recurrent(
    attention: str = "bahdanau",
    *,
    unit: str = "LSTM",
    bidirectional: bool = True,
    encoder_layers: int = 2,
    **decoder: Any,
) -> dict[str, Any]:
    sizes = {"hidden_size": 6, "layers": encoder_layers, "bidirectional": bidirectional}
    return tiny_config(
        ATTENTIONS[attention],
        embeddings=4,
        shared=False,
        encoder={"_target_": f"nmt.model.{'GRU' if unit == 'GRU' else 'LSTM'}Encoder", **sizes},
        decoder={"_target_": f"nmt.model.{unit}Decoder", **decoder},
    )


def transformers(
    kind: str = "softmax", attention: str = "luong", *, encoder: bool = True, decoder: bool = True
) -> dict[str, Any]:
    """Return the configuration of a Transformer; halves that are not wanted are LSTMs."""
    block = {"hidden_size": 8, "layers": 2, "heads": 2, "feedforward_size": 12, **KINDS[kind]}
    return tiny_config(
        ATTENTIONS[attention],
        embeddings=6,
        shared=False,
        encoder={"_target_": "nmt.model.TransformerEncoder", **block} if encoder else {},
        decoder={"_target_": "nmt.model.TransformerDecoder", **block} if decoder else {},
    )


def build(config: dict[str, Any]) -> Seq2Seq:
    return random_model(config, vocabulary=(11, 9), longest_source=6, seed=7).double()


def sources(padding: int = 0) -> tuple[Tensor, Tensor]:
    """Return ids and mask."""
    generator = torch.Generator().manual_seed(3)
    size = max(LENGTHS) + padding
    ids = torch.randint(4, 11, (len(LENGTHS), size), generator=generator)
    return ids, torch.arange(size) < torch.tensor(LENGTHS)[:, None]


def targets(length: int = 4) -> Tensor:
    return torch.randint(4, 9, (len(LENGTHS), length), generator=torch.Generator().manual_seed(5))


def by_steps(model: Seq2Seq, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits (B, T, V) and read weights (B, T, R), computed step by step."""
    memory, final = model.encode(*sources())
    state = model.decoder.init(final, memory)
    results = []
    for ids in target.split(1, dim=1):
        logits, state, weights = model.decoder.step(ids, state, memory)
        results.append((logits, weights))
    logits, weights = (torch.cat(column, dim=1) for column in zip(*results, strict=True))
    return logits, weights
