"""Subtitles in the format SubRip (.srt): numbers and times stay, the lines of a cue are one line to translate."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from nmt.documents.segments import Segments, has_letters
from nmt.errors import UserError
from nmt.files.compression import shell_name
from nmt.inference.markup import MARKUP

TIME = r"\s*\d{1,3}:\d\d:\d\d[,.]\d{1,3}"
TIMES = re.compile(rf"{TIME}\s*-->{TIME}(\s.*)?")
TWO_TIMES = re.compile(rf"{TIME}\s*\S{{1,4}}\s*{TIME}(\s.*)?")  # also with another arrow, such as –> of Word
STYLE = re.compile(r"\{\\[^{}<>\"']*\}")  # a tag of SubStation Alpha, which players read too: {\an8} is at the top
STYLE_TAG = re.compile(rf"<nmt-({STYLE.pattern})/>")
WORD = re.compile(rf"(?:{MARKUP.pattern}|{STYLE.pattern}|[^ \t\r\n\f])+", re.DOTALL)
OTHER = re.compile(r"WEBVTT\b|\[Script Info\]|\{\d+\}\{\d+\}")  # first line of WebVTT, SubStation Alpha, MicroDVD
SPEAKER = re.compile(r"\s*(?:<[^<>]*>|\{[^{}]*\})*[-‐–—]\s*")  # before the text of each speaker
SENTENCE = re.compile(r"[.?!…\"”’»](?:\s|</\w+>)*$")  # at the end of a text
NOTES = "♪♫♬ "  # around the text of a song
WIDTH = 42  # characters of a line, as most broadcasters set it


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
        for line in lines[first:end]:
            if not texts or (SPEAKER.match(line) and (SPEAKER.match(texts[0]) or SENTENCE.search(texts[-1]))):
                texts.append(line)
            else:
                texts[-1] += f" {line}"
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
    """Return the text of a cue, which is HTML, in lines of at most ``WIDTH`` characters if its words allow it."""
    lines = [""]
    for word in WORD.findall(STYLE_TAG.sub(r"\1", html.unescape(cue))):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
    return "\n".join(lines)
