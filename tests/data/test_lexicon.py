"""Lexicons: what the counts of links write is read back, and lines of another form are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders import refusal

from nmt.data.lexicon import LinkCounts, read_lexicon


def test_most_frequent_links_are_written_and_read(tmp_path: Path) -> None:
    counts = LinkCounts()
    for target in ("c", "b", "b", "c", "d"):
        counts.add("x  y", f"{target} e", [(1, 0), (0, 1)])
    assert [*counts.lexicon_lines(1)] == ["x\te", "y\tb"]  # b and c are linked equally often
    assert [*counts.lexicon_lines(3)] == ["x\te"]
    file = tmp_path / "lexicon"
    file.write_text("\n".join(counts.lexicon_lines(1)) + "\n \nYork\tNew York \n", "utf-8")
    lexicon = read_lexicon(file)
    assert lexicon == {"x": "e", "y": "b", "York": "New York"} and read_lexicon(file) is lexicon
    file.write_text("x\tz\n", "utf-8")
    os.utime(file, ns=(0, 0))
    assert read_lexicon(file) == {"x": "z"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a b", "write one source word, a tab and its translation"),
        ("a\t", "write one"),
        ("a b\tc", "write one"),
        ("\tc", "write one"),
        ("a\tb\tc", "write one"),
        ("x\tz", "has another target above; keep one of them"),
    ],
)
def test_wrong_lines_are_refused(line: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "lexicon"
    file.write_text(f"x\ty\n{line}\n", "utf-8")
    assert refusal(read_lexicon, file).startswith(f"{file}:2: {line!r}: {problem}")
