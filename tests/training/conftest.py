"""A separate folder for each run. Also puts ``tiny`` on the import path, because the tests are not a package."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
import torch

from nmt.training import report

sys.path.insert(0, str(Path(__file__).parent))
PICTURES = {name: getattr(report, name) for name in ("draw_curves", "draw_heatmap", "save_figure")}
"""The functions that draw, before tests/saved_time.py replaces them."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder and return the folder that a run without ``name`` will have there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs" / "demo"


@pytest.fixture(scope="session")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped at its first update of the second epoch. Only for copying."""
    from tiny import TINY, stop_at

    with chdir(folder := tmp_path_factory.mktemp("stopped")):
        stop_at(25, [*TINY, "batches.max_tokens=300"])
    return folder / "runs" / "demo"


@pytest.fixture
def stopped(run: Path, stopped_once: Path) -> Path:
    """A copy of that folder, as ``runs/demo``."""
    shutil.copytree(stopped_once, run)
    return run


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run, with its pictures. Only for copying."""
    from tiny import SMALL

    from nmt.commands.train import train

    with chdir(folder := tmp_path_factory.mktemp("finished")), pytest.MonkeyPatch.context() as patch:
        for name, function in PICTURES.items():
            patch.setattr(report, name, function)
        train(SMALL)
    return folder / "runs" / "demo"


@pytest.fixture
def finished(run: Path, finished_once: Path) -> Path:
    """A copy of that folder, as ``runs/demo``."""
    shutil.copytree(finished_once, run)
    return run


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
