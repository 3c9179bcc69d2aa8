"""nmt-translate: one line out per line in, in order, for any content and any way of arriving."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from math import exp
from pathlib import Path

import pytest
from builders import expect_error, write_lines
from commands.processes import MAIN, finish, start
from commands.texts import Call, Printed

from nmt.commands import streams
from nmt.commands.translate import translate
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

PROGRAM = MAIN.format("translate")
LINES = ["the dog sees a cat", "", "a red house", "  \t ", "the cat\r", "ein\u2028Haus\x85 \x0b da", "日本 🙂 ▁"]


def test_each_input_line_gives_one_output_line(model: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "GROUP", 3)
    lines, _ = call(translate, f"model={model}", stdin="\n".join(LINES).encode())
    assert lines == Translator.load(model).texts(LINES)
    assert [not line for line in lines] == [not line.strip() for line in LINES]


def test_pages_keep_their_form(model: Path, files: Path, call: Call) -> None:
    page = "<p>the <b>dog</b> sees\n<i>a cat</i></p>\n<script>x</script><td>a red house\n\n"
    texts = Translator.load(model).texts(["the <b>dog</b> sees\n<i>a cat</i>", "a red house"], markup=True)
    write_lines("in.html", page.split("\n")[:-1])
    call(translate, f"model={model}", "format=html", "input=in.html", "output=out.html")
    assert Path("out.html").read_text("utf-8") == f"<p>{texts[0]}</p>\n<script>x</script><td>{texts[1]}\n\n"
    for copied in ("", "<pre>\n\n\n"):
        lines, error = call(translate, f"model={model}", "format=html", stdin=copied.encode())
        assert lines == copied.split("\n")[:-1] and error.startswith("warning: <stdin>: ") == bool(copied)


@pytest.mark.parametrize(
    ("words", "line", "warns"),
    [
        ("", b"the dog", True),
        ("", b"the hund", False),
        ("format=html", b"the <b>d</b>og &amp;", True),
        ("format=html", b"the h<i>un</i>d", False),
    ],
)
def test_a_glossary_without_effect_is_named(
    words: str, line: bytes, warns: bool, model: Path, files: Path, call: Call
) -> None:
    Path("terms").write_text("hund\tdog\n")
    error = call(translate, f"model={model}", "search.glossary=terms", *words.split(), stdin=line + b"\na cat\n").error
    assert error.count("warning: search.glossary=terms: ") == warns


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
    (first, second, third), error = call(translate, f"model={model}", "search=greedy", stdin=text)
    assert first == third and 0 < len(second.split()) <= 1000
    assert error.startswith("warning: <stdin>:2: ") and error.count("\n") == 1


def test_lines_before_invalid_bytes_are_translated(model: Path, call: Call, printed: Callable[[], Printed]) -> None:
    expect_error("<stdin>", call, translate, f"model={model}", stdin=b"a cat\nthe dog\n\xff\xfe\na cat\n")
    assert printed().lines == Translator.load(model).texts(["a cat", "the dog"])


@pytest.mark.thorough
def test_slow_writer_gets_each_line_at_once_and_closed_pipe_is_silent(model: Path) -> None:
    child = start(PROGRAM, [f"model={model}", "threads=1"], bufsize=0)
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
    script: str, words: list[str], lines: int, model: Path, tmp_path: Path
) -> None:
    code, _, error = finish(PROGRAM, [f"model={model}", *words], script, b"a cat\n\na dog\n", cwd=tmp_path)
    written = (tmp_path / "out").read_text().splitlines()
    assert (code, error, len(written)) == (0, b"", lines)
    assert lines == 3 or (written[0], written[-1]) == ("before", "after")
