"""benchmarks/papers/paper_copy.py reports the lengths and kinds that it is asked for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import paper_copy

pytestmark = pytest.mark.thorough


def record(name: str) -> dict[str, Any]:
    toolkit = {"commit": "0123456789abcdef", "changed": False}
    results = {"test": {"bleu": 50.0}, "metrics": {}, "curves": {"train_loss": [[9, 2.5], [19, 2.0]]}}
    return {"name": name, "updates": 20, "seconds": 1.5, "toolkit": toolkit, **results}


def test_tables_and_curves_have_only_the_lengths_and_kinds_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = ["memory, K=64", "none"]
    recorded = [f"small-{length}-{kind}" for length in (10, 50, 200) for kind in ("none", "bahdanau", "memory-K64")]
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "paper_copy.jsonl").write_text(
        "".join(f"{json.dumps(record(name))}\n" for name in recorded)
    )
    drawn: list[str] = []
    style = paper_copy.line_style
    monkeypatch.setattr(paper_copy, "line_style", lambda kind: drawn.append(kind) or style(kind))
    words = ["--report-only", "--lengths", "200", "50", "--kinds", *kinds, "--name", "some"]
    folders = ["--runs", str(tmp_path / "paper_copy"), "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["paper_copy.py", *words, *folders])
    paper_copy.main()
    tables = [line for line in (tmp_path / "some.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    labels = [line.split(" | ")[0].removeprefix("| ") for line in tables]
    cells = [f"L = {length}, {kind}" for length in (50, 200) for kind in kinds]
    assert labels == ["attention", *kinds, "cell", *cells]
    assert drawn == [*kinds, *kinds]
    assert (tmp_path / "some.png").is_file()
