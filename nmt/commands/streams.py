"""Read input lines in groups, as soon as they arrive, and write output lines and results."""

from __future__ import annotations

import os
import select
import shutil
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from nmt.data.text_files import STDIN as STDIN
from nmt.data.text_files import decode_lines, read_lines
from nmt.errors import UserError, print_message
from nmt.files.atomic import compressed, replace_file
from nmt.files.reading import COMPRESSED

GROUP = 512  # lines translated together: enough to fill batches, few enough for early results
BLOCK_BYTES = 1 << 18  # read from a pipe at a time


def input_groups(path: str | None) -> Iterator[list[str]]:
    """Yield the lines of a file (plain or compressed), or of stdin for None, in groups of up to ``GROUP``.

    Lines of stdin are yielded as soon as they arrive, and an empty group before each read that may have to wait. Raises
    UserError with file and line for invalid UTF-8, after yielding all lines before it.
    """
    if path is not None:
        yield from _grouped(read_lines(path, allow_empty=True))
        return
    if sys.stdin is None:
        raise UserError(f"{STDIN}: closed; pipe text into the command, or set input=FILE")
    pending: deque[bytes] = deque()
    lines = decode_lines(iter(pending.popleft, None), STDIN)
    for arrived in _ready_lines(sys.stdin.buffer):
        pending.extend(arrived)
        # Decode exactly as many lines as have arrived: ``popleft`` fails on an empty queue.
        yield from _grouped(islice(lines, len(arrived))) if arrived else [[]]


def full_groups(path: str | None) -> Iterator[list[str]]:
    """Yield the lines of ``input_groups`` in groups of ``GROUP``; only the last one may be smaller."""
    return _grouped(line for group in input_groups(path) for line in group)


def count_lines(path: str | None) -> float | None:
    """Return the number of lines of a regular file that is not compressed; None for others."""
    if path is None or path.endswith(COMPRESSED) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def _ready_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """Yield the complete lines of each block read from ``stream``, and no lines before a read that may have to wait."""
    rest = b""
    while True:
        if not _can_read(stream):
            yield []
        block = stream.read1(BLOCK_BYTES)  # type: ignore[attr-defined]
        if not block:
            break
        *lines, rest = (rest + block).split(b"\n")
        yield [line + b"\n" for line in lines]
    if rest:
        yield [rest]


def _can_read(stream: BinaryIO) -> bool:
    """Return whether ``stream`` has data, or has ended, so that a read returns at once."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # bytes in memory, or a pipe of Windows
        return False


def _grouped(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield lists of up to ``GROUP`` lines. If reading fails, yield the lines before the error, then raise it."""
    group: list[str] = []
    try:
        for line in lines:
            group.append(line)
            if len(group) == GROUP:
                yield group
                group = []
    except UserError:
        if group:
            yield group
        raise
    if group:
        yield group


@contextmanager
def line_writer(path: str | None, *, keep: bool = True, end: str = "\n") -> Iterator[Callable[[Iterable[str]], None]]:
    """Yield a function that writes lines and their ``end`` as UTF-8, to the file ``path`` or, for None, to stdout.

    Stdout is flushed after each call. The file, compressed as its name says, is written atomically, unless it is the
    one that stdout is redirected to. If an error stops the block after some lines and ``keep`` is set, they stay in
    ``PATH.unfinished``, and a message says so.
    """
    if path is None or is_stdout(path):
        require_stdout("keep it open, or set output=FILE")
        yield partial(_write_to_stdout, end=end)
        return
    has_lines = False

    def write(lines: Iterable[str]) -> None:
        nonlocal has_lines
        data = _encode(lines, end)
        has_lines = has_lines or bool(data)
        stream.write(data)

    with replace_file(path) as file:
        try:
            with compressed(file, path) as stream:
                yield write
            file.flush()  # here, so that the lines are kept if the disk is full
        except BaseException:
            if keep and has_lines and os.path.isfile(file.fileno()):
                with suppress(OSError):
                    file.flush()
                with suppress(OSError):
                    kept = _unfinished_name(path)
                    shutil.move(file.name, kept)  # renames it, which also works on a full disk
                    if not path.endswith(COMPRESSED):
                        file.raw.close()  # type: ignore[attr-defined]  # or it would try to write the rest again
                        _remove_partial_line(kept)
                    print_message(f"{path}: not written; its finished lines are in {kept}")
            raise


def _remove_partial_line(path: str) -> None:
    with open(path, "r+b") as file:
        start = max(0, file.seek(0, os.SEEK_END) - BLOCK_BYTES)
        file.seek(start)
        file.truncate(start + file.read().rfind(b"\n") + 1)


def _unfinished_name(path: str) -> str:
    """Return the name of a new file for the finished lines of ``path``, with the ending of a compression."""
    ending = Path(path).suffix if path.endswith(COMPRESSED) else ""
    names = (f"{path.removesuffix(ending)}.unfinished{number or ''}{ending}" for number in (0, *range(2, 1000)))
    return next(name for name in names if not os.path.lexists(name))


def is_stdout(path: str | None) -> bool:
    """Return whether output to ``path`` goes to stdout: None, ``-``, or the file of stdout, such as ``/dev/stdout``."""
    if path is None or path == "-":
        return True
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or stdout is closed or replaced
        return False


def _write_to_stdout(lines: Iterable[str], end: str) -> None:
    # Write bytes: the encoding of sys.stdout depends on the locale. With PYTHONUNBUFFERED, a write may be cut short, as
    # by a disk that becomes full: only the next write raises the error.
    rest = memoryview(_encode(lines, end))
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def _encode(lines: Iterable[str], end: str) -> bytes:
    return "".join(line + end for line in lines).encode()


def require_stdout(fix: str = "keep it open, or redirect it to a file") -> None:
    """Raise UserError if stdout is closed. Commands call this before any work whose result they would lose."""
    if sys.stdout is None:
        raise UserError(f"<stdout>: closed; {fix}")


def print_table(
    rows: Sequence[Sequence[str]], headings: Sequence[str] = (), *, title: str = "", numbers: Collection[str] = ()
) -> None:
    """Print a table on stdout, unless it is closed. Columns whose headings are ``numbers`` are aligned to the right."""
    if sys.stdout is None:  # closed, as by >&-
        return
    table = [headings, *rows] if headings else rows
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    sides = [">" if heading in numbers else "<" for heading in headings or table[0]]
    if title:
        print(title)
    for row in table:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        print("  ".join(cells).rstrip())


def print_path(path: Path) -> None:
    """Print the bytes of a file name, which need not be text, to stdout at once."""
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    sys.stdout.buffer.flush()
