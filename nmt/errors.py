"""The exception whose message the user sees without a traceback, and how messages reach the terminal."""

from __future__ import annotations

import contextlib
import errno
import re
import signal
import sys
import unicodedata

JOINERS = "\u200c\u200d"  # invisible too, but emoji and several scripts need them
STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # Unicode categories: control, format, surrogate, line separators


class UserError(Exception):
    """An error the user can fix. Each of its ``problems`` is one line: the value, the problem, the fix."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    @property
    def key(self) -> str:
        """The setting or file that the first problem is about, such as ``in.txt`` in ``in.txt:3: …``."""
        return re.split("[:=]", self.problems[0], maxsplit=1)[0] if self.problems else ""

    def __str__(self) -> str:
        return "\n       ".join(self.problems)


class SourceTooLong(UserError):
    """A source that the model's attention or the machine's memory cannot hold. Other sources can be translated."""


class Interrupted(KeyboardInterrupt):
    """Stopped cleanly because of a signal, such as SIGTERM; the exit code is 128 + ``signal_number``."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number

    def __str__(self) -> str:
        return f"stopped by {signal.Signals(self.signal_number).name}"


def suggest_fix(error: OSError) -> str:
    """Return advice about a file or folder that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some disk space, or choose another place"
    if error.errno == errno.ENOENT:
        return "create its folder first, or choose another place"
    return "choose another place"


def printable(text: str) -> str:
    """Return the text with escapes for all characters that could change what a terminal shows.

    File names, settings and tokens can contain them: control characters, line breaks, marks that reverse the direction
    of writing, and lone surrogates.
    """
    if text.isprintable():
        return text
    # ``ascii`` needs no codec: loading one fails when no file descriptor is left.
    return "".join(ascii(character)[1:-1] if _is_unsafe(character) else character for character in text)


def reason(error: BaseException) -> str:
    """Return the message of an exception on one line of at most 200 characters, or its class if it has none."""
    message = getattr(error, "strerror", None) or error  # without the number and the path, which our messages name
    return " ".join(str(message).split())[:200] or type(error).__name__


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 line`` and ``1,234 lines``. By default, ``plural`` adds an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def print_message(text: str, *, end: str = "\n") -> None:
    """Write one message to stderr, made printable. All messages go through here.

    A stderr that is closed, or whose reader is gone, loses the message and stops nothing.
    """
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):  # ValueError: closed by Python code
            print(printable(text), end=end, file=sys.stderr, flush=True)


def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in UNSAFE and character not in JOINERS
