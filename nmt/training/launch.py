"""How this process was started: alone, or as one of several by torchrun or Slurm."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from nmt.errors import UserError
from nmt.training.settings import Train

INTERACTIVE = ("bash", "interactive")  # names of Slurm jobs in which people start programs by hand


@dataclass(frozen=True)
class Launch:
    """One of ``world_size`` processes that train together: its ``rank``, and its number on its node.

    ``identifier`` names what started the processes. It stays the same when they are started again.
    """

    launcher: str
    identifier: str
    restarts: int
    rank: int
    world_size: int
    local_rank: int
    local_size: int

    @property
    def is_named(self) -> bool:
        """Whether ``identifier`` belongs to this launch alone."""
        return self.identifier not in ("torchrun none", "slurm None")

    @property
    def nodes(self) -> int:
        return self.world_size // self.local_size


def detect_launch(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """Return how torchrun or ``srun`` started this process, or None if neither did.

    The commands of a batch script of Slurm are not started by ``srun``; they are one process each.
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        numbers = [_number(environment, name) for name in names]
        restarts = int(environment.get("TORCHELASTIC_RESTART_COUNT", 0))
        return Launch("torchrun", f"torchrun {environment['TORCHELASTIC_RUN_ID']}", restarts, *numbers)
    if int(environment.get("SLURM_STEP_NUM_TASKS", 1)) > 1 and environment.get("SLURM_JOB_NAME") not in INTERACTIVE:
        if "SLURM_NTASKS_PER_NODE" not in environment:
            raise UserError("SLURM_NTASKS_PER_NODE: not set; give --ntasks-per-node to sbatch or srun")
        names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")
        numbers = [_number(environment, name) for name in names]
        restarts = int(environment.get("SLURM_RESTART_COUNT", 0))
        _, tasks, _, per_node = numbers
        if tasks % per_node:
            raise UserError(
                f"SLURM_NTASKS={tasks}: not a multiple of SLURM_NTASKS_PER_NODE={per_node}; give srun --ntasks and "
                "--ntasks-per-node that fit together"
            )
        return Launch("srun", f"slurm {environment.get('SLURM_JOB_ID')}", restarts, *numbers)
    return None


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        raise UserError(f"{name}={environment.get(name)}: must be a number; start with torchrun or srun") from None


def is_first() -> bool:
    """Return whether this process is the one that writes files and messages: the only one, or rank 0."""
    launch = detect_launch()
    return launch is None or launch.rank == 0


def require_device(config: Train, launch: Launch | None) -> None:
    """Raise UserError if several processes would train on the one device that ``device`` names."""
    if launch is not None and ":" in config.device:
        raise UserError(f"device={config.device}: each process has its own device; set device=cuda")
