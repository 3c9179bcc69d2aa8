"""Text files: lines end at \\n only, and errors name the file and the line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.text.files import decode_lines, read_lines, read_pairs
from nmt.text.pair import Pair


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\r\nc\rd\n", ["a", "b\r", "c\rd"]),
        ("a\u2028b\x85c\x0bd\n\n e \n".encode(), ["a\u2028b\x85c\x0bd", "", " e "]),
        (b"\n", [""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ],
)
def test_lines_are_split_and_decoded(tmp_path: Path, name: str, content: bytes, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / name, content))) == lines


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", b"", r"x\.txt: empty file"),
        ("x.gz", b"", r"x\.gz: empty file"),
        ("x.txt", b"good\nb\xffd\n", r"x\.txt:2: invalid UTF-8 \(byte 0xff at position 2\)"),
        ("x.txt", b"truncated character \xc3", r"x\.txt:1: invalid UTF-8"),
    ],
)
def test_empty_files_and_invalid_utf8_are_rejected(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(read_lines(write(tmp_path / name, content)))


def test_missing_files_folders_and_damaged_gzip_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.txt: No such file"):
        list(read_lines(tmp_path / "none.txt"))
    with pytest.raises(UserError, match="Is a directory"):
        list(read_lines(tmp_path))
    for content in (
        b"plain text",
        gzip.compress(b"a\n" * 9)[:-9],
        gzip.compress(bytes(range(32, 127)))[:60] + b"?" * 9,
    ):
        path = tmp_path / "x.gz"
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"x\.gz:\d+: damaged gzip"):
            list(read_lines(path))


def test_pairs_are_read_with_sure_and_possible_links(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", b"a man\n\n")
    target = write(tmp_path / "a.de.gz", b"ein Mann\nx\n")
    assert read_pairs(source, target) == [Pair("a man", "ein Mann"), Pair("", "x")]
    links = write(tmp_path / "a.links", b"1p0 0-0 0p0 1-1\n\n")
    pairs = read_pairs(source, target, links)
    assert [pair.links for pair in pairs] == [((0, 0), (1, 1)), ()]
    assert [pair.possible for pair in pairs] == [((1, 0),), ()]
    links = write(tmp_path / "a.links", b"1-1 2p1 2-2\n\n")
    pair = read_pairs(source, target, links, links_base=1)[0]
    assert (pair.links, pair.possible) == (((0, 0), (1, 1)), ((1, 0),))


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (b"0-0\n", r"a\.links has 1 line of links for 2 sentences"),
        (b"0-0\n0-0\n", r"a\.links:2: 0-0 points outside the sentences of 0 and 1 word;"),
        (b"0-2\n\n", r"a\.links:1: 0-2 points outside"),
        (b"0:1\n\n", r"a\.links:1: '0:1': not a link"),
    ],
)
def test_malformed_and_outside_links_are_rejected(tmp_path: Path, links: bytes, message: str) -> None:
    source, target = write(tmp_path / "a.en", b"a man\n\n"), write(tmp_path / "a.de", b"ein Mann\nx\n")
    with pytest.raises(UserError, match=message):
        read_pairs(source, target, write(tmp_path / "a.links", links))


def test_links_that_count_from_0_are_recognised(tmp_path: Path) -> None:
    sides = write(tmp_path / "a.en", b"a man\n"), write(tmp_path / "a.de", b"ein Mann\n")
    with pytest.raises(UserError, match=r"a\.links:1: '0-1' counts words from 0, not from 1; set links_base=0"):
        read_pairs(*sides, write(tmp_path / "a.links", b"1-1 0-1\n"), links_base=1)


def test_sides_of_unequal_length_are_reported_with_both_counts(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.en", b"a\nb\nc\n"), write(tmp_path / "a.de", b"a\nb\n")
    with pytest.raises(UserError, match=r"a\.en has 3 lines, .*a\.de has 2 lines"):
        read_pairs(source, target)


def test_gzip_data_without_gz_suffix_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    with pytest.raises(UserError, match=r"x\.txt: gzip data; decompress it, or give it a name that ends in \.gz$"):
        list(read_lines(path))
    path.write_bytes(b"a\n\x1f\x8b\n")
    with pytest.raises(UserError, match=r"x\.txt:2: invalid UTF-8 \(byte 0x8b at position 2\)"):
        list(read_lines(path))
    with pytest.raises(UserError, match=r"^<stdin>: gzip data; decompress it"):
        list(decode_lines([gzip.compress(b"a\n")], "<stdin>"))
