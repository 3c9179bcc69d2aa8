"""The table of attacks adds up trials, failures and seconds of each class."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from attack_table import RECORD, Trials, table

pytestmark = pytest.mark.thorough


def report(
    name: str,
    record: dict[str, Any],
    when: Literal["setup", "call"] = "call",
    outcome: Literal["passed", "failed"] = "passed",
) -> pytest.TestReport:
    properties = [(RECORD, {"name": name, "record": record})]
    return pytest.TestReport("test", ("", 0, ""), {}, outcome, None, when, duration=2, user_properties=properties)


def record(default: int = 1) -> dict[str, Any]:
    return {"trials": 0, "default": default, "failures": 0, "measured": {}}


def test_trials_and_failures_are_added() -> None:
    counted, worse = record(), record()
    for part, failures, score in ((counted, 0, 1e-8), (worse, 3, 1e-7)):
        trials = Trials(part)
        trials.add(100, failures=failures)
        trials.measure("difference", score)
    reports = [
        report("b", counted, "setup"),
        report("b", counted),
        report("b", worse, outcome="failed"),
        report("a", record(default=50)),
        report("a", record(), outcome="failed"),
        report("a", record(), "setup", "failed"),  # no trial
    ]
    assert table(reports) == [
        ["a", "51", "2", "6", ""],
        ["b", "200", "3", "6", "difference 1e-07"],
        ["total", "251", "5", "12", ""],
    ]


def test_other_tests_are_not_counted(request: pytest.FixtureRequest) -> None:
    assert not any(key == RECORD for key, _ in request.node.user_properties)


@pytest.mark.attack("the table itself")
def test_trials_are_attached_to_the_test(request: pytest.FixtureRequest, trials: Trials) -> None:
    trials.add(2)
    [entry] = [value for key, value in request.node.user_properties if key == RECORD]
    assert (entry["name"], entry["record"]["trials"]) == ("the table itself", 2)
