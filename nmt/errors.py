"""Exceptions that the commands report as a single line, without a traceback."""

from __future__ import annotations

import errno


class UserError(Exception):
    """An error the user can fix. The message is one line: the value, the problem, the fix."""


class Interrupted(KeyboardInterrupt):
    """Training stopped cleanly because of a signal, such as SIGTERM; the exit code is 128 + ``signal_number``."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def suggest_fix(error: OSError) -> str:
    """Return advice about a file or folder that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some disk space, or choose another place"
    if error.errno == errno.ENOENT:
        return "create its folder first, or choose another place"
    return "choose another place"
