"""Damaged and forged files are refused in one line, or give a valid result; they never crash, hang, or run code."""

from __future__ import annotations

from pathlib import Path

import pytest
from attack_table import Trials
from runner import run_trials
from stored_kinds import KINDS, file_trial

pytestmark = pytest.mark.thorough


def files_beside(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.parent.rglob("*") if file.is_file() and folder not in file.parents)
    return {str(file): file.read_bytes() for file in files}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.attack(f"damaged {name}")) for name in KINDS])
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_file(name: str, count: int, folder: Path, trials: Trials) -> None:
    if "right" in name:  # most of these files are read to the end, which takes 10 ms
        count = min(count, 2000)
    (folder.parent / "text.src").write_text("another program's file\n")
    before = files_beside(folder)
    outcome = run_trials(file_trial, (folder, name), count)
    trials.add(outcome.trials, failures=len(outcome.problems))
    print(f"{name}: {outcome.results}")
    assert outcome.problems == []
    assert outcome.trials == count and outcome.results.get("refused", 0) + outcome.results.get("other", 0) > count / 4
    assert files_beside(folder) == before
