"""Check every link inside the built site: the file exists, and so does the anchor. No network is used."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", check_site)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def check_site(app: Sphinx, error: Exception | None) -> None:
    """Warn of each link of the built HTML pages that leads nowhere. A warning fails the build."""
    if error is None and app.builder.format == "html":
        for problem in broken_links(Path(app.outdir)):
            logger.warning(problem)


class Page(HTMLParser):
    """The links and anchors of one HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value and tag != "base":
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken_links(site: Path) -> Iterator[str]:
    """Yield ``page: link`` for each relative link without a target."""

    @cache
    def read(path: Path) -> Page:
        return Page(path.read_text(encoding="utf-8"))

    for path in sorted(site.rglob("*.html")):
        for link in read(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists():
                yield f"{path.relative_to(site)}: {link}: no such file"
            elif anchor and target.suffix == ".html" and anchor not in read(target).anchors:
                yield f"{path.relative_to(site)}: {link}: no such anchor"
