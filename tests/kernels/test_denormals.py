"""Denormal numbers become 0 in the thread that asks for it and in the threads of its operations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

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
    flushes, others = words.stdout.split()
    if flushes == "False":
        pytest.skip("this CPU cannot, or NMT_KERNELS=off")
    assert int(others) == 0


def test_the_switch_keeps_denormal_numbers() -> None:
    torch.set_flush_denormal(False)
    with kernels.disabled():
        assert flush_denormals() is False and has_denormals()
    if flush_denormals():
        assert not has_denormals()
