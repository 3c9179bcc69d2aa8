"""A folder from nmt-export output= is complete: nmt-translate needs neither the run nor torch for it."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import expect_error
from commands.processes import finish
from commands.texts import TEXT

from nmt.commands.export import export
from nmt.errors import UserError
from nmt.inference.onnx.export import PACKAGES
from nmt.inference.translator import Translator

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
HIDE_TORCH = "sys.modules['torch'] = None"


def run_translate(*words: str, hide: str = "") -> tuple[int, list[str], str]:
    """Return exit code, lines of stdout, and stderr."""
    code, out, error = finish(COMMAND.format(hide=hide), words, text=TEXT)
    return code, out.decode().splitlines(), error.decode()


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """A deployment in a folder without the run."""
    folder = tmp_path_factory.mktemp("deployments") / "my model"
    export([f"model={model}", f"output={folder}"])
    return folder


@pytest.mark.parametrize("engine", ["auto", "onnx", "onnx-int8"])
def test_a_copied_deployment_translates_with_the_listed_packages(
    deployed: Path, model: Path, tmp_path: Path, engine: str
) -> None:
    place = shutil.copytree(deployed, tmp_path / "elsewhere")
    code, lines, error = run_translate(f"model={place}", f"engine={engine}")
    assert code == 0, error
    if engine != "onnx-int8":
        assert lines == Translator.load(model, engine="torch").texts(TEXT.decode().splitlines())
    imported = {name.lower() for name in error.splitlines() if not name.startswith("engine: ")}
    assert imported - {"nmt-memory-attention", "setuptools", "packaging"} == {*listed(place)}


def listed(place: Path) -> dict[str, str]:
    """Return the version range of each package in the folder's requirements.txt."""
    lines = (place / "requirements.txt").read_text().splitlines()
    return dict(re.fullmatch(r"([\w-]+)(.*)", line).groups() for line in lines if not line.startswith("#"))  # type: ignore[union-attr]


def installed_with(packages: dict[str, str]) -> set[str]:
    """Return the packages that pip installs with these, in lower case, and the toolkit, which pip installs alone."""
    names, waiting = {"nmt-memory-attention", "setuptools"}, list(packages)  # setuptools loads in every Python
    while waiting:
        name = waiting.pop().lower()
        if name not in names:
            names.add(name)
            needed = importlib.metadata.requires(name) or []
            waiting += [re.match(r"[\w.-]+", item)[0] for item in needed if ";" not in item]  # type: ignore[index]
    return names


def test_required_packages_are_those_of_the_toolkit(deployed: Path) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    packages = listed(deployed)
    assert {f"{name}{versions}" for name, versions in packages.items()} <= set(project["dependencies"])
    assert (deployed / "requirements.txt").read_text() == PACKAGES.read_text()
    heavy = {"torch", "pytorch-lightning", "pyarrow", "sacrebleu", "matplotlib", "onnx", "onnxscript", "rich"}
    assert not heavy & installed_with(packages)


def test_scores_from_python_are_refused(deployed: Path) -> None:
    with pytest.raises(UserError, match="name the folder of the training run"):
        Translator.load(deployed).score([("a cat", "a")])


def test_missing_torch_is_reported_with_its_installation(deployed: Path, model: Path) -> None:
    fix = "install torch with pip install nmt-memory-attention"
    code, _, error = run_translate(f"model={model}", hide=HIDE_TORCH)
    assert code == 2
    assert error.startswith(f"error: engine=torch: torch is not installed; {fix}, or use engine=onnx\n")
    code, _, error = run_translate(f"model={deployed}", "engine=torch", hide=HIDE_TORCH)
    assert code == 2
    assert error.startswith(f"error: model={deployed}: ") and f"training run, and {fix}\n" in error


def test_damage_in_a_deployment_is_an_error_not_a_fallback(deployed: Path, tmp_path: Path) -> None:
    place = shutil.copytree(deployed, tmp_path / "mine")
    (place / "step.onnx").write_bytes(b"half")
    expect_error("step.onnx: cannot be read as a graph .wrong checksum.", Translator.load, place)


def test_sequential_attention_has_no_deployment(make_model: Callable[..., Path], tmp_path: Path) -> None:
    model = make_model("DeltaAttention")
    expect_error(
        "Delta attention needs torch to encode the source; remove output= and ",
        export,
        [f"model={model}", f"output={tmp_path}/mine"],
    )
    assert not (tmp_path / "mine").exists()
    export([f"model={model}", "engine=onnx"])
    shutil.copytree(model / "onnx", tmp_path / "copy")
    expect_error(
        "copy: torch has to encode the source; name the folder of the training run", Translator.load, tmp_path / "copy"
    )
