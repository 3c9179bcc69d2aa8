"""Run trials in another process, which may crash or hang, and watch what it writes and starts."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

LIMIT_S = 60.0  # for one trial; they take milliseconds, but other programs may use the machine
MORE_MEMORY = 4 << 30  # bytes that the process may allocate for trials
MAX_CRASHES = 5  # after which no further trials are run
SERVER = multiprocessing.get_context("forkserver")  # imports these packages once, for all children
SERVER.set_forkserver_preload(["torch", "onnxruntime", "sentencepiece", "nmt.training.fit", "nmt.config.compose"])
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
STARTS = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pty.spawn", "socket.connect"}
CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}

Trial = Callable[[Random], tuple[str, Callable[[], str]]]
"""Prepares one trial. Returns its description and a function that runs it.

The function returns ``refused``, ``equal`` (as without the attack) or ``other`` (another valid result), and raises an
exception if the trial fails.
"""


@dataclass
class Outcome:
    """Number of trials with each result, and a description of each failure."""

    results: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def trials(self) -> int:
        return sum(self.results.values()) + len(self.problems)


def run_trials(
    make: Callable[..., Trial], arguments: tuple[Any, ...], count: int, *, seed: int = 1, limit_s: float = LIMIT_S
) -> Outcome:
    """Run ``count`` trials of ``make(*arguments)`` in a child process. A crash or a hang is a failure.

    Another child continues with the next trial. ``limit_s`` is the time for one trial.
    """
    outcome, crashes = Outcome(), 0
    while outcome.trials < count and crashes < MAX_CRASHES:
        first = outcome.trials
        receiver, sender = SERVER.Pipe(duplex=False)
        child = SERVER.Process(target=_child, args=(sender, make, arguments, range(first, count), seed))
        child.start()
        sender.close()
        what = "before the first trial"
        try:
            while outcome.trials < count:
                if not receiver.poll(limit_s):
                    child.kill()
                    raise EOFError
                what, result, problem = receiver.recv()
                if problem is not None:
                    outcome.problems.append(f"trial {outcome.trials}: {what}: {problem}")
                elif result is not None:
                    outcome.results[result] = outcome.results.get(result, 0) + 1
        except EOFError:
            child.join()
            crashes += 1
            end = f"exit code {child.exitcode}" if child.exitcode != -9 else f"no result after {limit_s:g} s"
            outcome.problems.append(f"trial {outcome.trials}: {what}: {end}")
        child.join()
    return outcome


def _child(
    sender: Connection, make: Callable[..., Trial], arguments: tuple[Any, ...], numbers: range, seed: int
) -> None:
    """Run the trials ``numbers`` and send (description, result, problem) of each, before and after it."""
    sys.dont_write_bytecode = True
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    trial = make(*arguments)
    with _limited_memory(), _watched(Path(arguments[0])) as violations:
        for number in numbers:
            what, run = trial(Random(f"{seed} {number}"))
            sender.send((what, None, None))
            result = problem = None
            try:
                result = run()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"[:500]
            if violations:
                problem = f"{violations[0]} ({problem or result})"
                violations.clear()
            sender.send((what, result, problem))


@contextmanager
def _limited_memory() -> Iterator[None]:
    """Let allocations of many gigabytes fail, where the system can limit them."""
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # Windows, macOS
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, -1))
    yield


@contextmanager
def _watched(folder: Path) -> Iterator[list[str]]:
    """Yield a list that collects the programs that this process starts and its changes outside ``folder``."""
    violations: list[str] = []

    def is_outside(path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False  # a file descriptor
        place = os.path.realpath(os.fsdecode(path))
        return place != os.devnull and not place.startswith(f"{folder.resolve()}/")

    def watch(event: str, values: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(values[2], int) and values[2] & WRITING and is_outside(values[0])
        changes = event in CHANGES and any(is_outside(path) for path in values[:2])
        if event in STARTS or writes or changes:
            violations.append(f"{event} {values}"[:200])

    sys.addaudithook(watch)
    yield violations
