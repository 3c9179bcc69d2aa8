"""Denormal numbers become 0 in the thread that asks for it and in the threads of its operations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nmt import kernels
from nmt.kernels.denormals import flush_denormals

ALL_THREADS = """
import torch
from nmt.kernels.denormals import flush_denormals

torch.set_num_threads(4)
flushes = flush_denormals()
print(flushes, (torch.full((1 << 22,), 1e-30) * 1e-10).count_nonzero().item())
"""


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = has_denormals()
    yield
    torch.set_flush_denormal(not before)


def has_denormals() -> bool:
    return bool(torch.tensor(1e-30) * 1e-10 > 0)


def test_all_threads_compute_with_zeros() -> None:
    """In a separate process, because the threads of this one have started."""
    words = subprocess.run([sys.executable, "-c", ALL_THREADS], capture_output=True, text=True, check=True)
    flushes, nonzero = words.stdout.split()
    if flushes == "False":
        pytest.skip("this CPU cannot, or NMT_KERNELS=off")
    assert int(nonzero) == 0


def test_the_switch_keeps_denormal_numbers() -> None:
    torch.set_flush_denormal(False)
    with kernels.disabled():
        assert flush_denormals() is False and has_denormals()
    if flush_denormals():
        assert not has_denormals()


GRAPH = """
import sys
from pathlib import Path
import numpy as np, onnx
from nmt.inference.onnx.engine import open_session

names = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xyz"]
graph = onnx.helper.make_graph([onnx.helper.make_node("Mul", ["x", "y"], ["z"])], "graph", names[:2], names[2:])
onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), sys.argv[1])
sessions = [open_session(Path(sys.argv[1]), threads) for threads in (1, 4)]
small = [np.full(1 << 22, value, np.float32) for value in (1e-30, 1e-10)]
print(*(np.count_nonzero(session.run(None, {"x": small[0], "y": small[1]})[0]) for session in sessions))
"""


def test_graphs_compute_with_zeros(tmp_path: Path) -> None:
    """In a separate process, because onnxruntime sets a thread once."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot")
    command = [sys.executable, "-c", GRAPH, str(tmp_path / "graph.onnx")]
    words = subprocess.run(command, capture_output=True, text=True, check=True)
    assert words.stdout.split() == ["0", "0"]
