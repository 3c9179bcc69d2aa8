"""Denormal numbers become 0 inside a ``with`` block, in its thread and in the threads of its operations."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from nmt import kernels
from nmt.kernels.denormals import flushed_denormals

pytestmark = pytest.mark.thorough

ALL_THREADS = """
import torch
from nmt.kernels.denormals import flushed_denormals

torch.set_num_threads(4)
with flushed_denormals():
    print((torch.full((1 << 22,), 1e-30) * 1e-10).count_nonzero().item())
"""


def product() -> float:
    return float(torch.tensor(1e-30) * 1e-10)


@pytest.fixture(autouse=True)
def _supported() -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this CPU cannot flush denormal numbers")


def test_all_threads_compute_with_zeros() -> None:
    """In a separate process, because the threads of this one have started."""
    words = subprocess.run([sys.executable, "-c", ALL_THREADS], capture_output=True, text=True, check=True)
    assert words.stdout == "0\n"


def test_the_setting_ends_with_the_block() -> None:
    with flushed_denormals():
        assert product() == 0
        with flushed_denormals():
            pass
        assert product() == 0
    assert product() > 0
    with pytest.raises(KeyError), flushed_denormals():
        raise KeyError
    assert product() > 0


def test_the_switch_keeps_denormal_numbers() -> None:
    with kernels.disabled(), flushed_denormals():
        assert product() > 0
