"""Splitting a text into lines loses nothing, and markup stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents import name_utf8, split_text, visible_text
from nmt.inference.markup import MARKUP, MOST_UNCLOSED, untranslated_end


@given(st.text(st.sampled_from("ab <>&;/'\"=\n\t\r\x0b\u2028é-!p")))
def test_unchanged_lines_give_the_text_and_the_page_back(text: str) -> None:
    segments, page = split_text(text, "text"), split_text(text, "html")
    assert segments.fill(segments.lines) == page.fill(page.lines) == text
    assert all(line and line == line.strip() and "\n" not in line for line in segments.lines)


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        ("<p>One <b>dog</b>.</p>", ["One <b>dog</b>."]),
        ('before <b class="x > y">bold</b> after', ['before <b class="x > y">bold</b> after']),
        ("<script>if (a < b) { go('<p>no</p>') }</script><p>yes</p>", ["yes"]),
        ("<p>行<ruby>東京<rt>とうきょう</rt></ruby>へ</p>", ["行<ruby>東京<rt>とうきょう</rt></ruby>へ"]),
        ("<p>a<br/>b<!-- not <b>this</b> --></p>", ["a", "b<!-- not <b>this</b> -->"]),
        ("<pre>kept\n  <b>as it is</b></pre>x <code>y</code>", ["x <code>y</code>"]),
        ("<p>a <math><mi>b</mi></math> c</p>", ["a <math><mi>b</mi></math> c"]),
        ("<ul>\n  <li>one\n  two</li>\n  <li> <img> </li></ul>", ["one\n  two"]),
        ("no markup, 1 <2 and a <3 b &amp;", ["no markup, 1 <2 and a <3 b &amp;"]),
        ("<td>&nbsp;</td><td>1,250.50 &euro;</td><td>2 <b>m</b></td>", ["2 <b>m</b>"]),
        # A script ends at its end tag, whatever is inside.
        ("<script>s = \"<!--\"; i<n; // don't</script><p title='x'>yes</p>", ["yes"]),
        ("<SCRIPT>s = '<script>'</Script >yes", ["yes"]),
        ("<svg><svg/><svg><a></svg>no</svg>yes", ["yes"]),
        # Parts of a page that are not for translation.
        (
            'a <span translate="no">b<br><SPAN>c</span> d</span> e',
            ['a <span translate="no">b<br><SPAN>c</span> d</span> e'],
        ),
        ("<div class='x notranslate'><div>no</div>no</div>yes", ["yes"]),
        ("<P translate=no>no</P><p class=notranslated>yes", ["yes"]),
        ("<p translate=no>its end is missing<p>yes", ["its end is missing", "yes"]),
        # A title has no tags, but entities.
        ("<title>\n One &amp; two</title>x", ["One &amp; two", "x"]),
        ("<TITLE lang=en>One</TITLE >", ["One"]),
        ("<title>a <!-- b</title>x", ["x"]),
        ("<title translate=no>One</title>x", ["x"]),
        ("<textarea>x", []),
        ("", []),
    ],
)
def test_sentences_of_html_hold_inline_tags_only(page: str, lines: list[str]) -> None:
    segments = split_text(page, "html")
    assert segments.lines == lines
    assert segments.fill(lines) == page


def test_visible_text_has_no_markup() -> None:
    page = "<style>p {}</style><p class='the important'>Ein <b title='the'>gro&szlig;er</b>\nHund <code>the()</code>"
    assert visible_text(page) == "Ein großer Hund"
    assert visible_text("Ein Hund <3 & 2 < 3") == "Ein Hund <3 & 2 < 3"


@pytest.mark.parametrize(
    "head", ["<meta charset='{}'>", '<META content="text/html; charset={}" />', '<?xml encoding="{}"?>']
)
def test_pages_name_the_charset_of_their_translation(head: str) -> None:
    page = head + "<p>charset=x ä dog" + head
    assert name_utf8(page.format("ISO-8859-1", "latin1")) == page.format("UTF-8", "UTF-8")


@pytest.mark.parametrize(
    "text",
    [
        "<" * 50_000,
        '<a "' * 10_000,
        "<!--" * 100_000,
        "&amp" * 20_000,
        "<pre>" * 20_000,
        "<p translate=no>" * 20_000,
        "<?=" * 20_000,
    ],
)
def test_hostile_markup_is_split_in_linear_time(text: str) -> None:
    """A quadratic pattern would take minutes here."""
    segments = split_text(text, "html")
    assert segments.fill(segments.lines) == text


def test_few_elements_without_an_end_are_searched_for_it() -> None:
    """Each search reads the rest of the text, which may be a stranger's request."""
    tags = [f'<x{number} translate="no">' for number in range(2 * MOST_UNCLOSED)]
    text = "".join(tags)
    unclosed = set[str]()
    assert [untranslated_end(text, match, {"script"}, unclosed) for match in MARKUP.finditer(text)] == [None] * len(
        tags
    )
    assert len(unclosed) == MOST_UNCLOSED
    assert split_text(f"{text}<script>x</script>y", "html").lines == ["y"]
