"""Lock a run's folder, so that only one process at a time trains into it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from nmt.errors import UserError
from nmt.files.locks import lock_folder, own_folder

BUSY = "is training into it; wait until it ends, or choose another name="
FIX = "choose another name="


def lock_run(folder: Path, *, must_stay: bool = False) -> AbstractContextManager[None]:
    """Hold the lock of a run's folder while the block runs. Raises UserError if another process holds it."""
    return lock_folder(folder, busy=BUSY, must_stay=must_stay)


def deleted_run(folder: Path) -> UserError:
    """Return the error for a run whose folder is gone while it trains."""
    problem = "was deleted or moved during training, so its model and checkpoints are lost; train again"
    return UserError(f"{folder}: {problem}")


def own_runs(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of the folder of a sweep or comparison. Raises UserError if it may be someone else's."""
    return own_folder(folder, busy=BUSY, fix=FIX)
