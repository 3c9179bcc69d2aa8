"""What was freed is there for the next one to ask, without the system's help."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nmt.kernels import allocation

PAGES = """
import resource, torch
from nmt.kernels.allocation import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        torch.ones(1 << 24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), keep_freed_memory(), faults(), faults())
"""


def test_large_arrays_are_not_mapped_anew() -> None:
    """In a process of its own, for it is the process that is told."""
    words = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True).stdout.split()
    if words[1] == "False":
        pytest.skip("this C library cannot be told")
    mapped, _, first, again = (int(word.replace("True", "1")) for word in words)
    assert again < min(mapped, first) / 4, words


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation.sys, "platform", "win32")
    assert allocation.keep_freed_memory() is False
    monkeypatch.setattr(allocation.sys, "platform", "linux")
    monkeypatch.setattr(allocation.ctypes, "CDLL", lambda _: object())
    assert allocation.keep_freed_memory() is False
