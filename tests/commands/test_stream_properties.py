"""One line out per line in, in order, for random text that arrives in random pieces."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import expect_error
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.commands import translate as module
from nmt.data.text_files import read_lines
from nmt.inference.bulk import OnFailure
from nmt.inference.translation import Translation

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:source text"),  # random characters cannot be read
]
# Everything that UTF-8 can hold, except the line break; and words of the model, so that some lines have translations.
LINE = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12),
    st.lists(st.sampled_from(["the", "dog", "sees", "a", "cat", "\r", "\u2028", "|||"]), max_size=5).map(" ".join),
)
LINES = st.lists(LINE, max_size=8)


class Pipe(io.RawIOBase):
    """A pipe whose reads return at most ``sizes`` bytes, one size after the other."""

    def __init__(self, data: bytes, sizes: Iterable[int]) -> None:
        self.data, self.sizes = data, iter(sizes)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(next(self.sizes, len(buffer)), len(buffer), len(self.data))
        buffer[:size], self.data = self.data[:size], self.data[size:]
        return size


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[str], bytes, list[int]]:
    """Return lines, their bytes, with or without a final line break, and the sizes in which these arrive."""
    lines = draw(LINES)
    data = "".join(f"{line}\n" for line in lines).encode()
    ends_in_cr = len(lines) == 1 and "\r" in lines[0].removesuffix("\r")  # refused without a line feed
    if lines and lines[-1] and not ends_in_cr and draw(st.booleans()):
        data = data[:-1]
    return lines, data, draw(st.lists(st.integers(1, 20), max_size=30))


def as_read(lines: list[str]) -> list[str]:
    """Return the lines without what belongs to the file: carriage returns at their ends, a mark at the start."""
    stripped = [line.removesuffix("\r") for line in lines]
    return [stripped[0].removeprefix("\ufeff"), *stripped[1:]] if stripped else []


class Echo:
    """A translator that returns each line in capitals."""

    def translate_groups(
        self, groups: Iterable[list[str]], *_: object, on_failure: OnFailure, **__: object
    ) -> Iterator[list[Translation]]:
        for lines in groups:
            yield [Translation(line.swapcase()) for line in lines]


class Run:
    """Runs nmt-translate with a translator, on a pipe or a file, and returns its output lines."""

    def __init__(self, translator: Any, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        patch.setattr(module, "load_model", lambda *_, **__: translator)

    def on_pipe(self, data: bytes, sizes: list[int], *words: str) -> list[str]:
        self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(data, sizes), 16)))
        return self.output([*words])

    def output(self, words: list[str]) -> list[str]:
        stdout = io.TextIOWrapper(io.BytesIO())
        self.patch.setattr(sys, "stdout", stdout)
        module.translate(["model=unused", "search=greedy", "search.max_length=8", *words])
        text = stdout.buffer.getvalue().decode()  # type: ignore[attr-defined]
        assert not text or text.endswith("\n")
        return text.split("\n")[:-1]


def test_echo_returns_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(Echo(), monkeypatch)

    @settings(max_examples=50)
    @given(arrivals())
    def check(arrival: tuple[list[str], bytes, list[int]]) -> None:
        lines, data, sizes = arrival
        assert run.on_pipe(data, sizes) == [line.swapcase() for line in as_read(lines)]

    check()


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_finished_lines_stay_beside_the_output_after_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(Echo(), monkeypatch)
    source, output = tmp_path / "in.txt", tmp_path / name
    words = [f"input={source}", f"output={output}"]
    source.write_bytes(b"a\nb\n\xff\nd\n")
    output.write_text("older")
    kept = [tmp_path / name.replace("txt", f"txt.unfinished{number}") for number in ("", 2)]
    for file in kept:  # an existing file is not replaced
        expect_error(str(source), run.output, words)
        assert list(read_lines(file)) == ["A", "B"]
    source.write_bytes(b"\xff\n")
    expect_error(str(source), run.output, words)
    assert output.read_text() == "older" and sorted(tmp_path.iterdir()) == sorted([source, output, *kept])
    source.write_bytes(b"a\n")
    run.output(words)
    assert list(read_lines(output)) == ["A"]


@pytest.mark.parametrize("lines", [560, 1000])  # of 560 lines, the last are written when the file is complete
def test_finished_lines_stay_if_the_disk_is_full(
    lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_disk: Callable[[int], None]
) -> None:
    (tmp_path / "in.txt").write_text(f"{'a' * 99}\n" * lines)
    full_disk(55_000)
    run = Run(Echo(), monkeypatch)
    expect_error(f"{tmp_path}/out", run.output, [f"input={tmp_path}/in.txt", f"output={tmp_path}/out"])
    kept = tmp_path / "out.unfinished"
    assert sorted(tmp_path.iterdir()) == [tmp_path / "in.txt", kept]
    assert kept.read_text().startswith(f"{'A' * 99}\n" * 500)


def test_a_dash_means_stdin_and_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Run(Echo(), monkeypatch).on_pipe(b"a\nb\n", [], "input=-", "output=-") == ["A", "B"]
    assert not [*tmp_path.iterdir()]
