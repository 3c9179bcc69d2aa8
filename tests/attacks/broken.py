"""Trials that fail in every way that the runner has to notice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from runner import MORE_MEMORY, Trial


def broken_trial(folder: Path, kind: str) -> Trial:
    """Return trials whose second one of three fails, as ``kind`` says."""
    actions: dict[str, Callable[[], object]] = {
        "exception": lambda: 1 // 0,
        "crash": os.abort,
        "hang": lambda: time.sleep(60),
        "program": lambda: os.system("true"),
        "file outside": lambda: (folder.parent / "outside").write_text("x"),
        "removed outside": lambda: (folder.parent / "missing").unlink(missing_ok=True),
        "memory": lambda: bytearray(2 * MORE_MEMORY),
        "nothing": lambda: (folder / "inside").write_text("x"),
    }
    count = iter(range(3))

    def trial(_: Random) -> tuple[str, Callable[[], str]]:
        number = next(count)

        def run() -> str:
            if number == 1:
                actions[kind]()
            return "equal"

        return f"number {number}", run

    return trial
