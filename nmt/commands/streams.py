"""Lines in, lines out: what a filter reads and writes, in groups that never make a slow writer wait."""

from __future__ import annotations

import gzip
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import BinaryIO

from nmt.errors import UserError
from nmt.storage import replace_file
from nmt.text.files import decode_lines, read_lines

GROUP = 512  # lines translated together: enough for full batches, few enough to see results soon
BLOCK = 1 << 18  # bytes asked of a pipe at a time
STDIN = "<stdin>"


def input_groups(path: str | None, prompt: Callable[[], None] | None = None) -> Iterator[list[str]]:
    """The lines of a file (plain or ``.gz``), or of stdin for None, up to ``GROUP`` at a time.

    A line that is there is never held back until more arrive. UserError names the file and line where the bytes are no
    UTF-8; every line before it has been handed out by then. ``prompt`` is called before each wait for more.
    """
    if path is not None:
        yield from _grouped(read_lines(path))
        return
    if sys.stdin is None:
        raise UserError(f"{STDIN}: closed; pipe text in, or name a file with input=FILE")
    waiting: deque[bytes] = deque()
    lines = decode_lines(iter(waiting.popleft, None), STDIN)
    for block in _ready_lines(sys.stdin.buffer, prompt):
        waiting.extend(block)
        # As many as are waiting and not one more, so that ``popleft`` never meets an empty queue.
        yield from _grouped(islice(lines, len(block)))


def _ready_lines(stream: BinaryIO, prompt: Callable[[], None] | None) -> Iterator[list[bytes]]:
    """The complete lines of whatever has arrived; waits only where there is none."""
    rest = bytearray()
    while True:
        if prompt is not None and not rest:
            prompt()
        arrived = stream.read1(BLOCK)  # type: ignore[attr-defined]
        if not arrived:
            break
        rest += arrived
        newline = arrived.rfind(b"\n")
        if newline >= 0:
            end = len(rest) - len(arrived) + newline
            yield [line + b"\n" for line in bytes(rest[:end]).split(b"\n")]
            del rest[: end + 1]
    if rest:
        yield [bytes(rest)]


def _grouped(lines: Iterator[str]) -> Iterator[list[str]]:
    """Lists of up to ``GROUP`` lines; what was read before an error is handed out before it is raised."""
    while True:
        group: list[str] = []
        try:
            for line in islice(lines, GROUP):
                group.append(line)
        except UserError:
            if group:
                yield group
            raise
        if not group:
            return
        yield group


@contextmanager
def line_writer(path: str | None) -> Iterator[Callable[[Iterable[str]], None]]:
    """A function that writes lines, UTF-8: to stdout for None, seen at once; else to a file, whole or not at all."""
    if path is None:
        if sys.stdout is None:
            raise UserError("<stdout>: closed; leave it open, or name a file with output=FILE")
        yield _write_to_stdout
        return
    opened = gzip.open if str(path).endswith(".gz") else open
    with replace_file(path) as temporary, opened(temporary, "wb") as stream:
        yield lambda lines: _write(stream, lines)


def _write_to_stdout(lines: Iterable[str]) -> None:
    # The bytes underneath: a locale must not decide how German is spelled.
    _write(sys.stdout.buffer, lines)
    sys.stdout.buffer.flush()


def _write(stream: BinaryIO | gzip.GzipFile, lines: Iterable[str]) -> None:
    stream.write("".join(f"{line}\n" for line in lines).encode())
