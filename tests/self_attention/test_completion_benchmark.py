"""The network and the records of benchmarks/papers/completion.py."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.measurements import Measurements
from benchmarks.papers import completion
from benchmarks.papers.completion_network import KINDS, Network, most_likely, new_network

pytestmark = pytest.mark.thorough


@pytest.fixture(params=KINDS)
def network(request: pytest.FixtureRequest) -> Network:
    return new_network(request.param, symbols=5, seed=1).double()


def test_generation_equals_reading_the_whole_sequence_again_at_each_step(network: Network) -> None:
    seen = torch.randint(5, (3, 4))
    generated = torch.stack(list(islice(network.generate(seen, most_likely), 6)), dim=1)
    sequences = seen
    for _ in range(6):
        sequences = torch.cat([sequences, network(sequences)[:, -1:].argmax(-1)], dim=1)
    assert generated.tolist() == sequences[:, 4:].tolist()


def test_a_known_cell_is_not_measured_again(tmp_path: Path) -> None:
    calls = []

    def right(kind: str, seed: int) -> dict[str, Any] | None:
        calls.append((kind, seed))
        return {"right": 0.5} if kind == "softmax" else None

    for _ in range(2):
        records = Measurements(tmp_path / "records" / "completion.jsonl")
        for kind in ("softmax", "absent"):
            records.measure(right, task="copy", kind=kind, seed=1)
    assert calls == [("softmax", 1), ("absent", 1), ("absent", 1)]
    assert [record["right"] for record in records.find(task="copy")] == [0.5]


def test_digits_are_left_out_without_scikit_learn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert completion.digits("softmax", seed=1, updates=1) is None
    assert "pip install scikit-learn" in capsys.readouterr().out
