"""Measured numbers of README.md, docs/ and benchmarks/ are in a results file; ``measured_numbers`` has the rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from measured_numbers import Number, Section, occurs, problems, read_results, sections

from benchmarks import tables

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
LOG = ROOT / "benchmarks" / "LOG.md"
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
PAGES.append(ROOT / "benchmarks" / "README.md")
CHANGED_FOUND = 0.85  # share of changed digits that must be noticed; two cells of one row may hold similar numbers


# The pages of the project.


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_measured_numbers_are_in_results_files(page: Path) -> None:
    missing = list(problems(page, RESULTS))
    assert not missing, "\n".join([str(page.relative_to(ROOT)), *missing])


def test_log_lines_with_a_link_quote_the_results_file() -> None:
    linked = [line for line in LOG.read_text("utf-8").splitlines() if "](results/" in line]
    missing = [
        f"{number.text} in: {line}"
        for line in linked
        for section in sections(line.replace("|", " "))
        for number in section.numbers
        if not occurs(number, [read_results(RESULTS, name) for name in section.files])
    ]
    assert linked and not missing, "\n".join(missing)


def test_tables_of_the_pages_are_those_of_the_results_files() -> None:
    requested = 0
    for page in tables.PAGES:
        text = page.read_text("utf-8")
        requested += len(tables.REQUEST.findall(text))
        assert tables.with_tables(text, RESULTS) == text, f"{page}: run python -m benchmarks.tables"
    assert requested


def test_output_in_the_readme_is_that_of_the_default_run() -> None:
    if not (demo := RESULTS / "demo.md").is_file():
        pytest.skip("python -m benchmarks.quality.demo writes it")
    printed = " ".join(demo.read_text("utf-8").split())
    block = re.findall(r"^```text\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)[0]
    lines = [" ".join(line.partition("…")[0].split()) for line in block.splitlines()]
    assert [line for line in lines if line.startswith(("train:", "epoch", "│ test")) and line not in printed] == []


def test_most_changed_digits_are_noticed() -> None:
    noticed = [
        not occurs(number, files)
        for page in PAGES
        for section in sections(page.read_text("utf-8"))
        for files in [[read_results(RESULTS, name) for name in section.files]]
        for number in changed_numbers(section)
    ]
    assert len(noticed) > 500 and sum(noticed) >= CHANGED_FOUND * len(noticed), sum(noticed) / len(noticed)


def changed_numbers(section: Section) -> Iterator[Number]:
    """Yield each number with its last digit one higher and one lower, without powers of ten."""
    for number in section.numbers:
        head, digit = number.text[:-1], number.text[-1]
        if "e" not in head:
            yield from (number._replace(text=f"{head}{(int(digit) + step) % 10}") for step in (1, 9))


# The rules.


def test_tables_join_columns_of_two_files(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("| kind | s | MB |\n|---|---|---|\n| x | 1 | 2 |\n| y | 3 | 4 |\n")
    (tmp_path / "b.md").write_text("Text\n\n| kind | BLEU |\n|---|---|\n| y | 5 |\n| z | 6 |\n\n| other |\n")
    page = "Before\n\n<!-- table: a: MB as size; s | b: BLEU -->\n| old |\n|---|\n\nAfter\n"
    rows = [
        "| kind | size | s | BLEU |",
        "|---|---|---|---|",
        "| x | 2 | 1 |  |",
        "| y | 4 | 3 | 5 |",
        "| z |  |  | 6 |",
    ]
    expected = page.replace("| old |\n|---|\n", "".join(f"{row}\n" for row in rows))
    assert tables.with_tables(page, tmp_path) == expected == tables.with_tables(expected, tmp_path)
    with pytest.raises(SystemExit, match=re.escape("no column 'min' in a.md; it has s; MB")):
        tables.with_tables("<!-- table: a: min -->\n", tmp_path)
