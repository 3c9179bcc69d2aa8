"""The one exception that is shown to a person as a single line, without a traceback."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right: the text names the value, the place and the remedy, in one line."""
