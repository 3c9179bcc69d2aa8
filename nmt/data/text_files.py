"""Read text files, plain or compressed: one UTF-8 sentence per line, and lines end at \\n only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from nmt.data.links import Links, Pair, parse_links, require_links
from nmt.errors import UserError, counted
from nmt.files.reading import is_damage, opener

STDIN = "<stdin>"
_opened: list[Any] = []  # the stdin that was read last


def read_lines(path: str | Path, *, allow_empty: bool = False, keep_ends: bool = False) -> Iterator[str]:
    """Yield the lines of a file, without ``\\n`` or ``\\r\\n`` unless ``keep_ends`` is set. ``-`` means stdin.

    A file whose name ends in ``.gz``, ``.xz`` or ``.bz2`` is decompressed. Raises UserError, with the line number if
    there is one, for a missing file, damaged compressed data, another format than UTF-8 text or, without
    ``allow_empty``, an empty file.
    """
    name = STDIN if path == "-" else str(path)
    count = 0
    try:
        with _open_bytes(path) as stream:
            for line in decode_lines(stream, name, keep_ends=keep_ends):
                count += 1
                yield line
    except UserError:
        raise
    except Exception as error:
        raise UserError(_read_problem(name, count, error)) from None
    if count == 0 and not allow_empty:
        raise UserError(f"{name}: empty file; give a file with at least one line")


def decode_lines(stream: Iterable[bytes], name: str, *, keep_ends: bool = False) -> Iterator[str]:
    """Yield the lines of a stream that yields bytes, such as ``sys.stdin.buffer``; errors call it ``name``.

    ``keep_ends`` keeps all characters, also the byte order mark.
    """
    for number, raw in enumerate(stream, start=1):
        if number == 1 and b"\0" in raw:
            raise UserError(f"{name}: not UTF-8 text; convert it to UTF-8")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}:{number}: invalid UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start + 1}); "
                "convert the file to UTF-8, such as iconv -f CP1252 -t UTF-8"
            ) from None
        if keep_ends:
            yield line
            continue
        line = line.removesuffix("\n").removesuffix("\r")
        yield line.removeprefix("\ufeff") if number == 1 else line


def missing_problem(file: Path) -> str:
    """Return the error text for the name of a file that is not there, with the folder that it is relative to."""
    if os.path.isdir(file):
        return "a folder, not a file"
    if os.path.exists(file):  # such as <(command)
        return "a pipe or a device, but training reads text several times; write it to a file"
    return "no such file" if file.is_absolute() else f"no such file in {Path.cwd()}"


@contextmanager
def _open_bytes(path: str | Path) -> Iterator[Any]:
    """Yield a stream of bytes."""
    if path != "-":
        with opener(str(path))(path, "rb") as stream:
            yield stream
        return
    if sys.stdin is None:
        raise UserError(f"{STDIN}: closed; pipe text into the command, or name a file")
    if sys.stdin in _opened and not sys.stdin.isatty():
        raise UserError("-: stdin was read already, and can be read once; name a file for the other text")
    _opened[:] = [sys.stdin]
    yield sys.stdin.buffer


def _read_problem(name: str, count: int, error: Exception) -> str:
    """Return the error text for a file that cannot be read further after ``count`` lines."""
    if is_damage(error):
        return f"{name}:{count + 1}: damaged compressed data; get a new copy, or rename it if it is plain text"
    if isinstance(error, OSError):
        folder = "" if Path(name).is_absolute() else f" (in {Path.cwd()})"
        return f"{name}: {error.strerror or error}{folder}; check the file name"
    raise error


def read_pairs(
    source: str | Path, target: str | Path, links: str | Path | None = None, *, allow_empty: bool = False
) -> list[Pair]:
    """Return the sentence pairs of two parallel files, with the gold links of a third one if given.

    Raises UserError if the files have different numbers of lines, if they are empty and ``allow_empty`` is not set, or
    if a link is malformed or points outside its sentences.
    """
    pairs = list(iterate_pairs(source, target, allow_empty=allow_empty))
    if links is not None:
        sentences = [(pair.source, pair.target) for pair in pairs]
        pairs = [
            Pair(*sides, tuple(sorted(gold.sure)), tuple(sorted(gold.possible - gold.sure)))
            for sides, gold in zip(sentences, read_gold(links, sentences), strict=True)
        ]
    return pairs


def read_gold(path: str | Path, sentences: Sequence[tuple[str, str]] | None) -> list[Links]:
    """Return the gold links of a file. Raises UserError if they do not fit the sentences, or if none are there."""
    golds = parse_links(list(read_lines(path)), str(path), sentences)
    require_links(golds, str(path))
    return golds


def iterate_pairs(source: str | Path, target: str | Path, *, allow_empty: bool = False) -> Iterator[Pair]:
    """Yield the sentence pairs of two parallel files. Raises UserError at the end of the shorter file."""
    paths = source, target
    files = [read_lines(path, allow_empty=allow_empty) for path in paths]
    for count, lines in enumerate(zip_longest(*files)):
        if None in lines:
            rest = [(line is not None) + sum(1 for _ in file) for file, line in zip(files, lines, strict=True)]
            counts = [f"{path} has {counted(count + more, 'line')}" for path, more in zip(paths, rest, strict=True)]
            raise UserError(
                f"{', '.join(counts)}: line n of one must belong to line n of the others; give files of equal length"
            )
        yield Pair(lines[0], lines[1])
