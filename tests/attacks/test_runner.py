"""The runner of trials notices each way in which a trial can fail."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from broken import broken_trial
from runner import run_trials

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("exception", "number 1: ZeroDivisionError"),
        ("crash", "number 1: exit code -6"),
        ("hang", "number 1: no result after 5 s"),
        ("program", "number 1: os.system"),
        ("file outside", "number 1: open .*outside"),
        ("removed outside", "number 1: os.remove .*missing"),
        pytest.param(
            "memory", "number 1: MemoryError", marks=pytest.mark.skipif(sys.platform != "linux", reason="no limit")
        ),
    ],
)
def test_failed_trials_are_noticed(kind: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    outcome = run_trials(broken_trial, (tmp_path / "folder", kind), 3, limit_s=5)
    # The child that continues after a crash counts from 0 again.
    assert outcome.trials == 3 and len(outcome.problems) == 1
    assert re.search(problem, outcome.problems[0])


def test_trials_without_failures(tmp_path: Path) -> None:
    outcome = run_trials(broken_trial, (tmp_path, "nothing"), 3)
    assert (outcome.results, outcome.problems) == ({"equal": 3}, [])
