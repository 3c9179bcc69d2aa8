"""Markdown: blocks, code and links stay, marks are balanced, and unchanged lines give the document back."""

from __future__ import annotations

import re
import sys
from collections import Counter

import numpy as np
import pytest
from builders import expect_error
from hypothesis import given
from hypothesis import strategies as st
from inference.test_markup import translated

pytest.importorskip("markdown_it")

from markdown_it import MarkdownIt  # noqa: E402
from markdown_it.token import Token  # noqa: E402

from nmt.documents.markdown import Markdown  # noqa: E402

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PIECES = st.sampled_from(
    'a|dog|Zoë\'s|x_y|**|*|_|__|***|~~|`c *d*`|``a ` b``|[|](u)|](u_(v) "t")|[r]|![i](s)|<b>|</b>|<https://a.b>|\\*|&amp;'
    "|!|#|1.|-|(|).|  \n|\n|\\\n| | |.".split("|")
)
INLINE = st.lists(PIECES, min_size=1, max_size=14).map("".join)
MARKED = st.recursive(
    st.sampled_from(["dog", "a", "runs.", "`c *d*`", "![i](s)", "<https://a.b>", '"x"']),
    lambda inside: st.tuples(
        st.sampled_from([("**", "**"), ("*", "*"), ("_", "_"), ("~~", "~~"), ("[", '](u_(v) "t")'), ("[", "][r]")]),
        st.lists(inside, min_size=1, max_size=3).map(" ".join),
    ).map(lambda parts: parts[0][0] + parts[1] + parts[0][1]),
    max_leaves=8,
)
BLOCKS = st.sampled_from(["", "# ", "> ", "- ", "1. ", "    ", "| a | ", "```\n", "---\n", "> - "])
OUTPUT = st.lists(
    st.sampled_from(
        ["ein", "Hund", "läuft.", "*", "_x_", "[y](z)", "1.", "#", "`", "&amp;", "<b>", "!", "|", "~~", "\\"]
    ),
    min_size=1,
    max_size=8,
).map(" ".join)
DEFINITION = "\n\n[r]: v\n"


def tokens_of(text: str) -> list[Token]:
    return [
        part for token in PARSER.parse(text) for part in ([token] if token.type != "inline" else token.children or [])
    ]


def kept(tokens: list[Token]) -> Counter[tuple[str, str, str]]:
    """Return what must stay: code, addresses, images and HTML."""
    return Counter(
        (token.type, token.content, str(token.attrs))
        for token in tokens
        if token.type in ("code_inline", "link_open", "image", "html_inline", "fence", "code_block", "html_block")
    )


def blocks(text: str) -> list[str]:
    return [token.type for token in PARSER.parse(text)]


@given(st.lists(st.tuples(BLOCKS, INLINE).map("".join), max_size=6).map("\n\n".join) | st.text(max_size=40))
def test_unchanged_lines_give_the_document_back(text: str) -> None:
    text += DEFINITION
    document = Markdown(text, "a.md")
    assert document.fill(document.lines) == text.replace("\r", " ")


@given(
    block=st.sampled_from(["", "# ", "> ", "- ", "3) ", "| "]),
    parts=st.lists(MARKED, min_size=1, max_size=4),
    output=OUTPUT,
    seed=st.integers(0, 50),
)
def test_code_and_links_stay_and_marks_are_balanced(block: str, parts: list[str], output: str, seed: int) -> None:
    """Fill in arbitrary words, with arbitrary weights."""
    text = (
        f"{block}{' '.join(parts)}{' |' if block == '| ' else ''}\n" + ("|---|\n" if block == "| " else "") + DEFINITION
    )
    document = Markdown(text, "a.md")
    rng = np.random.default_rng(seed)
    weights = rng.random((60, 120)) * (rng.random((60, 120)) < rng.choice([0.05, 1]))
    filled = document.fill([translated(line, output, weights) for line in document.lines])
    before, after = tokens_of(text), tokens_of(filled)
    assert blocks(filled) == blocks(text) and kept(after) == kept(before)
    if document.lines:  # no mark has become text, and no text a mark
        text = "".join(token.content for token in after if token.type == "text").replace("https://a.b", "")
        assert not Counter("".join(text.split())) - Counter(output)
        emphasis = [
            Counter(token.type for token in tokens if token.type.endswith("_open")) for tokens in (after, before)
        ]
        assert emphasis[0] <= emphasis[1]


@pytest.mark.parametrize(
    ("source", "line", "translation", "expected"),
    [
        ("a **dog**\n", "a <nmt-0>dog</nmt-0>", "ein <nmt-0>Hund</nmt-0>", "ein **Hund**\n"),
        ("# a _dog_ #\n", "a <nmt-0>dog</nmt-0>", "<nmt-0>Hund</nmt-0> 1", "# _Hund_ 1 #\n"),
        ("> two\n> lines\n", "two lines", "zwei Zeilen", "> zwei Zeilen\n"),
        ("- run `x *y*` now\n", "run <code>nmt-0</code> now", "jetzt <code>nmt-0</code>", "- jetzt `x *y*`\n"),
        ('see [a](u "t")', "see <nmt-0>a</nmt-0>", "<nmt-0>ein</nmt-0> x", '[ein](u "t") x'),
        (
            "[a b][] [r]\n\n[A B]: u\n[r]: v",
            "<nmt-0>a b</nmt-0> <nmt-2>r</nmt-2>",
            "<nmt-2>x</nmt-2>",
            "[x][r]\n\n[A B]: u\n[r]: v",
        ),
        ("a  \nb", "a<nmt-0/>b", "x<nmt-0/> 1. y", "x\\\n1\\. y"),
        ("a  \n\tb", "a<nmt-0/>b", "x<nmt-0/>y", "x\\\ny"),
        ("> [!NOTE]\n> a *b*\n", "a <nmt-0>b</nmt-0>", "x <nmt-0>y</nmt-0>", "> [!NOTE]\n> x *y*\n"),
        ("> [!TIP]\n>\n> a\n\n[!NOTE]", "a", "x", "> [!TIP]\n>\n> x\n\n[!NOTE]"),
        ('+++\nt = "a"\n+++\na\n', "a", "x", '+++\nt = "a"\n+++\nx\n'),
        ("--- \nt: a\n---\t\na\n", "a", "x", "--- \nt: a\n---\t\nx\n"),
        ("# a {#b}\n", "a <!nmt-0>", "x<!nmt-0>", "# x{#b}\n"),
        ("a {{ b.c }} {% d %}", "a <!nmt-0> <!nmt-1>", "x<!nmt-1><!nmt-0>", "x{% d %}{{ b.c }}"),
        ("a[^b] [c]", "a<!nmt-0> [c]", "x<!nmt-0>.", "x[^b]."),
        ("- [x] a\n", "<!nmt-0>a", "<!nmt-0>1. x", "- [x] 1. x\n"),
        (
            "see (https://a.b/c_d?e&f=g).",
            "see (<code>nmt-0</code>).",
            "x <code>nmt-0</code>.",
            "x https://a.b/c_d?e&f=g.",
        ),
        ("见https://a.b/c。d", "见<code>nmt-0</code>。d", "x <code>nmt-0</code>.", "x https://a.b/c."),
        (
            "a [b *c*]{.d} e",
            "a <nmt-0>b <nmt-1>c</nmt-1></nmt-0> e",
            "x <nmt-0>y <nmt-1>z</nmt-1></nmt-0>",
            "x [y *z*]{.d}",
        ),
        ("a [see @b, p. 3] @c.", "a <!nmt-0> <!nmt-1>.", "x <!nmt-1><!nmt-0>.", "x @c[see @b, p. 3]."),
        ("a@b.c [@d](e)", "a@b.c <nmt-0><!nmt-1></nmt-0>", "x <nmt-0><!nmt-1></nmt-0>", "x [@d](e)"),
        ('a ![b](c){d="1" e=2} f', "a <nmt-0/> f", "x <nmt-0/>.", 'x ![b](c){d="1" e=2}.'),
        ("`a`{.b} c [d](e){f=g}", "<code>nmt-0</code> c <nmt-1>d</nmt-1>", "<nmt-1>x</nmt-1>", "[x](e){f=g}"),
        ('[a\nb]{c-d="e f"} {g}', "<nmt-0>a b</nmt-0> {g}", "<nmt-0>x</nmt-0>", '[x]{c-d="e f"}'),
        ("# a {-}", "a <!nmt-0>", "x <!nmt-0>", "# x {-}"),
        ("a^2^ CO~2~ H~2~O", "a<!nmt-0> CO<!nmt-1> H~2~O", "x<!nmt-0> y<!nmt-1>", "x^2^ y~2~"),
        ("a $b_1 + c$ $5 or $10", "a <code>nmt-0</code> $5 or $10", "<code>nmt-0</code> $7", "$b_1 + c$ $7"),
        ("a $$b$$ $d\\$e$", "a <code>nmt-0</code> <code>nmt-1</code>", "<code>nmt-1</code>", "$d\\$e$"),
        # Chinese and Japanese have no blank where a line ends.
        ("今日は\n  寒い。\nok\n*我*\n们", "今日は寒い。 ok <nmt-0>我</nmt-0> 们", "<nmt-0>x</nmt-0>", "*x*"),
        # A translation has no marks itself.
        ("a", "a", "1. x", "1\\. x"),
        ("a", "a", "# *x* a_b _c &lt;b&gt;", "\\# \\*x\\* a_b \\_c \\<b>"),
        ("a [b](c)", "a <nmt-0>b</nmt-0>", "x!<nmt-0>y</nmt-0>", "x\\![y](c)"),
        # Emphasis without words is left out; a link stays. Within a word, as in Chinese, only stars are marks.
        ("a **b** [c](d)", "a <nmt-0>b</nmt-0> <nmt-2>c</nmt-2>", "x <nmt-0></nmt-0><nmt-2></nmt-2>", "x [](d)"),
        ("a _b_", "a <nmt-0>b</nmt-0>", "x<nmt-0>y</nmt-0>z", "x*y*z"),
        (
            "a __b__ _c_",
            "a <nmt-0>b</nmt-0> <nmt-2>c</nmt-2>",
            "甲<nmt-0>乙</nmt-0>丙 <nmt-2>丁</nmt-2>",
            "甲**乙**丙 *丁*",
        ),
        ("a **b.** c", "a <nmt-0>b.</nmt-0> c", "甲<nmt-0>乙。</nmt-0>丙", "甲乙。丙"),
        ("a ~~~~b~~~~", "a <nmt-0><nmt-1>b</nmt-1></nmt-0>", "<nmt-0><nmt-1>x</nmt-1></nmt-0>", "x"),
        ("a <b>", "a <b>", "<b>", "a <b>"),
        ("*a* **b**", "<nmt-0>a</nmt-0> <nmt-2>b</nmt-2>", "<nmt-2>b</nmt-2><nmt-0>a</nmt-0>", "**b***a*"),
        ("*a* **b**", "<nmt-0>a</nmt-0> <nmt-2>b</nmt-2>", "<nmt-2>b</nmt-2> <nmt-0>a</nmt-0>", "**b** *a*"),
    ],
)
def test_marks_return_as_they_were(source: str, line: str, translation: str, expected: str) -> None:
    document = Markdown(source, "a.md")
    assert document.lines == [line]
    assert document.fill([translation]) == expected


@pytest.mark.parametrize(
    "block",
    [
        "  a     b\n  ----- ---\n  c     d",
        "----- ---\na     b\n----- ---",
        "+---+---+\n| a | b |\n+===+===+\n| c | d |\n+---+---+",
        "| a b\n|   c",
        "  -------\n  a     b\n  ----- --\n  c     d\n\n  e     f\n        g\n\n  - h   i\n  -------",
        "----- ---\na     b\n\nc     d\n\ne     f\n----- ---",
    ],
)
def test_tables_and_verse_of_pandoc_stay_and_are_named(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = Markdown(f"{block}\n\n- - -\n\na | b\n", "a.md")
    assert document.lines == ["a | b"]
    assert document.fill(["x"]) == f"{block}\n\n- - -\n\nx\n"
    warning = "warning: a.md:1: a table or verse of Pandoc, which pandoc -t gfm converts; it stays as it is\n"
    assert capsys.readouterr().err.replace("a.md:2", "a.md:1") == warning


def test_items_of_lists_of_pandoc_are_separate_lines() -> None:
    text = "2. one\n    a.  two\n    b.  three\n    four\n\ni)  five\nii. six\n#. seven\nVitamin\nB. eight\n"
    document = Markdown(text, "a.md")
    assert [re.sub("<[^<>]*>", "", line) for line in document.lines] == [
        "one", "two", "three four", "five", "six", "seven Vitamin B. eight",
    ]  # fmt: skip
    filled = document.fill([f"{line} x" for line in document.lines])
    assert filled.startswith("2. one x\n    a.  two x\n    b.  three four x\n\ni)  five x\nii. six x\n#. seven ")


@pytest.mark.parametrize("note", ["^[A *dog*, see [x](y).]", "^[1]"])
def test_a_footnote_within_a_line_stays_and_is_named(note: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = Markdown(f"a\n\nb{note} c\n", "a.md")
    letters = str.maketrans("abc", "xyz")
    assert document.fill([line.translate(letters) for line in document.lines]) == f"x\n\ny{note} z\n"
    warning = "warning: a.md:3: a footnote between ^[ and ] is not translated; it stays as it is\n"
    assert capsys.readouterr().err == (warning if "dog" in note else "")


BLOCKS_WITHOUT_TEXT = "---\na: b\n---\n# {}\n\n```py\nx\n```\n\n    y\n\n<div>\nz\n</div>\n\n"
BLOCKS_WITHOUT_TEXT += "| {} | 1 |\n|---|---|\n| b \\| d | {} |\n\n[r]: v\n***\n"
BETWEEN_TABLES = "a     b\n----- ---\nc     d\n\n{}\n\na     b\n----- ---\nc     d\n\n{}\n---\n\n---\n{}\n\n---\n"
OF_OTHER_PROGRAMS = [":::note A b\n", "::: a\n", '!!! a "b"\n', '??? a "b"\n', "{% a b %}\n", '{{< a b="c" >}}\n']
OF_OTHER_PROGRAMS += ["{: .a }\n", "[TOC]\n", "[[_TOC_]]\n", "$$ a b $$\n", "$$\na b\n\nc\n$$\n", "$$ a\nb $$\n"]


@pytest.mark.parametrize(
    ("source", "lines", "translations", "expected"),
    [
        (
            BLOCKS_WITHOUT_TEXT.format("Title", "a", "d"),
            ["Title", "a", "d"],
            ["X"] * 3,
            BLOCKS_WITHOUT_TEXT.format(*"XXX"),
        ),
        (BETWEEN_TABLES.format(*"efg"), [*"efg"], [*"xyz"], BETWEEN_TABLES.format(*"xyz")),
        (
            "a[^1] [b]\n[^1]: A dog.\n[^2]: a\n  cat\n\n    [^3]: code\n",
            ["a<!nmt-0> [b]", "<!nmt-0>A dog.", "<!nmt-0>a cat"],
            ["x<!nmt-0>", "<!nmt-0>y", "<!nmt-0>z"],
            "x[^1]\n[^1]: y\n[^2]: z\n\n    [^3]: code\n",
        ),
        (  # definitions stay beside their term
            "a dog\n:   b\n: c\n  d\n\n$$ a: is\nb {.\n",
            ["a dog", "<!nmt-0>b", "<!nmt-0>c d", "b {."],
            ["v", "<!nmt-0>w", "<!nmt-0>x", "y"],
            "v\n:   w\n: x\n\n$$ a: is\ny\n",
        ),
        *((f"a\nb\n{block}c\n", ["a b", "c"], ["x", "y"], f"x\n{block}y\n") for block in OF_OTHER_PROGRAMS),
        *((text, [], [], text) for text in ("---\na: b\nc: d\n---", "---\na: b\n--- \n", "+++\na\n+++")),
    ],
)
def test_blocks_stay_around_their_text(source: str, lines: list[str], translations: list[str], expected: str) -> None:
    document = Markdown(source, "a.md")
    assert document.lines == lines
    assert document.fill(translations) == expected


@pytest.mark.parametrize("note", ["[^1]: a", "!!! note"])
def test_an_indented_paragraph_of_a_note_is_named(note: str, capsys: pytest.CaptureFixture[str]) -> None:
    Markdown(f"$$b$$\n\n    code\n\na [^1]\n\n    code\n\n{note}\n\n    b\n\nc\n\n    code\n", "a.md")
    problem = "an indented paragraph of a note is read as code"
    assert capsys.readouterr().err == f"warning: a.md:11: {problem}; it stays as it is\n"


def test_text_that_stays_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    document = Markdown("---\nx: y\n---\na\0b\n\n| c \\| d | 1 |\n|---|---|\n\ne <i>\n", "a.md")
    assert "a.md:4: its marks" in (message := capsys.readouterr().err) and "a.md:6: its marks" in message
    document.fill(["<i>"])
    assert capsys.readouterr().err == "warning: a.md:9: Markdown cannot express its translation; it stays as it is\n"


@pytest.mark.parametrize(
    "text",
    [
        "*" * 3000,
        "[" * 3000,
        "[^" * 3000,
        "http://" * 999,
        "`a" * 2000,
        "[a](" * 2000,
        "![" * 2000,
        "<b" * 3000,
        "_a" * 3000,
        "$$a\n" * 2000,
        "$$a\n" + "$\n" * 2000,
        "{{" * 3000,
        "{%" * 3000,
        "{#" * 3000,
        "$a" * 3001,
        "a{b=" * 3000,
        "".join(f"{'-' * length}\na\n-- --\n" for length in range(3, 300)),
    ],
)
def test_hostile_marks_take_little_time(text: str) -> None:
    document = Markdown(text, "a.md")
    assert document.fill(document.lines) == text
    document.fill([f"{line} x" for line in document.lines])


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    expect_error(
        r"^format=markdown: the package markdown-it-py is not installed; install .*\[markdown\]'$",
        Markdown,
        "a",
        "a.md",
    )
