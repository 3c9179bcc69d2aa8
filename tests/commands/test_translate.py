"""nmt-translate: one line out per line in, in order, for any content and any way of arriving."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from math import exp
from pathlib import Path
from typing import Any

import pytest
from builders import expect_error, write_lines
from commands.processes import MAIN, finish, start
from commands.texts import Call, Printed
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.commands import streams
from nmt.commands import translate as module
from nmt.commands.align import align
from nmt.commands.evaluate import evaluate
from nmt.commands.translate import translate
from nmt.data.text_files import read_lines
from nmt.inference.bulk import OnFailure
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

PROGRAM = MAIN.format("translate")
LINES = ["the dog sees a cat", "", "a red house", "  \t ", "the cat\r", "ein\u2028Haus\x85 \x0b da", "日本 🙂 ▁"]


class Echo:
    """A translator that returns each line in capitals."""

    split_lines = 0

    def translate_groups(
        self, groups: Iterable[list[str]], *_: object, on_failure: OnFailure, **__: object
    ) -> Iterator[list[Translation]]:
        for lines in groups:
            yield [Translation(line.swapcase()) for line in lines]


@pytest.fixture
def echo(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which nmt-translate writes capitals."""
    monkeypatch.setattr(module, "load_model", lambda *_, **__: Echo())
    return files


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


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=12)  # \0: of UTF-16, which is refused


@pytest.mark.thorough
def test_every_line_of_a_pipe_is_written(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @settings(max_examples=50)
    @given(st.lists(TEXT, max_size=8), st.booleans(), st.lists(st.integers(1, 20), max_size=30))
    def check(lines: list[str], ends: bool, sizes: list[int]) -> None:
        stdout = io.TextIOWrapper(io.BytesIO())
        text = "".join(f"{line}\n" for line in lines)
        if not ends and lines and lines[-1] and "\r" not in text:
            text = text[:-1]
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(text.encode(), sizes), 16)))
        monkeypatch.setattr(sys, "stdout", stdout)
        translate(["model=unused", "input=-", "output=-"])
        stripped = [line.removesuffix("\r") for line in lines]
        read = [stripped[0].removeprefix("\ufeff"), *stripped[1:]] if lines else []
        written = stdout.buffer.getvalue().decode()  # type: ignore[attr-defined]
        assert written == "".join(f"{line.swapcase()}\n" for line in read)

    check()


@pytest.mark.filterwarnings("ignore:source text")  # of unknown tokens
def test_each_input_line_gives_one_output_line(model: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "GROUP", 3)
    lines, _ = call(translate, f"model={model}", stdin="\n".join(LINES).encode())
    assert lines == Translator.load(model).texts(LINES)
    assert [not line for line in lines] == [not line.strip() for line in LINES]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (align, "src=empty tgt=empty"),
        (align, ""),
        (translate, "input=empty output=out alignments=links"),
        (translate, ""),
    ],
)
def test_empty_input_gives_empty_output(command: Any, words: str, model: Path, files: Path, call: Call) -> None:
    Path("empty").touch()
    assert call(command, f"model={model}", *words.split()).lines == []
    for name in ("out", "links") if "output=" in words else ():
        assert Path(name).read_bytes() == b""


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_finished_lines_stay_beside_the_output_after_an_error(name: str, echo: Path) -> None:
    words = ["model=unused", "input=in", f"output={name}"]
    Path("in").write_bytes(b"a\nb\n\xff\nd\n")
    Path(name).write_text("older")
    for number in ("", 2):  # an existing file is not replaced
        expect_error("in", translate, words)
        assert list(read_lines(name.replace("txt", f"txt.unfinished{number}"))) == ["A", "B"]
    Path("in").write_bytes(b"\xff\n")
    expect_error("in", translate, words)
    assert Path(name).read_text() == "older" and len([*echo.iterdir()]) == 6
    Path("in").write_bytes(b"a\n")
    translate(words)
    assert list(read_lines(name)) == ["A"]


@pytest.mark.parametrize("lines", [560, 1000])  # of 560 lines, the last are written when the file is complete
def test_finished_lines_stay_if_the_disk_is_full(lines: int, echo: Path, full_disk: Callable[[int], None]) -> None:
    write_lines("in", ["a" * 99] * lines)
    full_disk(55_050)  # in the middle of a line
    expect_error("out", translate, ["model=unused", "input=in", "output=out"])
    kept = Path("out.unfinished").read_text()
    assert not Path("out").exists() and kept.startswith(f"{'A' * 99}\n" * 500)
    assert len(kept) % 100 == 0  # whole lines


def test_lines_before_invalid_bytes_are_translated(model: Path, call: Call, printed: Callable[[], Printed]) -> None:
    expect_error("<stdin>", call, translate, f"model={model}", stdin=b"a cat\nthe dog\n\xff\xfe\na cat\n")
    assert printed().lines == Translator.load(model).texts(["a cat", "the dog"])


def test_pages_keep_their_form(model: Path, files: Path, call: Call) -> None:
    page = "\ufeff<p>the <b>dog</b> sees\n<i>a cat</i></p>\r\n<script>x</script>\r<td>a red house\n\r\n\n"
    texts = Translator.load(model).texts(["the <b>dog</b> sees\n<i>a cat</i>", "a red house"], markup=True)
    for end in ("", " ", "<br>", "\n\n"):
        Path("in.html").write_bytes(f"{page}{end}".encode())
        call(translate, f"model={model}", "format=html", "input=in.html", "output=out.html")
        expected = f"\ufeff<p>{texts[0]}</p>\r\n<script>x</script>\r<td>{texts[1]}\n\r\n\n{end}"
        assert Path("out.html").read_bytes() == expected.encode()
    for copied in ("", "<pre>\n\n\n"):
        lines, error = call(translate, f"model={model}", "format=html", stdin=copied.encode())
        assert lines == copied.split("\n")[:-1] and error.startswith("warning: <stdin>: ") == bool(copied)


def test_a_glossary_without_effect_is_named(model: Path, files: Path, call: Call) -> None:
    Path("terms").write_text("hund\tdog\n")
    for text, count in ((b"the dog\nthe HUND\n", 1), (b"the dog\nthe hund\n", 0)):
        error = call(translate, f"model={model}", "search.glossary=terms", stdin=text).error
        assert error.count("warning: search.glossary=terms: ") == count


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("scores=true search.length_penalty=1.5", lambda log_prob, n: log_prob / ((5 + n) / 6) ** 1.5),
        ("scores=confidence search.length_penalty=0", lambda log_prob, n: exp(log_prob / n)),
    ],
)
def test_scores_precede_translations(
    words: str, expected: Callable[[float, int], float], model: Path, call: Call
) -> None:
    (blank, line), _ = call(translate, f"model={model}", *words.split(), stdin=b"\nthe dog")
    score, text = line.split("\t")
    alpha = float(words.partition("penalty=")[2])
    best = Translator.load(model).translate(["the dog"], SearchOptions(length_penalty=alpha))[0]
    assert text == best.text and float(score) == pytest.approx(expected(best.log_prob, len(best.tokens)), abs=1e-4)
    assert blank.endswith("\t")


def test_translation_of_a_very_long_line_is_cut_with_a_warning(model: Path, call: Call) -> None:
    text = b"a cat\n" + b"dog " * 10_000 + b"\na cat\n"
    (first, second, third), error = call(
        translate, f"model={model}", "search=greedy", "search.max_length_ratio=2", stdin=text
    )
    assert first == third and 0 < len(second.split()) <= 1000
    assert error.startswith("warning: <stdin>:2: ") and error.count("\n") == 1


def test_a_source_too_long_for_the_attention_is_named(make_model: Callable[..., Path], files: Path, call: Call) -> None:
    model = make_model("LowRankAttention", slots=3)  # for up to 20 pieces, of which the second line has more
    write_lines("src", ["a cat", "dog " * 30, "a cat"])
    write_lines("tgt", ["eine Katze", "Hund", "Katze"])
    write_lines("gold", ["0-0", "0-0 1-0", "0-0"])
    for command, words, count in (
        (translate, "input=src", 1),
        (align, "src=src tgt=tgt", 1),
        (evaluate, "src=src tgt=tgt links=gold", 2),  # it is not translated, and not aligned
    ):
        lines, error = call(command, f"model={model}", *words.split())
        assert error.count("warning: src:2: source of ") == count
        if command is translate:  # the first and the last translation are cut
            assert [line.split(":")[2] for line in error.splitlines()] == ["1", "2", "3"]
        if command is not evaluate:
            assert [bool(line) for line in lines] == [True, False, True]
    page = f"<p>a<p>{'dog ' * 30}\n"
    lines, error = call(translate, f"model={model}", "format=html", stdin=page.encode())
    assert lines[0].endswith(f"<p>{'dog ' * 30}") and "warning: <stdin>: sentence 2: source of " in error


@pytest.mark.thorough
def test_slow_writer_gets_each_line_at_once_and_closed_pipe_is_silent(exported: Path) -> None:
    child = start(PROGRAM, [f"model={exported}", "engine=onnx", "threads=1", "search.max_length=9"], bufsize=0)
    assert child.stdin and child.stdout and child.stderr
    watchdog = threading.Timer(60, child.kill)
    watchdog.start()
    for _ in range(2):
        child.stdin.write(b"a cat\n")
        assert os.read(child.stdout.fileno(), 4096).endswith(b"\n")  # while stdin is still open
    child.stdout.close()
    child.stdin.write(b"a cat\n")
    child.stdin.close()
    assert child.stderr.read() == b"" and child.wait() == 141
    watchdog.cancel()
    child.stderr.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "words", "lines"),
    [
        ('exec "$@" >&-', ["output=out"], 3),
        ('(echo before; "$@"; echo after) >> out', ["output=/dev/stdout"], 5),
    ],
)
def test_closed_and_redirected_streams_lose_no_line(
    script: str, words: list[str], lines: int, exported: Path, tmp_path: Path
) -> None:
    words = [f"model={exported}", "engine=onnx", "search.max_length=9", *words]
    code, _, error = finish(PROGRAM, words, script, b"a cat\n\na dog\n", cwd=tmp_path)
    written = (tmp_path / "out").read_text().splitlines()
    assert (code, error, len(written)) == (0, b"", lines)
    assert lines == 3 or (written[0], written[-1]) == ("before", "after")


def test_short_writes_to_stdout_are_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that becomes full cuts a write short, without an error before the next one."""

    class Cut(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(data[:5])

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Cut()))
    with streams.line_writer(None) as write:
        write(["first", "second", "third"])
    assert sys.stdout.buffer.getvalue() == b"first\nsecond\nthird\n"  # type: ignore[attr-defined]
