"""Origin of a run: version and commit of the toolkit, versions of its libraries, and the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from nmt.inference.model_folder import choose_device
from nmt.system.machine import installed, processor_name
from nmt.version import __version__

LIBRARIES = ("torch", "pytorch-lightning", "hydra-core", "sentencepiece", "sacrebleu", "numpy")
GIT_TIMEOUT_S = 10


def provenance(device: str) -> dict[str, Any]:
    """Return the part of ``summary.json`` about toolkit, libraries and machine."""
    return {
        "toolkit": {"version": __version__, **commit(Path(__file__).parents[2])},
        "versions": {"python": platform.python_version(), **{name: installed(name) for name in LIBRARIES}},
        "machine": {
            "system": platform.system(),
            "processor": processor_name(),
            "threads": torch.get_num_threads(),
            "device": device_name(device),
        },
    }


def commit(checkout: Path) -> dict[str, Any]:
    """Return the git commit of ``checkout`` and whether tracked files were changed since.

    Both are None unless the folder itself is a checkout: an installed package may lie inside someone else's.
    """
    described = ""
    if (checkout / ".git").exists():
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        command = ["git", "--no-optional-locks", "-C", str(checkout), "describe", "--always", "--abbrev=40", "--dirty"]
        with suppress(OSError, subprocess.SubprocessError):  # git is missing, or refuses a folder of another user
            described = subprocess.run(
                [*command, "--exclude=*"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
                env=environment,
                timeout=GIT_TIMEOUT_S,
            ).stdout.strip()
    commit, _, dirty = described.partition("-")
    return {"commit": commit, "changed": bool(dirty)} if commit else {"commit": None, "changed": None}


def commit_text(toolkit: Mapping[str, Any]) -> str:
    """Return the commit that ``summary.json`` stores, and whether the code had changes that it lacks."""
    return f"{toolkit.get('commit') or 'unknown'}{' with changes' if toolkit.get('changed') else ''}"


def device_name(name: str) -> str:
    """Return the name of the GPU that the setting ``device`` selects, or ``cpu``."""
    device = choose_device(name)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
