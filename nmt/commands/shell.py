"""What every command does the same way: its exit codes, and one line instead of a traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn


def run(command: Callable[[list[str]], None], arguments: list[str] | None = None) -> NoReturn:
    """Run ``command`` with the command line's arguments and exit.

    0 done; 2 something the user can put right, said in one line on stderr; 130 interrupted; 141 the reader of stdout
    has gone, which is no error of ours and is passed over in silence, as every filter does.
    """
    from nmt.errors import UserError, suggest_fix

    if sys.stderr is None:  # closed: what it would say is heard by nobody
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    try:
        command(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:  # a closed one: the output may be a file
            sys.stdout.flush()
        code = 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        _forget_stdout()
        code = 128 + signal.SIGPIPE
    except OSError as error:
        print(
            f"error: {error.filename or 'disk'}: {error.strerror or error}; {suggest_fix(error)}",
            file=sys.stderr,
        )
        _forget_stdout()
        code = 2
    sys.exit(code)


def _forget_stdout() -> None:
    """Python flushes stdout once more on its way out; give that flush somewhere to go."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
