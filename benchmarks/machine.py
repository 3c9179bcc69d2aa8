"""Conditions of a benchmark: command, commit, machine, versions, and the memory of a process."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from nmt.system.machine import processor_name

PACKAGES = ("torch", "pytorch-lightning", "sentencepiece", "sacrebleu", "numpy", "onnxruntime")


def provenance() -> list[str]:
    """Return command, commit, machine and versions, one line each."""
    return [
        f"command: python {shlex.join(sys.orig_argv[1:])}",
        f"commit: {commit()}",
        f"machine: {processor_name()}, {len(os.sched_getaffinity(0))} cores, {platform.system()}",
        f"versions: Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    ]


def resident_memory(process: int | str = "self") -> int:
    """Return the resident memory of a process in bytes. Linux only: raises OSError elsewhere."""
    return _memory(process, "VmRSS")


def peak_memory(process: int | str = "self") -> int:
    """Return the highest resident memory of a running process in bytes, without its parent's. Linux only."""
    return _memory(process, "VmHWM")


def _memory(process: int | str, field: str) -> int:
    """Return a field of /proc/PROCESS/status in bytes; 0 if the process has just ended and reports none."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), 0)


def commit() -> str:
    """Return the short commit hash; a trailing ``+`` means uncommitted changes in nmt/ or conf/."""
    git = ["git", "-C", str(Path(__file__).parents[1])]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "status", "--porcelain", "nmt", "conf"], capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changes.stdout.strip() else "")
