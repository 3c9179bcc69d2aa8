"""benchmarks/rebuild.py knows every benchmark and every results file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import rebuild

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
# They answer no question themselves.
TOOLS = {"rebuild", "tables", "run_queue", "speed.ct2_peer", "quality.marian_peer"}


def tracked(pattern: str) -> list[Path]:
    """Return the benchmark files that git tracks. A reader may have put others beside them."""
    command = ["git", "ls-files", f":(glob)benchmarks/{pattern}"]
    return [ROOT / name for name in subprocess.check_output(command, cwd=ROOT, text=True).splitlines()]


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
