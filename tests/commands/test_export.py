"""nmt-export: its graphs give the results of torch without torch, in the run's folder and in a copied deployment."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from builders import expect_error, refusal
from commands.processes import LATER, MAIN, finish, run_without_torch
from commands.texts import TEXT, Call

from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.commands.heatmap import heatmap
from nmt.commands.translate import translate
from nmt.inference.onnx.model import exported_engines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

pytestmark = pytest.mark.thorough

# Runs a command with sys.argv, and prints the distributions whose modules it imported, one per line, to stderr.
COMMAND = """
import importlib.metadata, sys
{hide}
from nmt.commands.shell import run
from nmt.commands.translate import translate
try:
    run(translate)
finally:
    owners = importlib.metadata.packages_distributions()
    files = [name for name, module in list(sys.modules.items()) if getattr(module, "__file__", None)]
    names = {{owner for name in files for owner in owners.get(name.partition(".")[0], ())}}
    print(*sorted(names), sep="\\n", file=sys.stderr)
"""


def run_translate(*words: str, hide: str = "") -> tuple[int, list[str], str]:
    """Return exit code, lines of stdout, and stderr."""
    code, out, error = finish(COMMAND.format(hide=hide), words, text=TEXT)
    return code, out.decode().splitlines(), error.decode()


def test_onnx_translations_equal_torch_and_need_no_torch(exported: Path, files: Path, call: Call) -> None:
    words = [f"model={exported}", "search.max_length=9"]
    expected, error = call(translate, *words, "alignments=torch", "engine=torch", stdin=TEXT)
    assert "engine" not in error
    assert run_without_torch("translate", [*words, "engine=onnx", "alignments=onnx"], TEXT).splitlines() == expected
    assert Path("onnx").read_text() == Path("torch").read_text()
    assert run_without_torch("translate", [*words, "engine=onnx"], b"a small dog\n", unwanted=LATER)
    assert call(translate, *words, stdin=TEXT) == (expected, "engine: onnx\n")


def test_scores_and_heatmaps_of_an_engine_need_no_torch(exported: Path, files: Path, call: Call) -> None:
    words = [f"model={exported}", "src=src", "search.max_length=9"]
    expected = call(evaluate, *words, "tgt=tgt", "engine=torch").lines
    assert run_without_torch("evaluate", [*words, "tgt=tgt", "engine=onnx"]).splitlines() == expected
    heatmap([*words, "format=html", "output=torch", "engine=torch"])
    run_without_torch("heatmap", [*words, "format=html", "output=onnx", "engine=onnx"])
    pages = [Path(engine, "alignments.html").read_text("utf-8") for engine in ("torch", "onnx")]
    weights = [[float(weight) for weight in re.findall(r'<td title="(\S+)"', page)] for page in pages]
    assert len(weights[0]) > 9
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-3)


def test_translating_writes_nothing_into_the_home_folder(exported: Path, tmp_path: Path) -> None:
    """By default, onnxruntime stores events and an identifier of the machine there, and sends them."""
    home = tmp_path / "home"
    home.mkdir()
    shell = 'exec env -i HOME="$HOME" PYTHONPATH="$PYTHONPATH" "$@"'  # it stores nothing where it finds CI=1
    words = [f"model={exported}", "search.max_length=9"]
    status, _, error = finish(MAIN.format("translate"), words, shell, b"a cat\n", env={"HOME": str(home)})
    assert (status, [*home.rglob("*")]) == (0, []), error


def test_an_export_of_one_engine_makes_it_the_default(exported: Path, tmp_path: Path, call: Call) -> None:
    run = shutil.copytree(exported, tmp_path / "run")
    expected = Translator.load(run, engine="onnx-int8").texts(["a cat", "the dog"])
    printed = {Path(line.split()[0]).name for line in call(export, f"model={run}", "engine=onnx-int8").lines}
    graphs = {f"{kind}.int8.onnx" for kind in ("encode", "step", "search", "greedy")}
    names = {"align.onnx", "weights.int8.bin", *graphs}
    assert {file.name for file in (run / "onnx").iterdir()} - {"about.json", "source.model"} == names
    assert printed == {*names, "onnx"}
    assert exported_engines(run) == ["onnx-int8"] and Translator.load(run).texts(["a cat", "the dog"]) == expected
    expect_error("engine", Translator.load, run, engine="onnx")
    refusal(Translator.load, (run / "onnx").rename(tmp_path / "graphs"), engine="torch")


@pytest.mark.parametrize("engine", ["auto", "onnx-int8"])
def test_a_copied_deployment_translates_with_the_listed_packages(
    deployment: Path, model: Path, tmp_path: Path, engine: str
) -> None:
    place = shutil.copytree(deployment, tmp_path / "elsewhere")
    code, lines, error = run_translate(f"model={place}", f"engine={engine}", "search.max_length=9")
    assert code == 0, error
    if engine == "auto":
        translator = Translator.load(model, engine="torch")
        assert lines == translator.texts(TEXT.decode().splitlines(), SearchOptions(max_length=9))
    imported = {name.lower() for name in error.splitlines() if not name.startswith("engine: ")}
    listed = dict(re.findall(r"(?m)^([\w-]+)(.*)$", (place / "requirements.txt").read_text()))
    assert imported - {"nmt-memory-attention", "setuptools", "packaging"} <= {*listed}
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert {f"{name}{versions}" for name, versions in listed.items()} <= set(project["dependencies"])
    serve = set((place / "requirements-serve.txt").read_text().splitlines())
    assert serve >= {f"{name}{versions}" for name, versions in listed.items()}.union(
        project["optional-dependencies"]["serve"]
    )
    assert not {"torch", "pytorch-lightning", "pyarrow", "sacrebleu", "matplotlib", "onnx", "onnxscript"} & {*listed}


@pytest.mark.parametrize(
    ("words", "key"), [(["model=RUN"], "engine=torch: torch "), (["model=COPY", "engine=torch"], "model=")]
)
def test_missing_torch_is_reported(deployment: Path, model: Path, words: list[str], key: str) -> None:
    words = [word.replace("RUN", str(model)).replace("COPY", str(deployment)) for word in words]
    code, _, error = run_translate(*words, hide="sys.modules['torch'] = None")
    assert code == 2 and error.startswith(f"error: {key}")
