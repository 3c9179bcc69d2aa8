"""The documentation site: its extensions, and the pages that must exist.

``make docs`` builds it with warnings as errors. Tests that need Sphinx are skipped where only the development packages
are installed.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONF = ROOT / "conf"
COMMANDS = sorted(path.stem for path in CONF.glob("*.yaml"))


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that imports one of the site's extensions by name."""
    pytest.importorskip("sphinx", reason="make docs installs it")
    monkeypatch.setattr(sys, "path", [str(DOCS / "_ext"), *sys.path])
    names = {path.stem for path in (DOCS / "_ext").glob("*.py")}
    yield import_module
    for name in names & set(sys.modules):
        del sys.modules[name]


@pytest.fixture
def warnings_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that collects the warnings of an extension, each of which fails the build."""

    def collect(module: ModuleType) -> list[str]:
        messages: list[str] = []

        def warn(text: str, *values: object, **_: object) -> None:
            messages.append(text % values)

        monkeypatch.setattr(module.logger, "warning", warn)
        return messages

    return collect


def keys(values: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield the dotted key of each setting in a YAML file."""
    for key, value in values.items():
        if isinstance(value, dict) and key != "defaults":
            yield from keys(value, f"{prefix}{key}.")
        elif key not in ("defaults", "_target_"):
            yield f"{prefix}{key}"


# Pages.


@pytest.mark.parametrize("kind", sorted(path.stem for path in (CONF / "attention").glob("*.yaml")))
def test_every_attention_has_a_page(kind: str) -> None:
    page = DOCS / "attentions" / f"{kind}.md"
    if not page.exists():  # described on the page of the attention that it sets up
        parent = yaml.safe_load((CONF / "attention" / f"{kind}.yaml").read_text("utf-8"))["defaults"][0]
        page = page.with_stem(parent)
    text = page.read_text("utf-8")
    assert f"`attention={kind}`" in text and f"({page.stem}.png)" in text


# The configuration reference.


def test_reference_lists_every_key_of_every_group(extension: Any, warnings_of: Any) -> None:
    configuration = extension("configuration")
    warnings = warnings_of(configuration)
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
    assert not warnings


@pytest.mark.parametrize("command", COMMANDS)
def test_reference_lists_every_key_of_a_command(command: str, extension: Any, warnings_of: Any) -> None:
    configuration = extension("configuration")
    warnings = warnings_of(configuration)
    values = yaml.safe_load((CONF / f"{command}.yaml").read_text("utf-8"))
    table = "\n".join(configuration.command_table(command))
    assert set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)) == set(keys(values, ""))
    assert not warnings
    assert f"{{configuration}} {command}\n" in (DOCS / "reference" / "configuration.md").read_text("utf-8")


def test_reference_shows_type_bounds_default_and_description(extension: Any) -> None:
    page = "\n".join(extension("configuration").groups())
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `")}
    memory = page.partition("#### attention=memory\n")[2].partition("\n####")[0]
    assert re.search(r"^\| `attention.slots` \| whole number ≥ 1 .*\| `32` \| K \|$", memory, re.MULTILINE)
    assert "number ≥ 0 and ≤ 100 | `1.0` | alpha of Wu et al." in rows["search.length_penalty"]
    assert "whole number ≥ 1 and ≤ 1,000, or `null` | `null` |" in rows["search.max_length"]
    assert "number > 0 | `0.005` |" in rows["optimizer.lr"]  # torch's own annotation has no bounds


def test_setting_without_comment_or_type_is_a_warning(
    extension: Any, warnings_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = extension("configuration")
    warnings = warnings_of(configuration)
    folder = shutil.copytree(CONF, tmp_path / "conf")
    (folder / "embeddings" / "default.yaml").write_text("size: 192\nshared: true  # one table\nother: 1  # unknown\n")
    monkeypatch.setattr(configuration, "config_dir", lambda: folder)
    list(configuration.groups())
    assert warnings == [
        "conf/embeddings/default.yaml: size has no comment that describes it",
        "conf/embeddings/default.yaml: other has no type",
    ]


# Other extensions.


def test_broken_links_are_found(extension: Any, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">x</a><a href="#missing">x</a><a href="https://x.org/y">x</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><img src="c.png"><a href="a.html">x</a>')
    assert list(extension("internal_links").broken_links(tmp_path)) == [
        "a.html: #missing: no such anchor",
        "b.html: c.png: no such file",
    ]


def test_equation_becomes_mathml_and_an_unknown_command_is_a_warning(extension: Any, warnings_of: Any) -> None:
    from docutils import nodes

    mathml = extension("mathml")
    warnings = warnings_of(mathml)
    text = mathml.to_mathml(nodes.math_block("", r"c_t = \sum_s A_{ts} v_s"), as_block=True)
    assert text.startswith("<math") and "∑" in text and "<msub>" in text and not warnings
    mathml.to_mathml(nodes.math_block("", r"\nosuchcommand"), as_block=True)
    assert len(warnings) == 1


def test_links_that_leave_docs_lead_to_pages_or_copies(extension: Any) -> None:
    pages = {ROOT / "CHANGELOG.md": DOCS / "changelog.md"}
    text = "[a](../CHANGELOG.md#unreleased) [b](../README.md) [c](../nmt/attention) [faq.md](faq.md) [d](https://x.org)"
    rewritten = extension("repository_pages").rewrite_links(text, DOCS / "x.md", DOCS / "x.md", DOCS, pages)
    assert rewritten == "[a](changelog.md#unreleased) [b](path:../README.md) c [](faq.md) [d](https://x.org)"


def test_sidebar_lists_the_pages_of_each_section(extension: Any) -> None:
    toctrees = list(extension("repository_pages").sidebar((DOCS / "index.md").read_text("utf-8")))
    named = {name for toctree in toctrees for name in toctree.splitlines()[5:-1]}
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    assert pages - named <= {"index", *(name for name in pages if name.startswith("attentions/") or is_stub(name))}


def is_stub(name: str) -> bool:
    """Whether the text of a page is another file of the repository."""
    return "The text of this page is" in (DOCS / f"{name}.md").read_text("utf-8")


def test_measured_kinds_exist(extension: Any) -> None:
    measured = extension("measured")
    cost = dict(measured.read_table(ROOT / "benchmarks" / "results" / "cost.md"))
    pages = sorted((DOCS / "attentions").glob("*.md"))
    for page in pages:
        kinds = measured.FENCE.search(page.read_text("utf-8"))[1].splitlines()
        assert kinds and set(kinds) <= set(cost), page
    with pytest.raises(Exception, match="not in benchmarks"):
        list(measured.table(["unknown"], cost, {}))
