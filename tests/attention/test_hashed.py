"""Hashed attention looks at few states of a long source, finds the nearest ones, and keeps this when exported."""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from nmt.attention import HashedAttention
from nmt.attention.base import Memory
from nmt.inference.onnx.export import ANY, write_graph

STATES, SIZE = 2000, 16


def planted(noise: float) -> tuple[HashedAttention, Tensor, Tensor]:
    """Return an attention, 2,000 random states, and 50 queries: the first states, turned by ``noise``, 20 times longer.

    Queries and keys are not projected.
    """
    torch.manual_seed(1)
    attention = HashedAttention(state_size=SIZE, query_size=SIZE, key_size=SIZE, rounds=4, chunk=16).double()
    with torch.no_grad():
        for layer in (attention.W_k, attention.W_q):
            layer.weight.copy_(torch.eye(SIZE))
    states = nn.functional.normalize(torch.randn(1, STATES, SIZE, dtype=torch.float64), dim=2)
    turned = nn.functional.normalize(states[:, :50] + noise * torch.randn(1, 50, SIZE), dim=2)
    return attention, states, 20 * turned


def recall(attention: HashedAttention, states: Tensor, query: Tensor) -> float:
    """Return the share of queries that see the state they were made from."""
    with torch.no_grad():
        weights = torch.cat([attention.read(q, write(attention, states))[1] for q in query.split(1, dim=1)], dim=1)
    return float((weights[0].diagonal() > 0).double().mean())


def write(attention: HashedAttention, states: Tensor) -> Memory:
    return attention.write(states, torch.ones(states.shape[:2], dtype=torch.bool))


def test_nearest_state_is_found_among_2000() -> None:
    # A look-up sees at most 64 of 2,000 states: by chance it would find 3 %.
    assert recall(*planted(noise=0.0)) == 1
    assert recall(*planted(noise=0.05)) > 0.8


def test_other_states_are_not_read() -> None:
    attention, states, query = planted(noise=0.05)
    query = query[:, :5]
    with torch.no_grad():
        memory = write(attention, states)
        context, weights = attention.read(query, memory)
        assert memory.keys is not None
        unseen = (weights == 0).all(1)[0]
        assert unseen.sum() >= STATES - 5 * 4 * 16
        memory.keys[:, unseen] = torch.nan
        memory.slots[:, unseen] = torch.nan
        torch.testing.assert_close(attention.read(query, memory)[0], context, rtol=0, atol=0)


class _Read(nn.Module):
    def __init__(self, attention: HashedAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, states: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        mask = states.abs().sum(2) > 0
        return self.attention.read(query, self.attention.write(states, mask))


@pytest.mark.thorough
def test_onnxruntime_sorts_and_reads_the_same_states(tmp_path: Path) -> None:
    attention, states, query = planted(noise=0.05)
    module, file = _Read(attention.float()), tmp_path / "read.onnx"
    shapes = ({0: ANY, 1: ANY}, {0: ANY, 1: ANY})
    write_graph(module, (states[:, :9].float(), query[:, :4].float()), shapes, file, ["states", "query"], ["c", "w"])
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for length in (5, 300):
        example = states[:, :length].float(), query[:, :3].float()
        results = session.run(None, dict(zip(["states", "query"], (part.numpy() for part in example), strict=True)))
        with torch.no_grad():
            for expected, result in zip(module(*example), results, strict=True):
                torch.testing.assert_close(torch.from_numpy(result), expected, rtol=1e-4, atol=1e-5)
