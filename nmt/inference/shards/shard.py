"""A shard of the input lines, its result, and the job that turns one into the other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from nmt.errors import UserError, reason


class Shard(NamedTuple):
    """Consecutive lines of the input."""

    number: int
    """Position among the shards, from 0."""
    first: int
    """Number of lines before it."""
    lines: list[str]

    @property
    def digest(self) -> str:
        """SHA-256 of the lines, in hexadecimal."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    @property
    def place(self) -> str:
        """The shard as messages name it, with lines counted from 1."""
        return f"lines {self.first + 1:,} to {self.first + len(self.lines):,}"


class Done(NamedTuple):
    """The result of a shard."""

    lines: int
    """Number of lines of the shard."""
    output: list[str]
    """Output lines; n-best lists have several per input line."""
    links: list[str]
    """Alignment lines, one per translation; none if they were not requested."""
    warnings: list[tuple[int, str]]
    """Row of each line without a translation, counted from the first line of the shard, and the reason."""


class Failed(NamedTuple):
    """The reason why a worker has no result for a shard."""

    reason: str
    final: bool = False
    """True if another attempt would fail in the same way."""


Job = Callable[[Shard], Done]
"""Translates a shard in a worker. It can be pickled."""


def attempt(job: Job, shard: Shard) -> Done | Failed:
    """Return the result of the job, or the reason why it failed. Workers call this, so that no error ends them."""
    try:
        return job(shard)
    except UserError as error:
        return Failed(str(error), final=True)
    except Exception as error:
        return Failed(f"{type(error).__name__}: {reason(error)}")
