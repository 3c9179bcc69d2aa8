"""nmt-evaluate and nmt-heatmap with the engines of nmt-export: the same results as torch, without importing it."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from nmt.api import Translator
from nmt.commands.align import align
from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.commands.heatmap import heatmap
from nmt.errors import UserError

pytestmark = pytest.mark.thorough

SOURCE = ["the dog sees a cat", "a red house", "the cat sleeps"]
TARGET = ["der Hund sieht eine Katze", "ein rotes Haus", "die Katze schläft"]


@pytest.fixture(scope="module")
def files(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an exported model and the files src, tgt and links."""
    folder = tmp_path_factory.mktemp("engines")
    shutil.copytree(model, folder / "model")
    with redirect_stdout(io.StringIO()):
        export([f"model={folder}/model"])
    for name, lines in {"src": SOURCE, "tgt": TARGET, "links": ["0-0", "", "1-1"]}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def run_without_torch(command: str, arguments: list[str]) -> str:
    """Run the command in a new interpreter, assert that it does not import torch, and return its stdout."""
    code = f"import sys; from nmt.commands.{command} import {command}; {command}(sys.argv[1:])"
    check = f"{code}; assert 'torch' not in sys.modules"
    process = subprocess.run([sys.executable, "-c", check, *arguments], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def page_weights(page: Path) -> list[float]:
    return [float(weight) for weight in re.findall(r'<td title="(\S+)"', page.read_text("utf-8"))]


def test_scores_of_an_engine_need_no_torch(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [f"model={files}/model", f"src={files}/src", f"tgt={files}/tgt", "search.max_length=9"]
    evaluate([*arguments, "engine=torch"])
    assert run_without_torch("evaluate", [*arguments, "engine=onnx"]) == capsys.readouterr().out


def test_error_rate_beside_an_engine_is_that_of_torch(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = [f"src={files}/src", f"tgt={files}/tgt", f"links={files}/links"]
    results = []
    for engine in ("torch", "onnx"):
        evaluate([f"model={files}/model", *sides, f"engine={engine}", "search.max_length=9", "json=true"])
        results.append(json.loads(capsys.readouterr().out))
    assert results[0] == results[1] and results[0]["aer"] is not None


def test_heatmap_of_an_engine_needs_no_torch(files: Path) -> None:
    arguments = [f"model={files}/model", f"src={files}/src", "format=html", "search.max_length=9"]
    heatmap([*arguments, f"output={files}/torch", "engine=torch"])
    run_without_torch("heatmap", [*arguments, f"output={files}/onnx", "engine=onnx"])
    expected = page_weights(files / "torch" / "alignments.html")
    assert len(expected) > 9
    np.testing.assert_allclose(page_weights(files / "onnx" / "alignments.html"), expected, atol=1e-3)


def test_heatmap_of_given_translations_uses_torch(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [f"model={files}/model", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o"]
    with pytest.raises(UserError, match=r"engine=onnx: given translations \(tgt=\) need engine=torch") as caught:
        heatmap([*arguments, "engine=onnx"])
    assert "\n" not in str(caught.value) and not (files / "o").exists()
    heatmap([*arguments, "limit=1"])  # engine=auto
    assert capsys.readouterr().err == ""


def test_links_without_torch_are_refused_before_the_translation(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.inference.load.find_spec", lambda _: None)
    monkeypatch.setattr("nmt.commands.evaluate.translate_lines", lambda *_, **__: pytest.fail("translated"))
    sides = [f"src={files}/src", f"tgt={files}/tgt"]
    with pytest.raises(UserError, match="torch is not installed; install torch with ") as caught:
        evaluate([f"model={files}/model", *sides, f"links={files}/links", "engine=onnx"])
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="torch is not installed"):
        align([f"model={files}/model", *sides])
    translator = Translator.load(files / "model", engine="onnx")
    for method in (translator.score, translator.align):
        with pytest.raises(UserError, match="torch is not installed"):
            method([("a cat", "eine Katze")])
