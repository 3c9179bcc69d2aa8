"""The runner of trials notices each way in which a trial can fail."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from runner import MORE_MEMORY, Trial, run_trials

pytestmark = pytest.mark.thorough


def broken_trial(folder: Path, kind: str) -> Trial:
    """Return trials whose second one of three fails, as ``kind`` says."""
    actions: dict[str, Callable[[], object]] = {
        "exception": lambda: 1 // 0,
        "crash": os.abort,
        "hang": lambda: time.sleep(60),
        "program": lambda: os.system("true"),
        "file outside": lambda: (folder.parent / "outside").write_text("x"),
        "memory": lambda: bytearray(2 * MORE_MEMORY),
        "nothing": lambda: (folder / "inside").write_text("x"),
    }
    count = iter(range(3))

    def trial(_: Random) -> tuple[str, Callable[[], str]]:
        number = next(count)
        return f"number {number}", lambda: "equal" if number == 1 and actions[kind]() is None else "equal"

    return trial


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("nothing", None),
        ("exception", "number 1: ZeroDivisionError"),
        ("crash", "number 1: exit code -6"),
        ("hang", "number 1: no result after 5 s"),
        ("program", "number 1: os.system"),
        ("file outside", "number 1: open .*outside"),
        ("memory", "number 1: MemoryError"),
    ],
)
def test_failed_trials_are_noticed(kind: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    outcome = run_trials(broken_trial, (tmp_path / "folder", kind), 3, limit_s=5)
    # The child that continues after a crash counts from 0 again.
    assert outcome.trials == 3 and len(outcome.problems) == (problem is not None)
    assert problem is None or re.search(problem, outcome.problems[0])
