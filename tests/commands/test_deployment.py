"""A folder from nmt-export output= is complete: nmt-translate needs neither the run nor torch for it."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from commands.processes import finish
from commands.texts import TEXT

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


def run_translate(*words: str, hide: str = "") -> tuple[int, list[str], str]:
    """Return exit code, lines of stdout, and stderr."""
    code, out, error = finish(COMMAND.format(hide=hide), words, text=TEXT)
    return code, out.decode().splitlines(), error.decode()


@pytest.mark.parametrize("engine", ["auto", "onnx-int8"])
def test_a_copied_deployment_translates_with_the_listed_packages(
    deployment: Path, model: Path, tmp_path: Path, engine: str
) -> None:
    place = shutil.copytree(deployment, tmp_path / "elsewhere")
    code, lines, error = run_translate(f"model={place}", f"engine={engine}")
    assert code == 0, error
    if engine == "auto":
        assert lines == Translator.load(model, engine="torch").texts(TEXT.decode().splitlines())
    imported = {name.lower() for name in error.splitlines() if not name.startswith("engine: ")}
    assert imported - {"nmt-memory-attention", "setuptools", "packaging"} <= {*listed(place)}


def listed(place: Path) -> dict[str, str]:
    """Return the version range of each package in the folder's requirements.txt."""
    lines = (place / "requirements.txt").read_text().splitlines()
    return dict(re.fullmatch(r"([\w-]+)(.*)", line).groups() for line in lines if not line.startswith("#"))  # type: ignore[union-attr]


def test_required_packages_are_those_of_the_toolkit(deployment: Path) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    packages = listed(deployment)
    assert {f"{name}{versions}" for name, versions in packages.items()} <= set(project["dependencies"])
    assert (deployment / "card.md").read_text() == "# A model\n"
    heavy = {"torch", "pytorch-lightning", "pyarrow", "sacrebleu", "matplotlib", "onnx", "onnxscript", "rich"}
    assert not heavy & {*packages}


@pytest.mark.parametrize(
    ("words", "key"), [(["model=RUN"], "engine=torch: torch "), (["model=COPY", "engine=torch"], "model=")]
)
def test_missing_torch_is_reported(deployment: Path, model: Path, words: list[str], key: str) -> None:
    words = [word.replace("RUN", str(model)).replace("COPY", str(deployment)) for word in words]
    code, _, error = run_translate(*words, hide="sys.modules['torch'] = None")
    assert code == 2 and error.startswith(f"error: {key}")
