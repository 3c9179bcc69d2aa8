"""benchmarks/rebuild.py runs every benchmark once per state of the code, and names what it cannot run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import rebuild

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
# They answer no question themselves.
TOOLS = {"rebuild", "tables", "run_queue", "speed.ct2_peer", "quality.marian_peer"}
WRITE = 'import sys\nopen("benchmarks/results/%s.md", "w").write("- commit: " + sys.argv[1] + "\\n")\n'


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *author, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def tracked(pattern: str) -> list[Path]:
    """Return the benchmark files that git tracks. A reader may have put others beside them."""
    return [ROOT / name for name in git(ROOT, "ls-files", f":(glob)benchmarks/{pattern}").splitlines()]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the entries ``good``, ``bad`` and ``lacking``, and the script of each."""
    for folder in ("nmt", "benchmarks/results"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "nmt" / "code.py").write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("runs\n")
    for name in ("good", "lacking", "last"):
        (tmp_path / "benchmarks" / f"{name}.py").write_text(f'"""Ask {name}?"""\n{WRITE % name}')
    (tmp_path / "benchmarks" / "bad.py").write_text('"""Ask bad?"""\nraise ValueError("no memory")\n')
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = (git(tmp_path, "rev-parse", "--short", "HEAD"),)
    entries = [
        rebuild.Entry("good", "good", 1, commit),
        rebuild.Entry("bad", "bad", 1),
        rebuild.Entry("lacking", "lacking", 1, commit, needs=("data/file",)),
        rebuild.Entry("last", "last", 1, commit, timing=True),
    ]
    monkeypatch.setattr(rebuild, "ENTRIES", entries)
    monkeypatch.setattr(rebuild, "ROOT", tmp_path)
    monkeypatch.setattr(rebuild, "RESULTS", tmp_path / "benchmarks" / "results")
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["rebuild.py", *words])
    return int(rebuild.main())


def test_every_script_and_every_results_file_has_an_entry() -> None:
    programs = [path for path in tracked("**/*.py") if "__main__" in path.read_text("utf-8")]
    scripts = {".".join(path.relative_to(BENCHMARKS).with_suffix("").parts) for path in programs}
    long = {job["command"].split()[2].removeprefix("benchmarks.") for job in rebuild.long_jobs()}
    listed = {entry.script for entry in rebuild.ENTRIES} - {""} | long
    assert [name for name in sorted(scripts - listed - TOOLS) if ".paper_" not in name] == []
    assert listed <= scripts
    entries = {entry.name for entry in rebuild.ENTRIES}
    assert len(entries) == len(rebuild.ENTRIES)
    files = {path.stem for path in tracked("results/*.md")} - {"single"}
    known = ("paper_", *(name.rpartition(".")[2] for name in long))
    assert [name for name in sorted(files - entries) if not name.startswith(known)] == []


def test_failed_and_skipped_entries_do_not_stop_the_others(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch) == 1
    printed = capsys.readouterr().out
    assert "bad: failed after 0 min: ValueError: no memory; see runs/rebuild/bad.log" in printed
    assert "lacking: skipped, needs data/file" in printed and printed.endswith("failed: bad\n")
    assert (repository / "benchmarks" / "results" / "last.md").is_file()


def test_entry_is_done_until_the_code_changes(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def states(*words: str) -> list[str]:
        call(monkeypatch, "--list", *words)
        return [line.rpartition("[")[2][:-1] for line in capsys.readouterr().out.splitlines()]

    call(monkeypatch)
    capsys.readouterr()
    assert states() == ["done", "open", "needs data/file", "done"]
    assert states("--timings") == ["done"] and states("--trainings") == ["done", "open", "needs data/file"]
    (repository / "README.md").write_text("results\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "second")
    assert states("--only", "good") == ["done"]
    (repository / "nmt" / "code.py").write_text("x = 2\n")
    assert call(monkeypatch) == 2 and "uncommitted changes: M nmt/code.py" in capsys.readouterr().out
    assert call(monkeypatch, "--allow-changes", "--only", "good") == 0
    git(repository, "commit", "-qam", "third")
    capsys.readouterr()
    assert states("--only", "good") == ["open"]
