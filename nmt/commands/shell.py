"""Exit codes and one-line error messages, the same for every command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn


def run(command: Callable[[list[str]], None], arguments: list[str] | None = None) -> NoReturn:
    """Run ``command`` with the command-line arguments and exit.

    Exit codes: 0 success; 2 an error that the user can fix, printed on stderr without a traceback; 128 + n stopped by
    signal n, such as 130 for Ctrl-C and 143 for SIGTERM; 141 the reader of stdout has closed the pipe, which is
    silent, as in every Unix filter.
    """
    from nmt.errors import Interrupted, UserError, suggest_fix

    if sys.stderr is None:  # stderr is closed: discard all messages
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - stays open until the process ends
    try:
        import nmt.kernels  # noqa: F401 - raises UserError for an unknown NMT_KERNELS

        command(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:  # None if stdout is closed; the output may go to a file
            sys.stdout.flush()
        code = 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt as error:
        print("interrupted", file=sys.stderr)
        code = 128 + (error.signal_number if isinstance(error, Interrupted) else signal.SIGINT)
    except BrokenPipeError:
        _discard_stdout()
        code = 128 + signal.SIGPIPE
    except OSError as error:
        print(f"error: {error.filename or 'disk'}: {error.strerror or error}; {suggest_fix(error)}", file=sys.stderr)
        _discard_stdout()
        code = 2
    sys.exit(code)


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that Python's last flush at exit cannot fail."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
