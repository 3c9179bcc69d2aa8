"""Text files: lines end at \\n only, and errors name the file and the line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path

import pytest
from builders import expect_error

from nmt.commands.streams import line_writer
from nmt.data.links import Pair
from nmt.data.text_files import read_lines, read_pairs
from nmt.files.atomic import write_lines


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
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


def test_pairs_are_read_with_sure_and_possible_links(tmp_path: Path) -> None:
    source = write(tmp_path / "a.en", b"a man\n\n")
    target = write(tmp_path / "a.de.gz", b"ein Mann\nx\n")
    assert read_pairs(source, target) == [Pair("a man", "ein Mann"), Pair("", "x")]
    links = write(tmp_path / "a.links", b"1p0 0-0 0p0 1-1\n\n")
    pairs = read_pairs(source, target, links)
    assert [pair.links for pair in pairs] == [((0, 0), (1, 1)), ()]
    assert [pair.possible for pair in pairs] == [((1, 0),), ()]
    expect_error(r"a\.links:2: ", read_pairs, source, target, write(tmp_path / "a.links", b"0-0\n0-0\n"))


TEXT = "ein Haus\ndas größere Haus\n"
PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("ending", PACK)
def test_compressed_text_is_read_and_written_by_the_end_of_its_name(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"x.txt{ending}"
    file.write_bytes(PACK[ending](TEXT.encode()))
    assert list(read_lines(file)) == TEXT.splitlines()
    write_lines(file, ["a", "", "ü\u2028b", "c\r"])
    assert list(read_lines(file)) == ["a", "", "ü\u2028b", "c"] and file.read_bytes()[:2] == PACK[ending](b"")[:2]
    with line_writer(str(file)) as write_group:
        write_group(["b"])
        write_group(["c"])
    assert list(read_lines(file)) == ["b", "c"]
    damaged = PACK[ending](TEXT.encode() * 99)
    file.write_bytes(damaged + damaged)
    assert len([*read_lines(file)]) == 2 * 99 * 2
    for content in (damaged[:-9], damaged[:20] + b"?" * 9 + damaged[29:]):
        file.write_bytes(content)
        expect_error(str(file), list, read_lines(file))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("x.txt", compress(TEXT.encode())) for compress in PACK.values()),
        ("x.gz", b"plain text\n"),
        *(("x.txt", TEXT.encode(encoding)) for encoding in ("utf-16", "utf-16-le", "utf-32", "latin1")),
        ("x.txt.gz", gzip.compress(TEXT.encode("utf-16"))),
        ("x.txt", b""),
        ("x.txt", b"%PDF-1.7\n%\xe2\xe3\n"),
    ],
    ids=lambda value: value if isinstance(value, str) else len(value),  # gzip stores the time
)
def test_what_is_not_utf8_text_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    expect_error(name, list, read_lines(name))


def test_files_of_different_lengths_are_refused(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.en", b"a\nb\n"), write(tmp_path / "a.de", b"x\ny\nz\n")
    expect_error(r"a\.en has 2 lines, .*a\.de has 3 lines", read_pairs, source, target)
    for path in ("none.txt", "."):
        expect_error(str(tmp_path / path), read_pairs, tmp_path / path, target)


def test_stdin_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a.de", b"ein Mann\n")
    for _ in range(2):  # another stdin is another text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a man\n")))
        assert read_pairs("-", file) == [Pair("a man", "ein Mann")]
        expect_error(r"^-: stdin was read already, and can be read once; name a file for ", read_pairs, file, file, "-")
