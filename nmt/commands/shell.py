"""Exit codes, signals and one-line error messages, the same for every command."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from nmt.errors import STOP_SIGNALS, Interrupted, UserError, print_message, suggest_fix
from nmt.settings.plugins import trusted_packages
from nmt.system.machine import is_out_of_memory

USER_ERROR = 2
INTERNAL_ERROR = 70  # EX_SOFTWARE in sysexits.h
TRACEBACK = "NMT_TRACEBACK"
BROKEN_PIPE = 128 + 13  # SIGPIPE, which Windows does not name


def run(command: Callable[[list[str]], None], arguments: list[str] | None = None) -> NoReturn:
    """Run ``command`` with the command-line arguments and exit.

    Exit codes: 0 success; 2 an error that the user can fix, also in the code of a trusted package; 70 a defect of the
    toolkit; 129, 130 or 143 stopped by SIGHUP, Ctrl-C or SIGTERM; 141 the reader of stdout has closed the pipe, which
    is silent, as in every Unix filter. Errors are one line on stderr. NMT_TRACEBACK=1 also shows the traceback.
    """
    try:
        _open_closed_streams()
        with _stop_signals() as received, _one_line_warnings():
            code = _exit_code(command, sys.argv[1:] if arguments is None else arguments, received)
    except KeyboardInterrupt as error:  # a signal that arrived while another error was being reported
        code = _report(error)
    if code:
        sys.unraisablehook = lambda _: None  # the error is reported; libraries without RAM fail again at exit
    sys.exit(code)


def _exit_code(command: Callable[[list[str]], None], arguments: list[str], received: list[int]) -> int:
    """Run the command, report its error if there is one, and return the exit code.

    An error after a signal in ``received`` is reported as that signal: libraries turn Interrupted into other errors
    when it arrives while they are imported.
    """
    code = 0
    try:
        command(arguments)
    except BaseException as error:
        code = _report(Interrupted(received[0]) if received and not isinstance(error, Interrupted) else error)
    try:
        if sys.stdout is not None:  # None if stdout is closed
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        _discard_stdout()
        code = code or _report(error)
    return code


def _report(error: BaseException) -> int:
    """Print the error and return its exit code."""
    if os.environ.get(TRACEBACK):
        for line in "".join(traceback.format_exception(error)).splitlines():
            print_message(line)
    code, lines = describe_error(error)
    for line in lines:
        print_message(line)
    return code


def describe_error(error: BaseException) -> tuple[int, list[str]]:
    """Return exit code and messages of an exception that ended a command."""
    match error:
        case UserError():
            first, *others = error.problems or ("unknown",)
            return USER_ERROR, [f"error: {first}", *(f"       {problem}" for problem in others)]
        case Interrupted(signal_number=number) if number != signal.SIGINT:
            return 128 + number, [str(error)]
        case KeyboardInterrupt():
            return 128 + signal.SIGINT, ["interrupted"]
        case BrokenPipeError():
            return BROKEN_PIPE, []
        case SystemExit(code=int() | None):
            return int(error.code or 0), []
        case ModuleNotFoundError(name=str(name)) if not name.startswith("nmt"):
            package = name.partition(".")[0]
            fix = "install the toolkit with its dependencies: pip install . in a clone"
            return USER_ERROR, [f"error: the package {package} is not installed; {fix}"]
        case OSError(strerror=str()):
            file = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            return USER_ERROR, [f"error: {file}{error.strerror}; {suggest_fix(error)}"]
        case _ if is_out_of_memory(error):
            return USER_ERROR, ["error: not enough RAM; stop other programs, or give less text at once"]
    text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if line := _line_of_trusted_code(error):
        return USER_ERROR, [f"error: {line}: {text}; correct this line ({TRACEBACK}=1 shows the traceback)"]
    cause = "please report it"
    if packages := ", ".join(sorted(trusted_packages)):
        cause = f"if it is not an error in {packages}, please report it"
    return INTERNAL_ERROR, [f"error: internal error: {text}; {cause} ({TRACEBACK}=1 shows the traceback)"]


def _line_of_trusted_code(error: BaseException) -> str | None:
    """Return FILE:LINE of the innermost call in a package that the user trusted; None if the error was not in one."""
    if isinstance(error, SyntaxError) and error.filename is not None and trusted_packages:
        return f"{error.filename}:{error.lineno}"
    location = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__", "").partition(".")[0] in trusted_packages:
            location = f"{frame.f_code.co_filename}:{line}"
    cause = error.__cause__ or error.__context__
    return location if location is not None or cause is None else _line_of_trusted_code(cause)


def _open_closed_streams() -> None:
    """Open the null device for each closed standard stream.

    Otherwise the next file that is opened gets its number, and a library that prints a message writes into this file.
    ``sys.stdin`` and ``sys.stdout`` remain None, so that commands can refuse to work without them.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # discard all messages
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process ends
    if hasattr(sys.stdout, "reconfigure"):  # a locale without "…" must not end the command
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Raise Interrupted on SIGTERM and SIGHUP, as Python does on Ctrl-C, so that temporary files are deleted.

    Yields the list of the signals that arrive. The same signal again ends the process at once. Signals that the parent
    process ignores, as ``nohup`` does, stay ignored. After the block, every signal ends the process silently: Python's
    own handler prints a traceback.
    """
    received: list[int] = []

    def stop(number: int, frame: Any) -> NoReturn:
        if number in received:
            os._exit(128 + number)
        received.append(number)
        raise Interrupted(number)

    numbers = [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Show warnings of libraries as one line each, without the source code that raised them."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print_message(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that Python's last flush at exit cannot fail."""
    with contextlib.suppress(OSError, ValueError):
        number = sys.stdout.fileno()
        os.close(number)  # first, because no other descriptor may be free
        os.open(os.devnull, os.O_WRONLY)  # gets the lowest free number
