"""Subtitles: numbers and times stay, and each cue is translated as one line."""

from __future__ import annotations

import re

import pytest
from builders import expect_error
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents.subtitles import split_subtitles, wrap

FILE = """1
00:00:01,000 --> 00:00:02,500
A <i>big dog</i> runs
on the beach & swims.

2
00:00:03.000 --> 00:00:04,000 X1:40 X2:600

3
01:00:05,000 --> 01:00:06,000
- Yes
"""


@pytest.mark.parametrize(
    ("cue", "lines", "translations", "filled"),
    [
        (  # lines of HTML
            "A <i>big dog</i> runs\non the beach & swims.",
            ["A <i>big dog</i> runs on the beach &amp; swims."],
            ["Ein <i>großer Hund</i> läuft am Strand &amp; schwimmt &lt;3."],
            "Ein <i>großer Hund</i> läuft am Strand & schwimmt\n<3.",
        ),
        *((notes.format("la\nla"), ["la la"], ["do"], notes.format("do")) for notes in ("♪ {} ♪", "♪♪{}", "{} ♫")),
        *((cue, [], [], cue) for cue in ("", "♪♪", "<i>♪</i>", "12:30", "… ?")),
        (  # of two speakers
            "<i>- Two\ndogs.</i>\n– A & b",
            ["Two dogs.</i>", "A &amp; b"],
            ["Zwei Hunde.</i>", "x"],
            "<i>- Zwei Hunde.</i>\n– x",
        ),
        (  # only the second one with a dash, as in Dutch
            "<i>Where is\nthe dog?</i>\n-Here.\n- A & b",
            ["<i>Where is the dog?</i>", "Here.", "A &amp; b"],
            ["<i>Wo?</i>", "Hier.", "x"],
            "<i>Wo?</i>\n-Hier.\n- x",
        ),
        ("你来了\n我等你", ["你来了 我等你"], ["x"], "x"),
        ("何だ？\n－はい。", ["何だ？", "はい。"], ["x", "y"], "x\n－y"),
        ("ماذا؟\n- لا", ["ماذا؟", "لا"], ["x", "y"], "x\n- y"),
        ("\u202b- ماذا؟\u202c\n\u202b- لا\u202c", ["ماذا؟", "لا"], ["x", "y"], "- x\n- y"),
        ("- Yes", ["- Yes"], ["- Ja"], "- Ja"),
        ("A dog\n- and a cat -", ["A dog - and a cat -"], ["x"], "x"),
        (  # with blank lines
            "\nA <i>big dog</i> runs\n\n- b\n- c\n \nd\n",
            ["A <i>big dog</i> runs", "b", "c", "d"],
            ["A", *"xyz"],
            "\nA\n\n- x\n- y\n \nz\n",
        ),
    ],
)
def test_text_of_a_cue_is_replaced(cue: str, lines: list[str], translations: list[str], filled: str) -> None:
    text = f"1\n00:00:01,000 --> 00:00:02,500\n{{}}\n\n2\n{FILE.splitlines()[6]}\n\n3\n00:00:05,0 --> 00:00:06,0\ne\n"
    segments = split_subtitles(text.format(cue).splitlines(), "a.srt")
    assert segments.lines == [*lines, "e"]
    assert segments.fill([*translations, "e"]) == text.format(filled)


@given(st.lists(st.lists(st.text(st.sampled_from("ab &<>;é–"), min_size=1).filter(str.strip), max_size=3), max_size=4))
def test_all_words_and_times_stay(cues: list[list[str]]) -> None:
    lines = []
    for number, cue in enumerate(cues, 1):
        lines += [str(number), f"00:00:0{number},000 --> 00:00:0{number},900", *cue, ""]
    segments = split_subtitles(lines, "a.srt")
    assert "–" in "".join(lines) or len(segments.lines) == sum(any(map(str.isalpha, "".join(cue))) for cue in cues)
    filled = segments.fill(segments.lines)
    assert "".join(filled.split()).replace("&amp;", "&") == "".join("".join(lines).split()).replace("&amp;", "&")
    assert re.findall("^.*-->.*$", filled, re.M) == [line for line in lines if "-->" in line]


def test_a_cue_ends_before_the_next_one_without_a_blank_line() -> None:
    lines = [line for line in FILE.splitlines() if line]
    segments = split_subtitles(lines, "a.srt")
    assert segments.lines == split_subtitles(FILE.splitlines(), "a.srt").lines
    filled = segments.fill(segments.lines)
    assert re.findall(r"^\d+\n.*-->.*$", filled, re.M) == re.findall(r"^\d+\n.*-->.*$", FILE, re.M)


@pytest.mark.parametrize("first", ["WEBVTT", "WEBVTT - a", "[Script Info]", "{0}{25}a"])
def test_other_formats_are_named(first: str) -> None:
    expect_error(
        r"^a\.vtt: subtitles of another .*; convert it: ffmpeg -i a\.vtt NEW\.srt$",
        split_subtitles,
        [first, "", "1"],
        "a.vtt",
    )


@pytest.mark.parametrize("width", range(0, 60, 7))
def test_tags_are_not_broken_into_lines(width: int) -> None:
    cue = f'{"a" * width} <font color="red" size="12">b</font> {{\\an8}}c{{\\fnTimes New Roman}} d'
    segments = split_subtitles([*FILE.splitlines()[:2], cue], "a.srt")
    assert "an8" not in re.sub("<[^>]*>", "", segments.lines[0])  # the model does not read it
    filled = segments.fill(segments.lines).splitlines()[2:]
    assert " ".join(filled) == cue.strip()
    assert '<font color="red" size="12">b</font>' in "\n".join(filled)
    assert "{\\fnTimes New Roman}" in "\n".join(filled)


@pytest.mark.parametrize(
    ("cue", "lines"),
    [
        ("我不知道你在说什么，但是我觉得我们应该马上离开", ["我不知道你在说什么，但是我觉得我们应该马上", "离开"]),
        (f"<i>{'あ' * 20}「い」、</i>ッ{'う' * 20}", [f"<i>{'あ' * 20}", f"「い」、</i>ッ{'う' * 16}", "うううう"]),
        ('<font face="微软雅黑">我爱<b>Python</b></font>', ['<font face="微软雅黑">我爱<b>Python</b></font>']),
        ("가나다라마바사아 자차카타파하가나다라 마바사", ["가나다라마바사아 자차카타파하가나다라", "마바사"]),
        (f"<i>{'a ' * 20}ab</i> c", [f"<i>{'a ' * 20}ab</i>", "c"]),
        (f"{'a ' * 20}e\u0301\u0323e\u0301 c", [f"{'a ' * 20}e\u0301\u0323e\u0301", "c"]),
        (f"{'a ' * 19}می\u200cرو c", [f"{'a ' * 19}می\u200cرو", "c"]),
        (f"« {'a ' * 17}bc » ! c", [f"« {'a ' * 17}bc » !", "c"]),
        (f"« {'a ' * 17}bcd » ! c", [f"« {'a ' * 17}".rstrip(), "bcd » ! c"]),
    ],
)
def test_lines_have_at_most_42_columns(cue: str, lines: list[str]) -> None:
    """Each Chinese letter takes two. Marks of Japanese and French stay beside their word."""
    assert wrap(cue).split("\n") == lines


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["x"], r"a\.srt:1: 'x': not part of a subtitle file; write a number of a cue, such as 1"),
        (["", "1", "no"], r"a\.srt:3: 'no': not part of a subtitle file; write times, 00:00:01,000 --> 00:00:02,500"),
        (["1", "0:00:01,0 --> 0:00:02,0", "a", "0:00:03,0 --> 0:00:04,0"], r"a\.srt:4: .* write a number"),
        (
            ["1", "0:00:01,0 --> 0:00:02,0", "a", "", "x", "0:00:03,0 --> 0:00:04,0"],
            r"a\.srt:5: 'x': .* write a number",
        ),
        (["1", "0:00:01,0 --> 0:00:02,0", "a", "", "2", "b"], r"a\.srt:6: 'b': .* write times"),
        (["1", "0:00:01,0 --> 0:00:02,0", "a", "2", "0:00:03,0 –> 0:00:04,0"], r"a\.srt:5: .* write times"),
        (["1"], r"a\.srt:2: '': not part of a subtitle file; write times"),
    ],
)
def test_damaged_files_are_refused_with_their_line(lines: list[str], problem: str) -> None:
    expect_error(f"^{problem}", split_subtitles, lines, "a.srt")
