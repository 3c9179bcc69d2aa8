"""The generated parts of the pages are those that docs/generate.py writes, and the reference is complete."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from generate import fill, pages
from generator import configuration
from generator.names import markdown, signature

import nmt
from nmt.attention.base import Attention, Memory
from nmt.search.options import SearchOptions

ROOT = Path(__file__).parents[1]
CONF = ROOT / "conf"
COMMANDS = sorted(path.stem for path in CONF.glob("*.yaml"))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_pages_have_what_the_generator_writes(page: Path) -> None:
    text = page.read_text("utf-8")
    assert fill(text) == text, "run: make reference"


def keys(values: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield the dotted key of each setting in a YAML file."""
    for key, value in values.items():
        if isinstance(value, dict) and key != "defaults":
            yield from keys(value, f"{prefix}{key}.")
        elif key not in ("defaults", "_target_"):
            yield f"{prefix}{key}"


# Settings.


def test_reference_lists_every_key_of_every_group() -> None:
    page = "\n".join(configuration.groups())
    for path in sorted(CONF.glob("*/**/*.yaml")):
        group, *names = path.relative_to(CONF).with_suffix("").parts
        title, place = (f"{group}={path.stem}", group) if group != "filters" else ("Keys of all data", "data")
        section = page.partition(f"#### {title}\n")[2].partition("\n####")[0]
        values = yaml.safe_load(path.read_text("utf-8")) or {}
        if group == "experiment":
            assert f"`+experiment={'/'.join(names)}`" in page
        else:
            assert section
            assert set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)) == set(keys(values, f"{place}."))


@pytest.mark.parametrize("command", COMMANDS)
def test_reference_lists_every_key_of_a_command(command: str) -> None:
    values = yaml.safe_load((CONF / f"{command}.yaml").read_text("utf-8"))
    table = "\n".join(configuration.command(command))
    assert set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)) == set(keys(values, ""))
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text("utf-8")
    assert f"## nmt-{command}\n" in page and f"<!-- generated: command {command} -->\n" in page


def test_reference_shows_type_bounds_default_and_description() -> None:
    page = "\n".join(configuration.groups())
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}
    memory = page.partition("#### attention=memory\n")[2].partition("\n####")[0]
    assert re.search(r"^\| `attention.slots` \| whole number ≥ 1 .*\| `32` \| K \|$", memory, re.MULTILINE)
    assert "number ≥ 0 and ≤ 100 | `1.0` | alpha of Wu et al." in rows["search.length_penalty"]
    assert "whole number ≥ 1 and ≤ 1,000, or `null` | `null` |" in rows["search.max_length"]
    assert "number > 0 | `0.005` |" in rows["optimizer.lr"]  # torch's own annotation has no bounds
    assert "list: `encoder` \\| `decoder` \\| `attention` \\| `embeddings` | `[" in rows["adapt.to"]
    assert "list of texts, or `null` |" in rows["data.train.src"]
    assert "override /" not in page and ":\n\n####" not in page  # an entry that is no group, a table without rows


@pytest.mark.parametrize(
    ("yaml_text", "problem"),
    [
        ("size: 192\nshared: true  # one table\n", "size has no comment that describes it"),
        ("size: 192  # of one embedding\nshared: true  # one table\nother: 1  # unknown\n", "other has no type"),
    ],
)
def test_setting_without_comment_or_type_is_an_error(
    yaml_text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(CONF, tmp_path / "conf")
    (folder / "embeddings" / "default.yaml").write_text(yaml_text)
    monkeypatch.setattr(configuration, "config_dir", lambda: folder)
    with pytest.raises(ValueError, match=f"conf/embeddings/default.yaml: {problem}"):
        list(configuration.groups())


# Names.


def test_reference_has_every_name_of_the_package() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
    titles = set(re.findall(r"^### ([\w.]+)$", page, re.MULTILINE))
    assert titles >= {*nmt.__all__} - {"__version__"}
    described = set(re.findall(r"^- `(\w+)`: .", page, re.MULTILINE))  # "It sets the attributes below"
    assert described >= {*SearchOptions.__annotations__, *Memory.__annotations__, *Attention.__annotations__}


def test_signature_has_annotations_as_they_are_written() -> None:
    def call(self: Any, lines: list[str], *, best: int | None = None, **rest: Any) -> dict[str, int]: ...

    assert (
        signature("call", call) == "call(lines: list[str], *, best: int | None = None, **rest: Any) -> dict[str, int]"
    )


def test_aligned_lines_of_a_docstring_become_code() -> None:
    lines = list(markdown("A * b of ``x * y``.\n\n    a    the first\n    bc   the second\n"))
    assert lines == ["A \\* b of ``x * y``.", "", "```text", "a    the first", "bc   the second", "```", ""]
