"""Run trials in another process, which may crash or hang, and watch what it writes and starts."""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from saved_time import SERVER

LIMIT_S = 60.0  # for one trial; they take milliseconds, but other programs may use the machine
MORE_MEMORY = 4 << 30  # bytes that the process may allocate for trials
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
STARTS = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pty.spawn", "socket.connect"}
CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}

Trial = Callable[[Random], tuple[str, Callable[[], str]]]
"""Prepares one trial. Returns its description and a function that runs it.

The function returns ``refused``, ``equal`` (as without the attack) or ``other`` (another valid result), and raises an
exception if the trial fails.
"""


def run_trials(
    make: Callable[..., Trial], arguments: tuple[Any, ...], count: int, *, limit_s: float = LIMIT_S
) -> tuple[Counter[str], list[str]]:
    """Run ``count`` trials of ``make(*arguments)`` in a child process. Return how often each result came, and failures.

    A crash, or a trial of more than ``limit_s``, is a failure and ends the trials.
    """
    results, problems = Counter[str](), list[str]()
    receiver, sender = SERVER.Pipe(duplex=False)
    child = SERVER.Process(target=_child, args=(sender, make, arguments, count))
    child.start()
    sender.close()
    what = "before the first trial"
    try:
        while results.total() + len(problems) < count:
            if not receiver.poll(limit_s):
                child.kill()
                problems.append(f"{what}: no result after {limit_s:g} s")
                break
            what, result, problem = receiver.recv()
            results.update([result] if result else [])
            problems += [f"{what}: {problem}"] if problem else []
    except EOFError:
        child.join()
        problems.append(f"{what}: exit code {child.exitcode}")
    child.join()
    return results, problems


def _child(sender: Connection, make: Callable[..., Trial], arguments: tuple[Any, ...], count: int) -> None:
    """Run the trials and send (description, result, problem) of each, before and after it."""
    sys.dont_write_bytecode = True
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    trial = make(*arguments)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, -1))
    violations = _watch(Path(arguments[0]))
    for number in range(count):
        what, run = trial(Random(number))
        sender.send((what, None, None))
        result = problem = None
        try:
            result = run()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"[:500]
        if violations:
            result, problem = None, violations[0]
            violations.clear()
        sender.send((what, result, problem))


def _watch(folder: Path) -> list[str]:
    """Return a list that will hold the programs that this process starts and its changes outside ``folder``."""
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
    return violations
