"""Settings of all tests: one thread per process, because two run in parallel, and the folder of real data."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from saved_time import save_time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TORCH_FAKE_TENSOR_DISPATCH_CACHE"] = "0"  # it takes longer than it saves
gc.disable()  # while the tests are imported, which takes a quarter of the time less; save_time enables it

# No time limits: the first example may load a model, and machines differ. In CI, the same examples in every run.
settings.register_profile(
    "nmt", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("nmt")

SIGNALS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}


def handle_signals() -> None:
    """Handle signals as in a terminal.

    A shell starts background jobs with SIGINT ignored, nohup ignores SIGHUP, and child processes inherit both.
    """
    for number, handler in SIGNALS.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def default_signals() -> None:
    """Undo what an earlier test did to the handlers."""
    handle_signals()


handle_signals()  # fixtures of a session are set up before those of its first test


def pytest_collection_finish() -> None:
    save_time()


ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real corpora, NMT_SHARED_DATA; skip the test if it does not exist."""
    folder = Path(os.environ.get("NMT_SHARED_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set NMT_SHARED_DATA")
    return folder
