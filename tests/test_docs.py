"""The documentation site: its extensions, and the pages that must exist.

``make docs`` builds it with warnings as errors. Tests that need Sphinx are skipped where only the development packages
are installed.
"""

from __future__ import annotations

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


# Pages.


@pytest.mark.parametrize("kind", sorted(path.stem for path in (CONF / "attention").glob("*.yaml")))
def test_every_attention_has_a_page(kind: str) -> None:
    page = DOCS / "attentions" / f"{kind}.md"
    if not page.exists():  # described on the page of the attention that it sets up
        parent = yaml.safe_load((CONF / "attention" / f"{kind}.yaml").read_text("utf-8"))["defaults"][0]
        page = page.with_stem(parent)
    text = page.read_text("utf-8")
    assert f"`attention={kind}`" in text and f"({page.stem}.png)" in text and "<!-- generated: measured " in text


# Extensions.


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
    pages = {ROOT / "CHANGELOG.md": DOCS / "pages/changes.md"}
    text = "[a](../CHANGELOG.md#unreleased) [b](../README.md) [c](../nmt/attention) [faq.md](faq.md) [d](https://x.org)"
    rewritten = extension("repository_pages").rewrite_links(text, DOCS / "x.md", DOCS / "x.md", DOCS, pages)
    assert rewritten == "[a](pages/changes.md#unreleased) [b](path:../README.md) c [](faq.md) [d](https://x.org)"


def test_sidebar_lists_the_pages_of_each_section(extension: Any) -> None:
    toctrees = list(extension("repository_pages").sidebar((DOCS / "index.md").read_text("utf-8")))
    named = {name for toctree in toctrees for name in toctree.splitlines()[5:-1]}
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md") if "_build" not in page.parts}
    assert pages - named <= {"index", *(name for name in pages if name.startswith("attentions/"))}
