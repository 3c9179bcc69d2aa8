"""Memory does not grow with the number of different shapes, which training and translation have by the thousand."""

import sys

import pytest
from commands.processes import run_python

pytestmark = pytest.mark.thorough

GROWTH = """
import random, sys, torch
from nmt.model import LSTMEncoder

def megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))

torch.set_num_threads(1)
encoder = LSTMEncoder(embedding_size=16, hidden_size=32)
draw = random.Random(1)
def run(shapes):
    for _ in range(shapes):
        rows, length = draw.randint(40, 200), draw.randint(4, 30)
        states, _ = encoder(torch.randn(rows, length, 16), torch.ones(rows, length, dtype=torch.bool))
        states.sum().backward()
run(30)
before = megabytes()
run(120)
print(megabytes() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_flat_over_many_shapes() -> None:
    # Freed memory goes back to the system at once. Otherwise holes in the heap would dominate the measurement.
    run = run_python(GROWTH, env={"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}, check=True)
    assert float(run.stdout) < 10  # MB; about 3, or 20 without the limit in nmt.kernels
