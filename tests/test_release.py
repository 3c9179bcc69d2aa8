"""The files around the package agree: versions, dependencies, workflows, and what people are told to install."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from nmt import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted({*(ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")} - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"})
TEXTS = sorted(
    path
    for pattern in ("*.md", "nmt/**/*.py", "nmt/*.txt", "docs/**/*.md", "conf/**/*.yaml", ".github/**/*", "deploy/*")
    for path in ROOT.glob(pattern)
    if path.is_file() and "_build" not in path.parts
)


def plain(name: str) -> str:
    """Return the name of a distribution as the index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    found = [line.partition(";")[0].strip().split("==") for line in lines if not line.startswith("#")]
    return {plain(name): version for name, version in found}


def requirements() -> list[Requirement]:
    """Return the direct dependencies, also of the extras that constraints.txt covers."""
    extras = PROJECT["optional-dependencies"]
    lists = [PROJECT["dependencies"], *(extras[name] for name in extras if name != "wandb")]
    found = [Requirement(text) for texts in lists for text in texts]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_constraints_have_a_version_in_the_range(requirement: Requirement) -> None:
    assert requirement.specifier.contains(pins()[plain(requirement.name)])


def test_dependencies_have_a_lowest_version_and_avoid_withdrawn_ones() -> None:
    for requirement in requirements():
        assert any(part.operator == ">=" for part in requirement.specifier), requirement
    (lightning,) = (each for each in requirements() if each.name == "pytorch-lightning")
    assert not any(lightning.specifier.contains(version) for version in ("2.6.2", "2.6.3"))


def test_versions_agree() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    released = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert citation["version"] == __version__ and __version__ in released[:2]
    assert released[0] in (__version__, "Unreleased")
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]["hooks"]
    assert {word for hook in hooks for word in hook["additional_dependencies"]} == {f"ruff=={pins()['ruff']}"}


def test_citation_names_the_authors_and_the_five_texts() -> None:
    citation: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["cff-version"] == "1.2.0" and citation["message"] and citation["title"]
    assert citation["license"] == PROJECT["license"] and citation["authors"] == PROJECT["authors"]
    papers = (ROOT / "docs" / "papers.md").read_text("utf-8")
    assert len(citation["references"]) == 5
    for text in citation["references"]:
        assert text["type"] and text["title"] and text["authors"] and text["url"] in papers
        assert all(author["family-names"] in papers for author in text["authors"][:1])


def test_workflows_and_pages_call_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    called = set()
    for path in [*WORKFLOWS, ROOT / ".ci" / "run", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "installing.md"]:
        for words in re.findall(r"(?m)(?:run: |^|`)make ([^`\n#>]+)", path.read_text("utf-8")):
            called |= {word for word in words.split() if "=" not in word}
    assert len(WORKFLOWS) == 2 and called >= {"lint", "types", "test", "site", "wheel"} and called <= targets


@pytest.mark.parametrize("path", [*WORKFLOWS, *FORMS], ids=lambda path: path.name)
def test_workflows_and_issue_forms_can_be_read(path: Path) -> None:
    content = yaml.safe_load(path.read_text("utf-8"))
    if path in WORKFLOWS:
        steps = [step for job in content["jobs"].values() for step in job["steps"]]
        assert content["permissions"] == {"contents": "read"} and all(step.keys() & {"run", "uses"} for step in steps)
        assert all(job["timeout-minutes"] for job in content["jobs"].values())
    else:
        labels = [field["attributes"]["label"] for field in content["body"]]
        assert content["name"] and content["description"] and len(labels) == len({*labels}) > 0


def test_tests_run_on_the_oldest_python() -> None:
    (workflow,) = (path for path in WORKFLOWS if path.stem == "ci")
    pythons = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert len(pythons) == 2 and PROJECT["requires-python"] == f">={pythons[0]}"


def test_nobody_is_told_to_install_a_name_that_is_not_ours() -> None:
    """The package is not on the index: whoever registers its name there would own such a command."""
    seen = set()
    for path in TEXTS:
        for words in re.findall(r"pip install\s+([^`\n]+)", path.read_text("utf-8")):
            for word in re.findall(r"[^\s'\"]+", words):
                name, _, extras = word.partition("[")
                assert plain(name) not in (PROJECT["name"], "nmt"), f"{path}: pip install {words}"
                if name == ".":
                    seen |= {extra for extra in extras.rstrip("].),;").split(",") if extra}
    assert {"serve", "tensorboard"} <= seen <= {*PROJECT["optional-dependencies"]}


def test_conf_has_only_settings() -> None:
    assert {path.suffix for path in (ROOT / "conf").rglob("*") if path.is_file()} == {".yaml"}


def test_caches_are_ignored() -> None:
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    for name in (".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".schemathesis", "__pycache__"):
        assert f"{name}/" in ignored
