"""Read input lines in groups, as soon as they arrive, and write output lines and results."""

from __future__ import annotations

import io
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
from nmt.errors import UserError, counted, print_message, printable
from nmt.files.atomic import compressed, replace_file
from nmt.files.compression import COMPRESSED, opener
from nmt.files.reading import open_regular

GROUP = 512  # lines translated together: enough to fill batches, few enough for early results
COUNTED_BYTES = 1 << 24
BLOCK_BYTES = 1 << 18  # read from a pipe at a time


def input_groups(
    path: str | None, prompt: Callable[[], None] | None = None, *, show_waits: bool = False
) -> Iterator[list[str]]:
    """Yield the lines of a file (plain or compressed), or of stdin for None, in groups of up to ``GROUP``.

    Lines that have arrived are yielded at once, without waiting for a full group. ``prompt`` is called before each wait
    for input. With ``show_waits``, an empty group comes before each read that may have to wait. Raises UserError with
    file and line for invalid UTF-8, after yielding all lines before it.
    """
    if path is not None:
        for group in _grouped(read_lines(path, allow_empty=True)):
            yield group
            if show_waits and not os.path.isfile(path):  # such as a named pipe
                yield []
        return
    if sys.stdin is None:
        raise UserError(f"{STDIN}: closed; pipe text into the command, or set input=FILE")
    pending: deque[bytes] = deque()
    lines = decode_lines(iter(pending.popleft, None), STDIN)
    for arrived in _ready_lines(sys.stdin.buffer, prompt, show_waits=show_waits):
        pending.extend(arrived)
        # Decode exactly as many lines as have arrived: ``popleft`` fails on an empty queue.
        yield from _grouped(islice(lines, len(arrived))) if arrived else [[]]


def line_counter(path: str | None) -> Callable[[], float | None]:
    """Return a function that returns the number of lines that ``input_groups`` will yield, or None for a pipe.

    The number is exact up to ``COUNTED_BYTES`` of text, and an estimate from the first of them beyond that. Call this
    before the lines are read.
    """
    start = 0
    with suppress(OSError, ValueError, AttributeError):  # a pipe, or stdin that is closed or replaced
        if path is None:
            start = os.lseek(sys.stdin.fileno(), 0, os.SEEK_CUR)
    return partial(_count_lines, path, start)


def _count_lines(path: str | None, start: int) -> float | None:
    """Return the number of lines of a regular file, from the byte ``start`` on; None if that cannot be known."""
    try:
        if path is None:
            descriptor = sys.stdin.fileno()
            # Unlike other reads, pread does not change what the command reads.
            head = os.pread(descriptor, COUNTED_BYTES, start)
            size = os.fstat(descriptor).st_size - start
            share = len(head) / size
        elif not os.path.isfile(path):  # such as a named pipe
            return None
        else:
            with open_regular(path) as raw:
                stream = raw if (open_stream := opener(path)) is open else open_stream(raw)
                head = stream.read(COUNTED_BYTES)
                share = 1.0 if len(head) < COUNTED_BYTES else raw.tell() / os.fstat(raw.fileno()).st_size
    except Exception:  # a pipe, an empty file, or damaged data, which has its own error when it is read
        return None
    lines = head.count(b"\n") + (share >= 1 and bool(head) and not head.endswith(b"\n"))
    return lines / share


def full_groups(path: str | None) -> Iterator[list[str]]:
    """Yield the lines of ``input_groups`` in groups of ``GROUP``; only the last one may be smaller."""
    return _grouped(line for group in input_groups(path) for line in group)


def _ready_lines(
    stream: BinaryIO, prompt: Callable[[], None] | None, *, show_waits: bool = False
) -> Iterator[list[bytes]]:
    """Yield the complete lines of each block read from ``stream``, without waiting for further blocks.

    With ``show_waits``, yield an empty list before each read that may have to wait.
    """
    buffer = bytearray()
    while True:
        if show_waits and not _can_read(stream):
            yield []
        if prompt is not None and not buffer:
            prompt()
        chunk = stream.read1(BLOCK_BYTES)  # type: ignore[attr-defined]
        if not chunk:
            break
        buffer += chunk
        newline = chunk.rfind(b"\n")
        if newline >= 0:
            end = len(buffer) - len(chunk) + newline
            yield [line + b"\n" for line in bytes(buffer[:end]).split(b"\n")]
            del buffer[: end + 1]
    if buffer:
        yield [bytes(buffer)]


def _can_read(stream: BinaryIO) -> bool:
    """Return whether ``stream`` has data, or has ended, so that a read returns at once."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except io.UnsupportedOperation:  # bytes in memory
        return True
    except (OSError, ValueError):  # not supported, as for pipes of Windows
        return False


def _grouped(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield lists of up to ``GROUP`` lines. If reading fails, yield the lines before the error, then raise it."""
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
def line_writer(path: str | None, *, keep: bool = True) -> Iterator[Callable[[Iterable[str]], None]]:
    """Yield a function that writes lines as UTF-8, to the file ``path`` or, for None, to stdout.

    Stdout is flushed after each call. The file, compressed as its name says, is written atomically, unless it is the
    one that stdout is redirected to. If an error stops the block and ``keep`` is set, the lines that were written so
    far go to ``PATH.unfinished``, and a message says so.
    """
    if path is None or is_stdout(path):
        require_stdout("keep it open, or set output=FILE")
        yield _write_to_stdout
        return
    done = 0

    def write(lines: Iterable[str]) -> None:
        nonlocal done
        lines = list(lines)
        _write(stream, lines)
        done += len(lines)

    with replace_file(path) as file:
        try:
            with compressed(file, path) as stream:
                yield write
            file.flush()  # here, so that the lines are kept if the disk is full
        except BaseException as error:
            if keep and done and os.path.isfile(file.fileno()):
                kept = counted(done, "finished line")
                if isinstance(error, OSError):  # such as a full disk
                    kept = "finished lines, of which the last may be cut,"
                with suppress(OSError):
                    print_message(f"{path}: not written; {kept} kept in {_keep(file, path)}")
            raise


def _keep(file: BinaryIO, path: str) -> str:
    """Keep the lines written so far in a new file beside ``path``, and return its name."""
    with suppress(OSError):
        file.flush()
    ending = Path(path).suffix if path.endswith(COMPRESSED) else ""
    names = (f"{path.removesuffix(ending)}.unfinished{number}{ending}" for number in ("", *map(str, range(2, 10000))))
    name = next(name for name in names if not os.path.lexists(name))
    number = file.fileno()
    try:  # a full disk has no room for a copy; only with src_dir_fd, os.link follows the link of /proc
        os.link(f"/proc/self/fd/{number}", name, src_dir_fd=number)
    except (OSError, NotImplementedError):  # another system than Linux, or a file system without links
        with replace_file(name) as kept, open(os.dup(number), "rb") as written:
            written.seek(0)
            shutil.copyfileobj(written, kept)
    return name


def is_stdout(path: str | None) -> bool:
    """Return whether output to ``path`` goes to stdout: None, ``-``, or the file of stdout, such as ``/dev/stdout``."""
    if path is None or path == "-":
        return True
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or stdout is closed or replaced
        return False


def _write_to_stdout(lines: Iterable[str]) -> None:
    # Write bytes: the encoding of sys.stdout depends on the locale.
    _write(sys.stdout.buffer, lines)
    sys.stdout.buffer.flush()


def _write(stream: BinaryIO, lines: Iterable[str]) -> None:
    stream.write("".join(f"{line}\n" for line in lines).encode())


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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=bool(headings))
    for heading, *cells in zip(headings or rows[0], *rows, strict=True):
        if heading in numbers:
            table.add_column(Text(heading), justify="right", min_width=max(map(len, cells)))
        else:
            table.add_column(Text(heading), overflow="fold")  # never cut a name
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(width=None if sys.stdout.isatty() else 140)
    if title:
        console.print(Text(title))
    console.print(table, crop=False)  # a number that is cut is wrong


def print_path(path: Path) -> None:
    """Print a file name to stdout at once: its own bytes, or made printable if stdout is a terminal."""
    if sys.stdout.isatty():
        print(printable(str(path)), flush=True)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")
        sys.stdout.buffer.flush()
