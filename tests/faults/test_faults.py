"""The planted faults fit the code: a refactoring that moves a line has to move its fault too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from faults.plant import ROOT, Fault, load_faults, near_tests

FAULTS = load_faults()
GROUPS = ("data", "attention", "model", "inference", "training", "commands")


def test_each_group_has_ten_faults() -> None:
    assert Counter(fault.group for fault in FAULTS) == dict.fromkeys(GROUPS, 10)
    assert len({fault.id for fault in FAULTS}) == 60


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_fault_can_be_planted(fault: Fault) -> None:
    code = (ROOT / fault.file).read_text("utf-8")
    assert code.count(fault.old) == 1
    compile(code.replace(fault.old, fault.new), fault.file, "exec")
    assert fault.description.endswith(".")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_near_tests_exist(fault: Fault) -> None:
    near = near_tests(fault, ROOT)
    assert near
    assert all(Path(ROOT, file).is_file() for file in near)
