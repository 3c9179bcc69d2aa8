"""Odd values of every setting of every command are accepted, or refused in one line, before any work starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from attack_table import Trials
from runner import run_trials
from settings import COMMANDS, settings_trial

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.attack(f"odd settings, nmt-{name}")) for name in ("train", *COMMANDS)],
)
@pytest.mark.parametrize("count", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_odd_settings(name: str, count: int, folder: Path, trials: Trials) -> None:
    outcome = run_trials(settings_trial, (folder, name), count * 4 if name == "train" else count)
    trials.add(outcome.trials, failures=len(outcome.problems))
    print(f"nmt-{name}: {outcome.results}")
    assert outcome.problems == []
    assert outcome.results["refused"] > 0
    assert outcome.results.get("other", 0) > 0 or count < 100
