"""Lines from text files, plain or gzipped : one sentence a line, UTF-8, lines end at \\n only."""

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
GZIP = b"\x1f\x8b"  # how such data begins; no UTF-8 does


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file without their ends (``\\n``, and one ``\\r`` before it); ``.gz`` is unpacked.

    UserError, naming file and line where there is one: missing, empty, broken gzip, invalid UTF-8.
    """
    count = 0
    try:
        with _open_bytes(path) as stream:
            for line in decode_lines(stream, str(path)):
                count += 1
                yield line
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise UserError(f"{path}:{count + 1}: broken gzip data; unpack it again from its source") from None
    except OSError as error:
        where = "" if Path(path).is_absolute() else f" (in {Path.cwd()})"
        raise UserError(f"{path}: {error.strerror or error}{where}; check the file's name") from None
    if count == 0:
        raise UserError(f"{path}: empty file; it must hold at least one line")


def decode_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of a byte stream that yields them, such as ``sys.stdin.buffer``; ``name`` is named in errors."""
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if number == 1 and raw.startswith(GZIP):
                raise UserError(f"{name}: gzip data; unpack it, or name it .gz") from None
            raise UserError(
                f"{name}:{number}: invalid UTF-8 (byte 0x{raw[error.start]:02x}"
                f" at position {error.start + 1}); convert the file to UTF-8"
            ) from None
        line = line.removesuffix("\n").removesuffix("\r")
        yield line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def read_pairs(
    source: str | Path, target: str | Path, links: str | Path | None = None, *, links_base: int = 0
) -> list[Pair]:
    """The sentence pairs of two parallel files, and the gold links of a third where given.

    ``links`` has one line a pair, of ``i-j`` (sure) and ``ipj`` (possible, left out here: training and the
    summary know sure links only); i counts source and j target words from ``links_base``.
    UserError: files of unequal length, links that are malformed or point outside their sentence.
    """
    sources, targets = list(read_lines(source)), list(read_lines(target))
    _require_equal(source, len(sources), target, len(targets))
    if links is None:
        return [Pair(*sides) for sides in zip(sources, targets, strict=True)]
    golds = list(read_lines(links))
    _require_equal(source, len(sources), links, len(golds))
    pairs = []
    for number, (x, y, line) in enumerate(zip(sources, targets, golds, strict=True), start=1):
        gold = parse_pharaoh(line, base=links_base, place=f"{links}:{number}", sentences=(x, y))
        pairs.append(Pair(x, y, tuple(sorted(gold.sure))))
    return pairs


def _open_bytes(path: str | Path) -> gzip.GzipFile | BinaryIO:
    return gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")


def _require_equal(first: str | Path, first_count: int, second: str | Path, second_count: int) -> None:
    if first_count != second_count:
        raise UserError(
            f"{first} has {first_count} lines, {second} has {second_count} lines:"
            " line n of both must belong together; give files of equal length"
        )
