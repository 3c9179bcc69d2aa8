"""Freed memory is reused, and denormal numbers become 0 inside a ``with`` block, in all its threads."""

from __future__ import annotations

import pytest
import torch
from commands.processes import run_python

from nmt.kernels.process import flushed_denormals

pytestmark = pytest.mark.thorough

PAGE_FAULTS = """
import resource, torch
from nmt.kernels.process import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        arrays = torch.ones(1 << 22), torch.ones(1 << 22)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), keep_freed_memory(256), faults(), faults())
"""


def test_large_arrays_reuse_memory() -> None:
    """In a separate process, because the setting applies to a whole process."""
    words = run_python(PAGE_FAULTS, check=True)
    before, changed, _, after = words.stdout.split()
    if changed == "False":
        pytest.skip("this C library has no such setting")
    assert int(after) < int(before) / 4, words.stdout


ALL_THREADS = """
import torch
from nmt.kernels.process import flushed_denormals

torch.set_num_threads(4)
with flushed_denormals():
    print((torch.full((1 << 22,), 1e-30) * 1e-10).count_nonzero().item())
"""


def product() -> float:
    return float(torch.tensor(1e-30) * 1e-10)


@pytest.fixture
def denormals() -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this CPU cannot flush denormal numbers")


@pytest.mark.usefixtures("denormals")
def test_all_threads_compute_with_zeros() -> None:
    """In a separate process, because the threads of this one have started."""
    words = run_python(ALL_THREADS, check=True)
    assert words.stdout == "0\n"


@pytest.mark.usefixtures("denormals")
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
