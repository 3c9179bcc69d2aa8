"""Results files name commits that can be checked out, and docs/papers.md says "works" only where that is shown."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.report import save

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
INDEX = RESULTS / "README.md"
FILES = sorted({*RESULTS.glob("*.md")} - {INDEX})
COMMIT = re.compile(r"\b[0-9a-f]{7,40}\b\+?|\bunknown\b")
HEADER = re.compile(r"- (?:commits?: |trained at|cells trained at|measured at|at )")


def commits(text: str) -> set[str]:
    """Return the commits in the header of a results file and in table columns of that name."""
    places, column = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if HEADER.match(line):
            places.append(line)
        elif not line.startswith("|"):
            column = None
        elif "commit" in cells:
            column = cells.index("commit")
        elif column is not None:
            places.append(cells[column])
    return {commit for place in places for commit in COMMIT.findall(place)}


def faults(text: str, reachable: Callable[[str], bool] = lambda _: True) -> set[str]:
    """Return the commits that nobody can check out; "none" if the file names no commit."""
    found = commits(text) or {"none"}
    return {
        commit for commit in found if commit in ("none", "unknown") or commit.endswith("+") or not reachable(commit)
    }


def index_rows(section: str) -> dict[str, list[str]]:
    """Return the cells after the file name in each row of a section of the list of results, by file name."""
    text = INDEX.read_text("utf-8").partition(f"# {section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \[(\w+)\]\(\1\.md\) \| (.*) \|$", text, re.MULTILINE)
    return {f"{name}.md": [cell.strip() for cell in cells.split("|")] for name, cells in rows}


# Files that only new runs can mend, and their commits.
UNMENDED = {name: {*COMMIT.findall(row[0])} for name, row in index_rows("Commits that you cannot check out").items()}


@pytest.fixture(scope="module")
def history() -> Callable[[str], bool]:
    """A function that says whether a commit is in the history. Skips where the checkout has no complete history."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout

    try:
        top, shallow = git("rev-parse", "--show-toplevel", "--is-shallow-repository").split("\n")[:2]
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git, or no checkout")
    if Path(top) != ROOT or shallow == "true":
        pytest.skip("the folder is not a checkout with its complete history")
    hashes = git("rev-list", "HEAD").split()
    return lambda commit: any(name.startswith(commit) for name in hashes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- commit: 1234567\n- trained at 7654321 (2 runs)\n\n| a |", set()),
        ("- commit: 1234567+\n", {"1234567+"}),
        ("- commit: 1234567\n- trained at abcdef0 (2 runs), 7654321+ (1 run)\n", {"abcdef0", "7654321+"}),
        ("- commit: unknown\n", {"unknown"}),
        ("- commits: 1234567 (one), abcdef0 (two)\n", {"abcdef0"}),
        ("- commit: 1234567\n\n| a | commit |\n|---|---|\n| 1 | abcdef0 |\n\n| b |\n| abcdef1 |\n", {"abcdef0"}),
        ("- command: python x.py abcdef0\n\nText.\n", {"none"}),
    ],
)
def test_a_commit_that_nobody_can_check_out_is_found(text: str, expected: set[str]) -> None:
    assert faults(text, {"1234567", "7654321"}.__contains__) == expected


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_results_file_comes_from_a_dirty_or_unknown_commit(file: Path) -> None:
    known = {commit for commit in UNMENDED.get(file.name, ()) if commit.endswith("+")}
    assert faults(file.read_text("utf-8")) == known


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_results_come_from_commits_in_the_history(file: Path, history: Callable[[str], bool]) -> None:
    assert faults(file.read_text("utf-8"), history) == UNMENDED.get(file.name, set())


def test_the_list_of_results_has_every_file_and_its_commit() -> None:
    rows = index_rows("Results")
    heads = {file.name: re.search(r"^- commits?: (.*)$", file.read_text("utf-8"), re.MULTILINE) for file in FILES}
    listed = {name: {*COMMIT.findall(commit)} for name, (_, _, commit, _) in rows.items()}
    assert listed == {name: {*COMMIT.findall(head[1])} for name, head in heads.items() if head}


def test_files_of_benchmarks_that_code_and_pages_name_exist() -> None:
    files = [*(ROOT / "nmt").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    files = [file for file in files if "_build" not in file.parts]
    named = {path for file in files for path in re.findall(r"\bbenchmarks/[\w/]+\.\w+", file.read_text("utf-8"))}
    assert named and not [path for path in named if not (ROOT / path).is_file()]


def test_a_new_report_keeps_what_a_person_wrote_under_it(tmp_path: Path) -> None:
    file = tmp_path / "cost.md"
    reading = "\n## Reading\n\nReads differ.\n\n## More\n"
    save(file, ["# Cost", "| 1 |"], show=False)
    assert file.read_text("utf-8") == "# Cost\n| 1 |\n"
    file.write_text(f"# Cost\n| 1 |\n{reading}", encoding="utf-8")
    for number in (2, 3):
        save(file, ["# Cost", f"| {number} |"], show=False)
        assert file.read_text("utf-8") == f"# Cost\n| {number} |\n{reading}"


# docs/papers.md.

STATUSES = ("exact", "works", "agrees", "measured", "differs", "not run")
CLAIMS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in (ROOT / "docs" / "papers.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and line.count(" | ") == 3 and not line.endswith("| status |")
]


@pytest.mark.parametrize("row", CLAIMS, ids=lambda row: row[0])
def test_a_claim_works_only_with_a_test_or_three_seeds(row: list[str]) -> None:
    _, place, seeds, status = row
    tests = re.findall(r"`(tests/[^`:]+)", place)
    assert all((ROOT / test).is_file() for test in tests)
    assert status.startswith(STATUSES) and re.fullmatch(r"–|\d( to \d|(, \d)*)", seeds)
    if status.startswith("works"):
        assert tests or (seeds != "–" and int(seeds[0]) >= 3)


def test_the_page_of_papers_lists_the_claims() -> None:
    assert len(CLAIMS) > 90
