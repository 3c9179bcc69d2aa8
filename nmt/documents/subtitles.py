"""Subtitles in the format SubRip (.srt): numbers and times stay, the lines of a cue are one line to translate."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence

from nmt.documents.segments import Segments, has_letters
from nmt.errors import UserError
from nmt.files.compression import shell_name
from nmt.inference.markup import MARKUP
from nmt.text.writing import WITHOUT_BLANKS

TIME = r"\s*\d{1,3}:\d\d:\d\d[,.]\d{1,3}"
TIMES = re.compile(rf"{TIME}\s*-->{TIME}(\s.*)?")
TWO_TIMES = re.compile(rf"{TIME}\s*\S{{1,4}}\s*{TIME}(\s.*)?")  # also with another arrow, such as –> of Word
STYLE = re.compile(r"\{\\[^{}<>\"']*\}")  # a tag of SubStation Alpha, which players read too: {\an8} is at the top
STYLE_TAG = re.compile(rf"<nmt-({STYLE.pattern})/>")
TAG = rf"{MARKUP.pattern}|{STYLE.pattern}"
WORD = re.compile(rf"(?:« )?(?:{TAG}|[^ \t\r\n\f])+(?: [!?:;»]+(?![^ ]))*", re.DOTALL)  # French marks stay beside it
OPENING = "「『（【《〈［｛〔“‘(["
CLOSING = "、。，．！？：；…‥」』）】》〉］｝〕”’・ー々ぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶゝゞヽヾ,.!?:;)]%"
UNIT = re.compile(  # a line may end behind it, in a word of Chinese or Japanese
    rf"(?:{TAG}|[{re.escape(OPENING)}])*"
    rf"(?:(?![{re.escape(OPENING + CLOSING)}]){WITHOUT_BLANKS.pattern}"
    rf"|(?:(?!{WITHOUT_BLANKS.pattern}|[{re.escape(OPENING)}]|{TAG}).)+)?"
    rf"(?:</[^<>]*>|[{re.escape(CLOSING)}])*",
    re.DOTALL,
)
OTHER = re.compile(r"WEBVTT\b|\[Script Info\]|\{\d+\}\{\d+\}")  # first line of WebVTT, SubStation Alpha, MicroDVD
SPEAKER = re.compile(r"\s*(?:<[^<>]*>|\{[^{}]*\})*[-‐–—―－]\s*")  # before the text of each speaker
SENTENCE = re.compile(r"[.?!…\"”’»。？！」』؟۔;։።။।](?:\s|</\w+>)*$")  # at the end of a text
# Marks of direction around lines of Arabic and Hebrew, for old players
DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
NOTES = "♪♫♬ "  # around the text of a song
WIDTH = 42  # characters of a line, as most broadcasters set it; those of Chinese and other wide ones count twice


def split_subtitles(lines: Sequence[str], name: str) -> Segments:
    """Return the segments of a file, with one line of HTML for each cue. Errors call the file ``name``.

    Raises UserError, with the line, where a cue has no number or no times.
    """
    parts = list[str]()
    indices = list[int]()
    row = 0
    is_cue = False  # whether a cue is above
    while row < len(lines):
        if not lines[row].strip():
            parts.append(f"{lines[row]}\n")
            row += 1
            continue
        first = row
        if not is_cue or not _is_text(lines, row):
            is_cue = True
            _check_cue(lines, row, name)
            parts.append(f"{lines[row]}\n{lines[row + 1]}\n")
            first = row + 2
        end = next((at for at in range(max(first, row + 1), len(lines)) if _ends_cue(lines, at)), len(lines))
        texts = list[str]()
        for line in (DIRECTIONS.sub("", line) for line in lines[first:end]):
            if not texts or (SPEAKER.match(line) and (SPEAKER.match(texts[0]) or SENTENCE.search(texts[-1]))):
                texts.append(line)
            else:
                texts[-1] += f" {line}"  # also in Chinese, whose subtitles have blanks in place of marks
        for text in texts:
            speaker = SPEAKER.match(text) if len(texts) > 1 else None
            start = max(speaker.end() if speaker else 0, len(text) - len(text.lstrip(NOTES)))
            stop = max(start, len(text.rstrip(NOTES)))
            # Subtitles have tags, but no entities.
            cue = " ".join(text[start:stop].split()).replace("&", "&amp;")
            if has_letters(cue):
                indices.append(len(parts) + 1)
            before, after = (edge if edge.strip() else "" for edge in (text[:start], text[stop:]))
            parts += [before, STYLE.sub(r"<nmt-\g<0>/>", cue), f"{after}\n"]
        row = end
    return Segments(parts, indices, wrap)


def _check_cue(lines: Sequence[str], row: int, name: str) -> None:
    """Raise UserError if this is not the number of a cue, before a line with its times."""
    if row == 0 and OTHER.match(lines[0]):
        fix = f"convert it: ffmpeg -i {shell_name(name)} NEW.srt"
        raise UserError(f"{name}: subtitles of another format than SubRip; {fix}")
    for at, is_right, fix in (
        (row, lines[row].strip().isdecimal(), "a number of a cue, such as 1"),
        (row + 1, row + 1 < len(lines) and TIMES.fullmatch(lines[row + 1]), "times, 00:00:01,000 --> 00:00:02,500"),
    ):
        if not is_right:
            shown = lines[at] if at < len(lines) else ""
            raise UserError(f"{name}:{at + 1}: {shown!r:.80}: not part of a subtitle file; write {fix}")


def _is_text(lines: Sequence[str], row: int) -> bool:
    """Return whether a line after a blank one still belongs to the cue before, as players read it."""
    return not lines[row].strip().isdecimal() and not any("-->" in line for line in lines[row : row + 2])


def _ends_cue(lines: Sequence[str], row: int) -> bool:
    """Return whether a line is blank, or the first one of the next cue: its number, or times without a number."""
    times = row + lines[row].strip().isdecimal()
    return not lines[row].strip() or (times < len(lines) and TWO_TIMES.fullmatch(lines[times]) is not None)


def wrap(cue: str) -> str:
    """Return the text of a cue, which is HTML, in lines of at most ``WIDTH`` columns if its words allow it."""
    lines = [""]
    room = WIDTH
    for word in WORD.findall(STYLE_TAG.sub(r"\1", html.unescape(cue))):
        units = UNIT.findall(word) if WITHOUT_BLANKS.search(word) else [word]
        for number, unit in enumerate(filter(None, units)):
            space = " " if lines[-1] and not number else ""
            room -= len(space) + (width := _width(unit))
            if lines[-1] and room < 0:
                lines.append(unit)
                room = WIDTH - width
            else:
                lines[-1] += space + unit
    return "\n".join(lines)


def _width(text: str) -> int:
    """Return the columns that a text takes on a screen, where wide characters take two, and tags and accents none."""
    visible = [letter for letter in re.sub(TAG, "", text) if unicodedata.category(letter) not in ("Mn", "Me", "Cf")]
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in visible)
