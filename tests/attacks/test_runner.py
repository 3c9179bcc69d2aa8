"""The runner of trials notices each way in which a trial can fail."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest
from runner import MORE_MEMORY, Trial, run_trials

pytestmark = pytest.mark.thorough


def broken_trial(folder: Path, kind: str) -> Trial:
    """Return trials whose second one fails, as ``kind`` says."""
    actions: dict[str, Callable[[], object]] = {
        "": lambda: (folder / "inside").write_text("x"),
        "ZeroDivisionError": lambda: 1 // 0,
        "exit code -6": os.abort,
        "no result after": lambda: time.sleep(60),
        "os.system": lambda: os.system("true"),
        "open": lambda: (folder.parent / "outside").write_text("x"),
        "MemoryError": lambda: bytearray(2 * MORE_MEMORY),
    }
    numbers = count()

    def trial(_: Random) -> tuple[str, Callable[[], str]]:
        number = next(numbers)
        return f"{number}", lambda: str(number == 1 and actions[kind]() is None)

    return trial


@pytest.mark.parametrize(
    "kind", ["", "ZeroDivisionError", "exit code -6", "no result after", "os.system", "open", "MemoryError"]
)
def test_failed_trials_are_noticed(kind: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    results, problems = run_trials(broken_trial, (tmp_path / "folder", kind), 3, limit_s=3)
    if not kind:
        assert results.total() == 3 and not problems
    else:
        assert results.total() < 3 and [problem.startswith(f"1: {kind}") for problem in problems] == [True]
