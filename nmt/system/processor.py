"""The processor: its name, and the vector instructions that the products of a model profit from."""

from __future__ import annotations

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
FLAGS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx_vnni": "VNNI",
    "avx512_vnni": "VNNI",
    "avx512_bf16": "bfloat16",
    "amx_tile": "AMX",
    "asimd": "NEON",
    "asimddp": "dot products",
    "i8mm": "8-bit products",
}
"""The names of flags in /proc/cpuinfo, on x86 and ARM."""


def processor_name() -> str:
    """Return the processor's name; Linux reports it in a file only."""
    return _entry("model name") or platform.processor() or platform.machine()


def instruction_sets() -> list[str] | None:
    """Return the vector instructions by name, such as AVX2; None where the system has no list of them."""
    flags = _entry("flags") or _entry("Features")
    if flags is None:
        return None
    present = set(flags.split())
    return list(dict.fromkeys(name for flag, name in FLAGS.items() if flag in present))


def _entry(key: str) -> str | None:
    """Return the first value of ``key`` in /proc/cpuinfo; None if it is missing."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    return next((value for name, _, value in (line.partition(": ") for line in lines) if name.strip() == key), None)
