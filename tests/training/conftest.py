"""A separate folder for each run. Also puts ``tiny`` on the import path, because the tests are not a package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder and return the folder that a run without ``name`` will have there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs" / "demo"
