"""The number of threads: the cores of the process, OMP_NUM_THREADS, and the CPU quota of a container."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands.processes import run_python

from nmt.system import machine
from nmt.system.machine import cpu_quota, usable_cores


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sixteen cores, no OMP_NUM_THREADS."""
    monkeypatch.setattr(machine, "allowed_cores", lambda: 16)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cpu_quota.cache_clear()
    yield
    cpu_quota.cache_clear()


def limit(monkeypatch: pytest.MonkeyPatch, root: Path, **files: str) -> None:
    """Let the control groups under ``root`` contain these files; ``__`` in a name stands for a slash."""
    for name, text in files.items():
        file = root / name.replace("__", "/").replace("_DOT_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(machine, "CGROUPS", root)


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        *(("max 100000", 16), ("150000 100000", 2), ("20000 100000", 1), ("400000 100000", 4), ("9999999 100000", 16)),
        *((strange, 16) for strange in ("", "max", "a b", "1 0", "1 2 3", "\xff")),
    ],
)
def test_quota_of_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, cores: int) -> None:
    limit(monkeypatch, tmp_path, cpu_DOT_max=text)
    assert usable_cores() == cores


@pytest.mark.parametrize(
    ("setting", "cores"), [("3", 3), ("2,4", 2), ("64", 16), ("0", 16), ("many", 16), ("", 16), ("-1", 16)]
)
def test_omp_num_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str, cores: int) -> None:
    limit(monkeypatch, tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert usable_cores() == cores


def test_the_smallest_limit_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit(monkeypatch, tmp_path, cpu_DOT_max="500000 100000")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert usable_cores() == 3


@pytest.mark.thorough
def test_commands_give_torch_the_quota(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000")
    code = f"""
import os, sys, pathlib
from nmt.system import machine
machine.CGROUPS = pathlib.Path({str(tmp_path)!r})
machine.allowed_cores = lambda: 8
from nmt.commands.programs import _respect_quota
_respect_quota()
print(os.environ["OMP_NUM_THREADS"])  # which torch reads
"""
    run = run_python(code)
    assert (run.stdout, run.stderr) == ("1\n", "threads: 1 of 8 cores, because the CPU quota is 1\n")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems count the memory of the parent too")
def test_peak_memory_is_in_millions_of_bytes() -> None:
    code = """
from nmt.system.machine import peak_memory_mb
before = peak_memory_mb()
bytearray(b"x") * 400_000_000
print(peak_memory_mb() - before)
"""
    assert 395 < float(run_python(code).stdout) < 405
