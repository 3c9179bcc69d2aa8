"""Damaged and forged files are refused in one line, or give a valid result; they never crash, hang, or run code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from runner import run_trials
from stored_kinds import KINDS, file_trial, make

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny files of every stored kind. Only for copying."""
    folder = tmp_path_factory.mktemp("stored")
    make(folder)
    return folder


def files_beside(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.parent.rglob("*") if file.is_file() and folder not in file.parents)
    return {str(file): file.read_bytes() for file in files}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("count", [40, pytest.param(3000, marks=pytest.mark.slow)])
def test_damaged_file(name: str, count: int, stored: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stored, tmp_path / "attacked")
    (tmp_path / "text.src").write_text("another program's file\n")
    before = files_beside(folder)
    results, problems = run_trials(file_trial, (folder, name), count)
    assert problems == []
    assert results.total() == count and results["refused"] + results["other"] > count / 4
    assert files_beside(folder) == before
