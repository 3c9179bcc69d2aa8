"""The attacked folder. Also puts the modules beside this file on the import path, because the tests are no package."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
PRESENT = Path(__file__).resolve().parents[1] / "golden" / "present.tar.xz"


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder with tiny files of every stored format; with an adapter only where the test needs one."""
    with tarfile.open(PRESENT) as archive:
        archive.extractall(tmp_path / "attacked", filter="data")
    if "adapter" in request.node.name:
        from stored_kinds import write_adapter

        write_adapter(tmp_path / "attacked")
    return tmp_path / "attacked"
