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

PAGE = """# Title

Text has 5 parts and takes 1.5 s.

## Speed

<!-- results: speed -->
| engine | s | lines |
|---|---|---|
| torch | 2.1 | 40 |
| `onnx` | 0.52 | 160 |

The engine onnx is 4.0 times as fast as torch.
<!-- computed: 4.0 = 2.08 / 0.52 -->

### Below

On onnx it takes about 0.5 s, with `size=99 MB` in 1990.
"""
SPEED = "# Speed\n\n- versions: torch 9.9\n\n| engine | s (quartiles) | lines |\n|---|---|---|\n"
SPEED += "| torch | 2.08 (1.9–2.2) | 40 |\n| onnx | 0.52 (0.5–0.6) | 160 |\n"


def page_problems(text: str, folder: Path) -> list[str]:
    (folder / "page.md").write_text(text, encoding="utf-8")
    (folder / "speed.md").write_text(SPEED, encoding="utf-8")
    return list(problems(folder / "page.md", folder))


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


def test_only_the_number_without_results_file_is_missing(tmp_path: Path) -> None:
    assert page_problems(PAGE, tmp_path) == ["page.md:3: 1.5: not in a results file, because its section names none"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("| 2.1 |", "| 2.0 |", "page.md:10: 2.0: not in speed"),
        ("0.52 | 160", "0.53 | 160", "page.md:11: 0.53: not in speed"),
        ("| `onnx` | 0.52", "| `onnx` | 2.08", "page.md:11: 2.08: not in speed"),  # of another row
        ("4.0 times", "4.1 times", "page.md:13: 4.1: not in speed"),
        ("4.0 = 2.08", "4.0 = 2.18", "page.md: computed number 4.0 = 2.18 / 0.52: does not hold in speed"),
        ("about 0.5 s", "about 0.7 s", "page.md:18: 0.7: not in speed"),
    ],
)
def test_changed_number_is_named_with_page_and_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert PAGE.count(old) == 1
    assert message in page_problems(PAGE.replace(old, new), tmp_path)


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
