"""A table of all attacks: a test marked ``attack("class of attack")`` is counted in it.

A marked test counts as one trial, as many as it reports through the fixture ``trials``, or as many as its parameter
``examples``. ``--attack-table=FILE`` writes the table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MARKER, RECORD = "attack", "attack trials"
COLUMNS = ("attack class", "trials", "failures", "seconds", "measured")


class Trials:
    """Counts the trials of one test."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record

    def add(self, count: int = 1, *, failures: int = 0) -> None:
        """Count trials that are over, ``failures`` of them failed."""
        self._record["trials"] += count
        self._record["failures"] += failures

    def measure(self, name: str, value: float) -> None:
        """Show a number in the table: the largest one of all tests with this class and name."""
        self._record["measured"][name] = max(value, self._record["measured"].get(name, value))


@dataclass
class Row:
    """One line of the table."""

    trials: int = 0
    failures: int = 0
    seconds: float = 0.0
    measured: dict[str, float] = field(default_factory=dict)

    def add(self, report: pytest.TestReport, record: dict[str, Any]) -> None:
        """Add one phase of a test. Setting up takes time too, and may fail."""
        self.seconds += report.duration
        if report.when == "call":
            self.trials += record["trials"] or record["default"]
            self.failures += record["failures"]
            for name, value in record["measured"].items():
                self.measured[name] = max(value, self.measured.get(name, value))
        if report.failed and not record["failures"]:
            self.failures += 1

    def cells(self, name: str) -> list[str]:
        measured = ", ".join(f"{key} {value:.2g}" for key, value in self.measured.items())
        return [name, f"{self.trials:,}", f"{self.failures:,}", f"{self.seconds:.0f}", measured]


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> Trials:
    """Counts the trials of a test that is marked as an attack."""
    return Trials(next(value for key, value in request.node.user_properties if key == RECORD)["record"])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--attack-table", metavar="FILE", help="write the table of attacks as Markdown")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(name): an attack of this class, counted in the table of attacks")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # The report of a test has its user properties, also where pytest-xdist runs it in another process.
    if (marker := item.get_closest_marker(MARKER)) is not None:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        record = {"trials": 0, "default": parameters.get("examples", 1), "failures": 0, "measured": {}}
        item.user_properties.append((RECORD, {"name": marker.args[0], "record": record}))


def table(reports: list[pytest.TestReport]) -> list[list[str]]:
    """Return the cells of each line: the classes in alphabetical order, then their sum."""
    rows: dict[str, Row] = {}
    total = Row()
    for report in reports:
        for key, value in report.user_properties:
            if key == RECORD:
                for row in (rows.setdefault(value["name"], Row()), total):
                    row.add(report, value["record"])
    total.measured.clear()
    return [rows[name].cells(name) for name in sorted(rows)] + [total.cells("total")]


def markdown(lines: list[list[str]]) -> str:
    cells = [list(COLUMNS), ["---"] * len(COLUMNS), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if (file := config.getoption("--attack-table")) is None:
        return
    reports = [
        report
        for outcome in ("passed", "failed", "error", "")  # "" are phases that passed, except for the call
        for report in terminalreporter.stats.get(outcome, [])
        if isinstance(report, pytest.TestReport)
    ]
    lines = table(reports)
    if len(lines) > 1:
        Path(file).write_text(markdown(lines), encoding="utf-8")
