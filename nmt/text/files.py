"""Read text files, plain or gzipped: one UTF-8 sentence per line, and lines end at \\n only."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from nmt.errors import UserError, counted
from nmt.text.links import LinkSettings, parse_links
from nmt.text.pair import Pair

BYTE_ORDER_MARK = "\ufeff"
GZIP_MAGIC = b"\x1f\x8b"  # the first bytes of gzip data; UTF-8 text cannot begin with them


def read_lines(path: str | Path, *, allow_empty: bool = False) -> Iterator[str]:
    """Yield the lines of a file, decompressed if its name ends in ``.gz``, without ``\\n`` or ``\\r\\n``.

    Raises UserError, with the line number if there is one, for a missing file, damaged gzip data, invalid UTF-8 or,
    without ``allow_empty``, an empty file.
    """
    count = 0
    try:
        with _open_bytes(path) as stream:
            for line in decode_lines(stream, str(path)):
                count += 1
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise UserError(f"{path}:{count + 1}: damaged gzip data; get a new copy of the file") from None
    except OSError as error:
        folder = "" if Path(path).is_absolute() else f" (in {Path.cwd()})"
        raise UserError(f"{path}: {error.strerror or error}{folder}; check the file name") from None
    if count == 0 and not allow_empty:
        raise UserError(f"{path}: empty file; give a file with at least one line")


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield the lines of a stream that yields bytes, such as ``sys.stdin.buffer``; errors call it ``name``."""
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if number == 1 and raw.startswith(GZIP_MAGIC):
                raise UserError(f"{name}: gzip data; decompress it, or give it a name that ends in .gz") from None
            raise UserError(
                f"{name}:{number}: invalid UTF-8 (byte 0x{raw[error.start]:02x}"
                f" at position {error.start + 1}); convert the file to UTF-8"
            ) from None
        line = line.removesuffix("\n").removesuffix("\r")
        yield line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def read_pairs(
    source: str | Path,
    target: str | Path,
    links: str | Path | None = None,
    *,
    links_base: int = 0,
    allow_empty: bool = False,
) -> list[Pair]:
    """Return the sentence pairs of two parallel files, with the gold links of a third one if given.

    ``links`` has one of the formats of ``nmt.text.links``. i counts source words and j target words, from
    ``links_base``. Raises UserError if the files have different numbers of lines, if they are empty and ``allow_empty``
    is not set, or if a link is malformed or points outside its sentences.
    """
    pairs = list(iterate_pairs(source, target, allow_empty=allow_empty))
    if links is None:
        return pairs
    sentences = [(pair.source, pair.target) for pair in pairs]
    golds = parse_links(list(read_lines(links)), str(links), LinkSettings(links_base), sentences=sentences)
    return [
        Pair(*sides, tuple(sorted(gold.sure)), tuple(sorted(gold.possible - gold.sure)))
        for sides, gold in zip(sentences, golds, strict=True)
    ]


def iterate_pairs(source: str | Path, target: str | Path, *, allow_empty: bool = False) -> Iterator[Pair]:
    """Yield the sentence pairs of two parallel files. Raises UserError at the end of the shorter file."""
    sources, targets = (read_lines(side, allow_empty=allow_empty) for side in (source, target))
    for count, (x, y) in enumerate(zip_longest(sources, targets)):
        if x is None or y is None:
            _require_equal_length(
                *(source, count + (x is not None) + sum(1 for _ in sources)),
                *(target, count + (y is not None) + sum(1 for _ in targets)),
            )
        yield Pair(x, y)


def _open_bytes(path: str | Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")


def _require_equal_length(first: str | Path, first_count: int, second: str | Path, second_count: int) -> None:
    if first_count != second_count:
        raise UserError(
            f"{first} has {counted(first_count, 'line')}, {second} has {counted(second_count, 'line')}:"
            " line n of one must belong to line n of the other; give files of equal length"
        )
