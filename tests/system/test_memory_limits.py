"""Too little RAM is recognised in the messages of all libraries, and ends a command in one line."""

from __future__ import annotations

import pytest
from commands.processes import run_python

from nmt.system.machine import is_out_of_memory

# As the libraries wrote them under ``ulimit -v``.
MESSAGES = [
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes."),
    RuntimeError("pthread_create failed, error code: 12 error msg: Cannot allocate memory"),
    *map(RuntimeError, ("DefaultCPUAllocator: not enough memory", "std::bad_alloc", "can't start new thread")),
    RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
    ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    MemoryError("malloc of size 1073741824 failed"),
]


@pytest.mark.parametrize("error", MESSAGES, ids=lambda error: str(error)[:40])
def test_messages_of_libraries_are_recognised(error: Exception) -> None:
    assert is_out_of_memory(error)
    wrapped = RuntimeError("Failed to export the model with torch.export.")  # as torch.onnx does
    assert not is_out_of_memory(wrapped)
    wrapped.__cause__ = error
    assert is_out_of_memory(wrapped)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), OSError(28, "No space left on device"), KeyError("a")],
)
def test_other_errors_are_not_taken_for_it(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_libraries_that_fail_again_at_exit_are_silent() -> None:
    """torch imports a module when the process ends."""
    code = """
import atexit
from nmt.commands.shell import run
def fail(*_):
    raise MemoryError
atexit.register(fail)
run(fail, [])
"""
    done = run_python(code)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
