"""Freed memory is reused without asking the operating system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nmt import kernels
from nmt.kernels import allocation

pytestmark = pytest.mark.thorough

PAGE_FAULTS = """
import resource, torch
from nmt.kernels.allocation import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        torch.ones(1 << 24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), keep_freed_memory(), faults(), faults())
"""


def test_large_arrays_reuse_memory() -> None:
    """In a separate process, because the setting applies to a whole process."""
    words = subprocess.run([sys.executable, "-c", PAGE_FAULTS], capture_output=True, text=True, check=True)
    before, changed, first, second = words.stdout.split()
    if changed == "False":
        pytest.skip("this C library has no such setting, or NMT_KERNELS=off")
    assert int(second) < min(int(before), int(first)) / 4, words.stdout


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation.sys, "platform", "win32")
    assert allocation.keep_freed_memory() is False
    monkeypatch.setattr(allocation.sys, "platform", "linux")
    monkeypatch.setattr(allocation.ctypes, "CDLL", lambda _: object())
    assert allocation.keep_freed_memory() is False


def test_the_switch_leaves_the_allocator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation.ctypes, "CDLL", lambda _: pytest.fail("the C library was called"))
    with kernels.disabled():
        assert allocation.keep_freed_memory() is False
