"""nmt-evaluate and nmt-heatmap with the engines of nmt-export: the same results as torch, without importing it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from commands.processes import MAIN, finish, run_without_torch
from commands.texts import Call

from nmt.commands.evaluate import evaluate
from nmt.commands.heatmap import heatmap

pytestmark = pytest.mark.thorough

WORDS = ["src=src", "search.max_length=9"]


def page_weights(page: Path) -> list[float]:
    return [float(weight) for weight in re.findall(r'<td title="(\S+)"', page.read_text("utf-8"))]


def test_scores_of_an_engine_need_no_torch(exported: Path, files: Path, call: Call) -> None:
    words = [f"model={exported}", *WORDS, "tgt=tgt"]
    expected = call(evaluate, *words, "engine=torch").lines
    assert run_without_torch("evaluate", [*words, "engine=onnx"]).splitlines() == expected


def test_heatmap_of_an_engine_needs_no_torch(exported: Path, files: Path) -> None:
    words = [f"model={exported}", *WORDS, "format=html"]
    heatmap([*words, "output=torch", "engine=torch"])
    run_without_torch("heatmap", [*words, "output=onnx", "engine=onnx"])
    expected = page_weights(Path("torch/alignments.html"))
    assert len(expected) > 9
    np.testing.assert_allclose(page_weights(Path("onnx/alignments.html")), expected, atol=1e-3)


def test_translating_writes_nothing_into_the_home_folder(exported: Path, tmp_path: Path) -> None:
    """By default, onnxruntime stores events and an identifier of the machine there, and sends them."""
    home = tmp_path / "home"
    home.mkdir()
    shell = 'exec env -i HOME="$HOME" PYTHONPATH="$PYTHONPATH" "$@"'  # it stores nothing where it finds CI=1
    words = [f"model={exported}", "search.max_length=9"]
    status, _, error = finish(MAIN.format("translate"), words, shell, b"a cat\n", env={"HOME": str(home)})
    assert (status, [*home.rglob("*")]) == (0, []), error
