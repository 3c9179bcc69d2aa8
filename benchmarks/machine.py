"""Where and with what a benchmark ran: printed above each table and kept in each results file."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("torch", "pytorch-lightning", "sentencepiece", "sacrebleu", "numpy")


def provenance() -> list[str]:
    """Command, commit, machine and versions, a line each."""
    return [
        f"command: python {' '.join([Path(sys.argv[0]).name, *sys.argv[1:]])}",
        f"commit: {_commit()}",
        f"machine: {_processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()}",
        f"versions: Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    ]


def most_resident(process: int) -> float:
    """The most memory in MB that a running process has held, by Linux' account of it; what forked it does not count."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def writable(place: str) -> Path:
    """The file or folder, with a folder made for it: before the work, since afterwards would be too late to fail."""
    path = Path(place)
    (path.parent if path.suffix else path).mkdir(parents=True, exist_ok=True)
    return path


def _commit() -> str:
    """The commit that ran, ``+`` where the tree had changes."""
    here = Path(__file__).parent
    git = ["git", "-C", str(here)]
    try:
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "status", "--porcelain", "nmt", "conf"], capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit.stdout.strip() + ("+" if changes.stdout.strip() else "")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
