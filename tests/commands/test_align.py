"""nmt-align: links of given pairs equal those of forced decoding, from files and from stdin."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import expect_error, write_lines
from commands.texts import SOURCE, Call, Printed

from nmt.alignment.word_weights import word_weights
from nmt.commands.align import align
from nmt.inference.forced_decoding import force_decode
from nmt.inference.translator import Translator

TARGET = ["der Hund sieht eine Katze", "nichts", "ein rotes Haus", ""]


def naive_links(model: Path) -> list[str]:
    """Return a line of links per pair: for each target word, the first source word with the largest weight."""
    lines = []
    for decoding in force_decode(Translator.load(model), SOURCE, TARGET):
        weights = word_weights(decoding).tolist() if decoding.source_words else []
        links = sorted((row.index(max(row)), j) for j, row in enumerate(weights))
        lines.append(" ".join(f"{i}-{j}" for i, j in links))
    return lines


def test_links_of_files_and_of_stdin_are_those_of_forced_decoding(model: Path, files: Path, call: Call) -> None:
    write_lines("tgt", TARGET)
    expected = naive_links(model)
    assert [len(line.split()) for line in expected] == [5, 0, 3, 0]
    assert call(align, f"model={model}", "src=src", "tgt=tgt").lines == expected
    text = "".join(f"{source}\t{target}\n" for source, target in zip(SOURCE, TARGET, strict=True))
    assert call(align, f"model={model}", stdin=text.encode()).lines == expected


@pytest.mark.parametrize("wrong", [b"the\tdog\tder Hund", b"a cat eine Katze", b"a\t\xff"])
def test_pairs_before_a_wrong_line_are_aligned(
    wrong: bytes, model: Path, call: Call, printed: Callable[[], Printed]
) -> None:
    text = b"the dog\tder Hund\n   \n" + wrong + b"\nthe cat\tdie Katze\n"
    expect_error("<stdin>", call, align, f"model={model}", stdin=text)
    first, blank = printed().lines
    assert len(first.split()) == 2 and not blank


def test_pairs_of_stdin_are_aligned_as_they_arrive(
    model: Path, printed: Callable[[], Printed], monkeypatch: pytest.MonkeyPatch
) -> None:
    links: list[str] = []

    class SlowWriter(io.RawIOBase):
        """Writes a pair after it has seen the links of the pair before."""

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            links.extend(printed().lines)
            assert len(links) == len(given)
            given.append(pair)
            buffer[: len(pair)] = pair
            return len(pair) * (len(given) < 4)

    given: list[bytes] = []
    pair = b"the dog\tder Hund\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(SlowWriter())))
    align([f"model={model}"])
    assert [len(line.split()) for line in links] == [2, 2, 2]
