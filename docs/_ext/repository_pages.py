"""Pages of the site whose text is a file elsewhere in the repository, such as CHANGELOG.md.

The build copies them into docs/_build/pages, and links to such a file lead to its page.

The sidebar lists the pages that the tables of index.md link to, under the same headings, and the attentions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

LINK = re.compile(r"\[(?P<label>[^\[\]]*)\]\((?P<path>(?!\w+:)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("repository_pages", {}, "env", dict)
    app.connect("config-inited", copy_pages)
    app.connect("source-read", read_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def copy_pages(app: Sphinx, config: Config) -> None:
    """Copy the repository pages to where Sphinx finds them."""
    for name, file in config.repository_pages.items():
        page = Path(app.srcdir, f"{name}.md")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text((Path(app.srcdir).parent / file).read_text(encoding="utf-8"), encoding="utf-8")


def read_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Rewrite links that leave docs/, and add the sidebar to the first page and to the page of the attentions."""
    docs = Path(app.srcdir)
    page = Path(app.env.doc2path(name))
    if page.suffix != ".md":
        return
    pages = {docs.parent / file: docs / f"{page}.md" for page, file in app.config.repository_pages.items()}
    origin = next((file for file, copy in pages.items() if copy == page), page)
    source[0] = rewrite_links(source[0], origin, page, docs, pages)
    if name == app.config.root_doc:
        source[0] += "".join(sidebar(source[0]))
    elif name == "attentions":
        source[0] += toctree(list(dict.fromkeys(re.findall(r"\((attentions/\w+)\.md\)", source[0]))))


def sidebar(index: str) -> Iterator[str]:
    """Yield a hidden toctree for each section of third level: the pages that its table links to."""
    for section in re.split(r"^### ", index, flags=re.MULTILINE)[1:]:
        caption, table = section.split("\n", 1)
        names = [link["path"].removesuffix(".md") for link in LINK.finditer(table) if link["path"].endswith(".md")]
        yield toctree(names, f":caption: {caption}")


def toctree(names: list[str], *options: str) -> str:
    return "\n".join(["", "```{toctree}", *options, ":hidden:", "", *names, "```", ""])


def rewrite_links(text: str, origin: Path, page: Path, docs: Path, pages: dict[Path, Path]) -> str:
    """Return the text of the file ``origin`` with relative links that work in ``page``.

    ``pages`` maps files of the repository to pages of the site, ``docs``. The site contains copies of other linked
    files. Folders get no link. A page that is named by its file is named by its title.
    """

    def rewrite(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(origin.parent / link["path"]))
        if target.is_dir():
            return link["label"]
        destination = pages.get(target, target)
        is_page = destination.suffix == ".md" and destination.is_relative_to(docs)
        is_copy = destination.suffix == ".md" and not is_page
        label = "" if is_page and link["label"].endswith(".md") and not link["anchor"] else link["label"]
        relative = os.path.relpath(destination, page.parent)
        return f"[{label}]({'path:' if is_copy else ''}{relative}{link['anchor'] or ''})"

    return LINK.sub(rewrite, text)
