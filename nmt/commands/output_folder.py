"""The new folder that a command writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import print_message
from nmt.files.atomic import create_folder


@contextmanager
def output_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``path`` when the block succeeds; if a signal stops it, say how to go on.

    Raises UserError if ``path`` exists or cannot be written.
    """
    try:
        with create_folder(path) as temporary:
            yield temporary
    except KeyboardInterrupt:
        print_message(f"stopped; {path} was not written; run the same command again")
        raise
