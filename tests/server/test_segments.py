"""Splitting a text into lines loses nothing, and markup stays as it is."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.server.segments import split_text


@given(st.text(st.sampled_from("ab <>&;/'\"=\n\t\r\x0b\u2028é")))
def test_unchanged_lines_give_the_text_back(text: str) -> None:
    segments = split_text(text, "text")
    assert segments.fill(segments.lines) == text
    assert all(line and line == line.strip() and "\n" not in line for line in segments.lines)


class Reader(HTMLParser):
    """Collects the tags, and the text outside of scripts, as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, object]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}", None))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


PAGES = [
    "<p>One dog.</p>",
    'before <b class="x > y">bold</b> after',
    "<p>Tom &amp; Jerry&nbsp;&lt;b&gt; 3 < 4</p>",
    "<script>if (a < b) { go('<p>no</p>') }</script><p>yes</p>",
    "<p>a<br/>b<!-- not <b>this</b> --></p>",
    "<pre>kept\n  as it is</pre><code>x</code> text",
    "<ul>\n  <li>one\n  two</li>\n</ul>",
    "no markup, 1 <2 and a <3 b",
    "",
]


@pytest.mark.parametrize("page", PAGES)
def test_markup_stays_and_text_is_the_same_for_a_browser(page: str) -> None:
    segments = split_text(page, "html")
    filled = segments.fill(segments.lines)
    before, after = Reader(page), Reader(filled)
    assert before.tags == after.tags
    assert re.sub(r"\s+", " ", "".join(before.text)) == re.sub(r"\s+", " ", "".join(after.text))


@pytest.mark.parametrize("page", PAGES)
def test_translated_lines_hold_no_markup_and_are_escaped(page: str) -> None:
    segments = split_text(page, "html")
    tags = Reader(page).tags
    assert all(unescape(line) == line and not line.startswith("<") for line in segments.lines if "<b>" not in line)
    assert Reader(segments.fill(["<b> & </b>" for _ in segments.lines])).tags == tags


@pytest.mark.parametrize("text", ["<" * 50_000, '<a "' * 10_000, "<!--" * 100_000, "&amp" * 20_000])
def test_hostile_markup_is_split_in_linear_time(text: str) -> None:
    """A quadratic pattern would take minutes here."""
    segments = split_text(text, "html")
    assert segments.fill(segments.lines).count("<a") == 0
