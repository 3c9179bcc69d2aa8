"""The attacked folder. Also puts the modules beside this file on the import path, because the tests are no package."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
PRESENT = Path(__file__).resolve().parents[1] / "golden" / "present.tar.xz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with tiny files of every stored format."""
    with tarfile.open(PRESENT) as archive:
        archive.extractall(tmp_path / "attacked", filter="data")
    return tmp_path / "attacked"
