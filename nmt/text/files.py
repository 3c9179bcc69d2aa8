"""Read text files, plain or gzipped: one UTF-8 sentence per line, and lines end at \\n only."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from nmt.errors import UserError
from nmt.text.links import parse_pharaoh
from nmt.text.pair import Pair

BYTE_ORDER_MARK = "\ufeff"
GZIP_MAGIC = b"\x1f\x8b"  # the first bytes of gzip data; UTF-8 text cannot begin with them


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a file, decompressed if its name ends in ``.gz``, without ``\\n`` or ``\\r\\n``.

    Raises UserError, with the line number if there is one, for a missing or empty file, damaged gzip data or invalid
    UTF-8.
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
    if count == 0:
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
    source: str | Path, target: str | Path, links: str | Path | None = None, *, links_base: int = 0
) -> list[Pair]:
    """Return the sentence pairs of two parallel files, with the gold links of a third one if given.

    Each line of ``links`` belongs to one pair and holds ``i-j`` (sure) and ``ipj`` (possible) links. i counts source
    words and j target words, from ``links_base``. Raises UserError if the files have different numbers of lines, or
    if a link is malformed or points outside its sentences.
    """
    sources, targets = list(read_lines(source)), list(read_lines(target))
    _require_equal_length(source, len(sources), target, len(targets))
    if links is None:
        return [Pair(*sides) for sides in zip(sources, targets, strict=True)]
    link_lines = list(read_lines(links))
    _require_equal_length(source, len(sources), links, len(link_lines))
    pairs = []
    for number, (x, y, line) in enumerate(zip(sources, targets, link_lines, strict=True), start=1):
        gold = parse_pharaoh(line, base=links_base, place=f"{links}:{number}", sentences=(x, y))
        pairs.append(Pair(x, y, tuple(sorted(gold.sure)), tuple(sorted(gold.possible - gold.sure))))
    return pairs


def _open_bytes(path: str | Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")


def _require_equal_length(first: str | Path, first_count: int, second: str | Path, second_count: int) -> None:
    if first_count != second_count:
        raise UserError(
            f"{first} has {first_count} lines, {second} has {second_count} lines:"
            " line n of one must belong to line n of the other; give files of equal length"
        )
