"""Too little RAM is recognised in the messages of all libraries, and ends a command in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands.processes import run_python

from nmt.errors import UserError
from nmt.system import machine
from nmt.system.machine import can_allocate, describe_limits, is_out_of_memory
from nmt.text import tokenizer

# As the libraries wrote them under ``ulimit -v``.
MESSAGES = [
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)"
    ),
    RuntimeError(
        "/onnxruntime_src/onnxruntime/core/platform/posix/env.cc:327 onnxruntime::{anonymous}::PosixThread::"
        "PosixThread(…) pthread_create failed, error code: 12 error msg: Cannot allocate memory"
    ),
    RuntimeError("DefaultCPUAllocator: not enough memory"),
    RuntimeError("std::bad_alloc"),
    RuntimeError("can't start new thread"),
    RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
    OSError(12, "Cannot allocate memory"),
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


def test_limits_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_process_limits", dict)
    assert describe_limits() == ""
    monkeypatch.setattr(machine, "_process_limits", lambda: {"ulimit -v": 1 << 30, "ulimit -d": 1 << 20})
    assert describe_limits() == " (ulimit -v allows 1,024 MB, ulimit -d allows 1 MB)"


def test_pieces_are_not_learned_where_threads_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """SentencePiece would end the process."""
    assert can_allocate(1 << 20)
    monkeypatch.setattr(tokenizer, "can_allocate", lambda size: size < 1 << 30)
    with pytest.raises(UserError, match="tokenizer: not enough RAM.*: learning pieces needs 1,152 MB more; raise"):
        tokenizer.Tokenizer.train(["a b"], vocab_size=300)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits addresses")
@pytest.mark.parametrize(
    ("command", "megabytes", "start"),
    [
        ("prepare", 100, "error: not enough RAM"),  # OpenBLAS would end the process
        ("prepare", 150, "error: not enough RAM"),  # OpenBLAS would send SIGINT
        ("prepare", 500, "error: tokenizer: not enough RAM"),
        ("train", 390, "error: not enough RAM"),  # torch would end the process
    ],
)
def test_command_ends_in_one_line(tmp_path: Path, command: str, megabytes: int, start: str) -> None:
    import resource

    for name in ("a", "b"):
        (tmp_path / name).write_text("a cat\na dog\n")
    limit = megabytes << 20
    run = subprocess.run(
        [sys.executable, "-c", f"from nmt.commands.programs import {command}; {command}()"]
        + ["data=text", "data.train.src=a", "data.train.tgt=b", "data.valid.src=a", "data.valid.tgt=b"]
        + (["output=out"] if command == "prepare" else []),
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert run.returncode == 2 and run.stderr.count("\n") == 1, run.stderr
    assert run.stderr.startswith(f"{start} (ulimit -v allows {megabytes} MB)")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


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
