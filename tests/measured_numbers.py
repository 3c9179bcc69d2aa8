"""Find the measured numbers of a Markdown page, and look them up in the results files of their section.

A measured number is

- a number with a unit (``ms``, ``MB``, ``BLEU``, ``%``, ``×``, ``times as`` …),
- a number with a decimal point in a sentence that names BLEU, chrF, TER or AER, or of a section with results files,
- a number in a table under a heading that names a unit, or in any table of a section that names results files; the
  first column only labels its row.

Code, formulas, link targets and numbers written as words do not count. A section names its results files by links to
``results/NAME.md``, or by a comment, which no reader sees: ``<!-- results: NAME NAME -->``. Its subsections inherit
them. ``<!-- computed: 2.1 = 4.38 / 2.08 -->`` declares a ratio or a difference of two numbers in these files.

A number of a sentence is found if some line of a results file has it, rounded as the page prints it, and a word of the
sentence. A number of a table must be in the row and column that share most words with its own row and column. After
"about" and similar words, zeros at the end of a number are not digits.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

NUMBER = r"(?<![\w.,/§^-])(?<![\w]-)[+−-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w-]|[.,]\d)"
UNIT = (
    r"(?:[nmµ]?s|[kMG]B|%|×(?!\s*\d)|BLEU|chrF|TER|AER|nats?|points|seconds|minutes|hours|GFLOP/s|times (?:as|the)"
    r"|(?:\w+ )?\w+s per second)"
)
JOIN = r"\s?(?:to|and|or|against|–|,|/)\s?"
WITH_UNIT = re.compile(rf"({NUMBER})(?=(?:{JOIN}{NUMBER})*\s?{UNIT}(?!\w))")
SCORE = re.compile(r"\b(?:BLEU|chrF|TER|AER)\b")
UNIT_IN_HEADING = re.compile(rf"(?<!\w)(?:{UNIT}|s|accuracy|loss)(?!\w)")
ROUNDED = re.compile(r"(?:about|nearly|almost|over|more than|less than|up to|some)\s*$", re.IGNORECASE)
SKIPPED = re.compile(
    r"^```.*?^```$|^\$\$.*?^\$\$$|\$[^$\n]+\$|\]\([^)]*\)|<(?!!--)[^>]*>|https?://\S+|arXiv \S+", re.M | re.S
)
CODE = re.compile(r"(?<!`)`[^`\n]+`")
RESULTS_LINK = re.compile(r"\]\((?:[\w./]*/)?results/([\w.]+)\.(?:md|csv)\)")
COMMENT = re.compile(r"<!-- (results|computed|table): (.*?) -->", re.S)
COMPUTED = re.compile(rf"({NUMBER}) = ({NUMBER}) ([/-]) ({NUMBER})")
WORD = re.compile(r"[^\W\d_]+|\d+(?:,\d{3})*(?:\.\d+)?")
COMMON = set("a an and are as at by for from in is it its more of on or per than that the times to two with".split())
NO_WORDS: frozenset[str] = frozenset()
PROVENANCE = ("- command:", "- commit:", "- machine:", "- versions:")


class Number(NamedTuple):
    """A number on a page: text, line, whether zeros at its end count, words of its row or sentence, and of its column.

    ``title`` is empty in prose.
    """

    text: str
    line: int
    rounded: bool
    words: frozenset[str]
    title: frozenset[str]


class Measured(NamedTuple):
    """A number of a results file, whether a table has it, the words of its row or line, and the title of its column."""

    value: float
    in_table: bool
    row: frozenset[str]
    title: frozenset[str]


class Section(NamedTuple):
    """A part of a page: the results files that it names, its computed numbers, and its measured numbers."""

    files: frozenset[str]
    computed: list[tuple[str, str, str, str]]
    numbers: list[Number]


def problems(page: Path, results: Path) -> Iterator[str]:
    """Yield one message per measured number of the page that no results file of its section has."""
    for section in sections(page.read_text("utf-8")):
        files = [read_results(results, name) for name in sorted(section.files)]
        known = [measured for file in files for measured in file]
        values = {number: value_of(number, known) for row in section.computed for number in (row[1], row[3])}
        computed = {row[0]: row for row in section.computed}
        for text, left, operator, right in section.computed:
            if None in (a := values[left], b := values[right]) or not equal(text, a / b if operator == "/" else a - b):
                equation = f"{text} = {left} {operator} {right}"
                yield f"{page.name}: computed number {equation}: does not hold in {names(section)}"
        for number in section.numbers:
            if number.text not in computed and not occurs(number, files):
                yield f"{page.name}:{number.line}: {number.text}: not in {names(section)}"


def names(section: Section) -> str:
    return ", ".join(sorted(section.files)) or "a results file, because its section names none"


def value_of(text: str, known: Iterable[Measured]) -> float | None:
    """Return the number if a results file has it."""
    return to_float(text) if any(equal(text, measured.value) for measured in known) else None


def occurs(number: Number, files: Iterable[list[Measured]]) -> bool:
    """Tell if a file has the number in prose or a table; a number of a table must be where most words agree."""
    for file in files:
        known = [measured for measured in file if measured.in_table or not number.title]
        agreed = [agreement(number, measured) for measured in known]
        needed = max(agreed, default=0) if number.title else 1
        for count, measured in zip(agreed, known, strict=True):
            if count >= max(needed, 1) and equal(number.text, measured.value, rounded=number.rounded):
                return True
    return False


def agreement(number: Number, measured: Measured) -> int:
    """Return how many words two places have in common. Rows may be columns elsewhere, but not the other way round."""
    words = number.words | number.title
    return len(words & measured.row | (number.title or words) & measured.title)


def to_float(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def equal(text: str, value: float, *, rounded: bool = False) -> bool:
    """Tell if the value, rounded to the digits of ``text``, is ``text``. Signs do not count."""
    number = abs(to_float(text))
    mantissa, _, power = text.lstrip("+−-").replace(",", "").partition("e")
    digits = len(mantissa.partition(".")[2])
    if rounded and not digits:
        digits = len(mantissa.rstrip("0")) - len(mantissa)
    step = 10.0 ** (int(power or 0) - digits)
    return abs(number - abs(value)) <= step * 0.5000001


def words_of(*texts: str) -> frozenset[str]:
    """Return the words and numbers that tell rows, columns and sentences apart, in lower case, without plural s."""
    words = {word.lower().replace(",", "") for text in texts for word in WORD.findall(text)} - COMMON
    return frozenset(re.sub(r"(?<=\w\w\w)e?s$", "", word) for word in words)


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def read_results(results: Path, name: str) -> list[Measured]:
    """Return the numbers of NAME.md, or of NAME.csv if it stands alone. Raise FileNotFoundError if there is neither."""
    page, table = results / f"{name}.md", results / f"{name}.csv"
    if page.is_file() or not table.is_file():
        return list(page_numbers(page.read_text("utf-8")))
    with table.open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    return [measured for row in rows for measured in row_numbers(row, heading)]


def page_numbers(text: str) -> Iterator[Measured]:
    """Yield the numbers of a results page, without those of its provenance."""
    heading: list[str] = []
    for line in text.splitlines():
        if line.startswith("|"):
            yield from row_numbers(cells_of(line), heading) if heading else ()
            heading = heading or cells_of(line)
        elif not line.startswith(PROVENANCE):
            heading = []
            yield from (
                Measured(to_float(number), False, words_of(line), NO_WORDS) for number in re.findall(NUMBER, line)
            )


def row_numbers(row: list[str], heading: list[str]) -> Iterator[Measured]:
    for index, cell in enumerate(row):
        title = heading[index] if index < len(heading) else ""
        for text in re.findall(NUMBER, cell):
            yield Measured(to_float(text), True, words_of(*row), words_of(title))


def sections(text: str) -> Iterator[Section]:
    """Yield the sections of a page, each with the results files of the headings above it."""
    blank = CODE.sub(lambda code: re.sub(r"(?<![A-Za-z\d])\d[\d.,]*", blanked, code[0]), SKIPPED.sub(blanked, text))
    starts = [0, *(match.start() for match in re.finditer(r"^#+ ", blank, re.M)), len(text)]
    above: dict[int, frozenset[str]] = {}
    for start, end in zip(starts, starts[1:], strict=False):
        depth = len(blank[start:end]) - len(blank[start:end].lstrip("#"))
        files, computed = set(RESULTS_LINK.findall(text[start:end])), []
        for kind, value in COMMENT.findall(text[start:end]):
            files |= set(value.split()) if kind == "results" else set()
            files |= set(re.findall(r"(?:^|\| )(\w+):", value)) if kind == "table" else set()
            computed += COMPUTED.findall(value) if kind == "computed" else []
        above = {level: inherited for level, inherited in above.items() if level < depth}
        above[depth] = frozenset(files).union(*above.values())
        body = COMMENT.sub(blanked, blank[start:end])
        numbers = list(numbers_of(body, text.count("\n", 0, start) + 1, tables=bool(above[depth])))
        yield Section(above[depth], computed, numbers)


def blanked(match: re.Match[str]) -> str:
    """Return spaces in place of a match, with its line breaks."""
    return re.sub(r"[^\n]", " ", match[0])


def numbers_of(text: str, first_line: int, *, tables: bool) -> Iterator[Number]:
    """Yield the measured numbers of a section; with ``tables``, every number in its tables."""
    paragraph: list[str] = []
    heading: list[str] = []
    for line, content in enumerate([*text.splitlines(), ""], first_line):
        if content.startswith("|"):
            heading = heading or cells_of(content)
            yield from table_numbers(cells_of(content), heading, line, every=tables)
            continue
        heading = []
        if not content.strip() or content.lstrip().startswith(("- ", "#")):
            yield from prose_numbers("\n".join(paragraph), line - len(paragraph), every=tables)
            paragraph = []
        paragraph.append(content)
    yield from prose_numbers("\n".join(paragraph), line - len(paragraph), every=tables)


def table_numbers(row: list[str], heading: list[str], line: int, *, every: bool) -> Iterator[Number]:
    if row is heading or row == heading:
        return
    for index, cell in enumerate(row[1:], 1):
        title = heading[index] if index < len(heading) else ""
        measured = every or UNIT_IN_HEADING.search(title) or UNIT_IN_HEADING.search(row[0])
        for match in re.finditer(NUMBER, cell) if measured else WITH_UNIT.finditer(cell):
            words = words_of(row[0]), words_of(title) | {"table"}
            yield Number(match[0], line, is_rounded(cell, match.start()), *words)


def prose_numbers(text: str, first_line: int, *, every: bool) -> Iterator[Number]:
    start = 0
    for end in [*(match.end() for match in re.finditer(r"[.;!?](?=\s)", text)), len(text)]:
        sentence = text[start:end]
        numbers = {match.start(): match[0] for match in WITH_UNIT.finditer(sentence)}
        if every or SCORE.search(sentence):
            numbers |= {match.start(): match[0] for match in re.finditer(NUMBER, sentence) if "." in match[0]}
        for offset, number in sorted(numbers.items()):
            line = first_line + text.count("\n", 0, start + offset)
            yield Number(number, line, is_rounded(sentence, offset), words_of(sentence), NO_WORDS)
        start = end


def is_rounded(text: str, offset: int) -> bool:
    return bool(ROUNDED.search(text[:offset]))
