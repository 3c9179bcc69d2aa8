"""The installed programs. Each handles signals before it imports its command, which takes up to seconds.

Keep the imports of this file few: a signal that arrives before it is loaded shows Python's traceback.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the enumerations of ``signal``, which import many modules
import os
import sys

from nmt.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

MESSAGES = {
    _signal.SIGINT: b"interrupted\n",
    _signal.SIGTERM: b"stopped by SIGTERM\n",
    **({_signal.SIGHUP: b"stopped by SIGHUP\n"} if hasattr(_signal, "SIGHUP") else {}),
}


def __getattr__(name: str) -> Callable[[], NoReturn]:
    """Return the program of the command ``name``."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lambda: _run(name)


def _run(name: str) -> NoReturn:
    """Run the function ``name`` of the command's module with the command-line arguments, and exit."""
    for number in MESSAGES:
        if _signal.getsignal(number) != _signal.SIG_IGN:  # ignored with nohup, for example
            _signal.signal(number, _exit_at_once)
    _limit_spinning()
    import gc
    from importlib import import_module

    gc.disable()  # imports make many objects and few cycles
    from nmt.commands.shell import run

    def command(arguments: list[str]) -> None:
        if arguments == ["--version"]:
            _print_versions()
            return
        _respect_quota()
        program = getattr(import_module(f"nmt.commands.{name}"), name)
        gc.enable()
        program(arguments)
        if "torch" not in sys.modules:  # whose objects may have to be finalised
            gc.freeze()  # against a collection at exit, which takes 10 ms

    run(command)


def _print_versions() -> None:
    """Print the versions of this package, of Python and of the libraries that decide what a model computes."""
    from nmt.system.machine import installed

    print(f"nmt-memory-attention {__version__}")
    print(f"Python {sys.version.split()[0]} on {sys.platform}")
    for library in ("torch", "pytorch-lightning", "onnxruntime", "sentencepiece", "numpy"):
        print(library, installed(library) or "is not installed")


def _limit_spinning() -> None:
    """Let the threads of torch sleep soon when they wait, unless the user has chosen how they wait.

    OpenMP reads this when torch is loaded. By default, a waiting thread checks 300,000 times whether it can continue.
    If another program uses a core, these checks take time from the thread that it waits for, and training is slower.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _respect_quota() -> None:
    """Give torch, which sees all cores of the machine, no more threads than the CPU quota of a container allows.

    OpenMP reads the number when torch is loaded. Threads beyond the quota only pause each other.
    """
    from nmt.errors import print_message
    from nmt.system.machine import allowed_cores, cpu_quota, usable_cores

    quota = cpu_quota()
    if quota is not None and "OMP_NUM_THREADS" not in os.environ and usable_cores() < allowed_cores():
        os.environ["OMP_NUM_THREADS"] = str(usable_cores())
        print_message(f"threads: {usable_cores()} of {allowed_cores()} cores, because the CPU quota is {quota:g}")


def _exit_at_once(number: int, frame: object) -> None:
    """End the process, which has not written anything yet, as ``nmt.commands.shell.run`` ends it later."""
    try:
        os.write(2, MESSAGES[number])
    except OSError:  # stderr is closed
        pass
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    _run(sys.argv.pop(1))
