"""What all tests share: one thread each, since two run side by side, and the way to real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora, named by NMT_SHARED_DATA; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("NMT_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set NMT_SHARED_DATA")
    return folder
