"""The one exception that is shown to a person as a single line, without a traceback."""

from __future__ import annotations

import errno


class UserError(Exception):
    """Something the user can put right: the text names the value, the place and the remedy, in one line."""


def remedy(error: OSError) -> str:
    """What to do about a file that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, or choose another place"
    if error.errno == errno.ENOENT:
        return "make its folder first, or choose another place"
    return "choose another place"
