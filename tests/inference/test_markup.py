"""Inline markup: each tag is in the translation once, elements stay balanced and within their parents."""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest
from builders import refusal
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inference.random_translators import aligned, link_weights, random_translator

from nmt.documents import split_text
from nmt.inference.kept import term_step
from nmt.inference.markup import Fragment, markup_step
from nmt.inference.steps import Started, chained
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.placeholders import KeptText

VOID = {"img", "wbr", "br"}
ELEMENTS = KeptText(placeholders=False, numbers=False, elements=True)


class Tree(HTMLParser):
    """The parent of each element, and the text, as Python reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parents: Counter[tuple[str, ...]] = Counter()
        self.open: list[str] = []
        self.text = ""
        self.starts: list[int] = []
        self.kept: list[str] = []  # the text of elements that are not translated
        self.balanced = True
        self.feed(page)
        self.close()
        self.balanced = self.balanced and not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parents[(*self.open, f"{tag} {attrs}")] += 1
        if tag not in VOID:
            self.open.append(f"{tag} {attrs}")
            self.starts.append(len(self.text))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parents[(*self.open, f"{tag} {attrs}/")] += 1

    def handle_endtag(self, tag: str) -> None:
        self.balanced = self.balanced and bool(self.open) and self.open.pop().startswith(f"{tag} ")
        inside = self.text[self.starts.pop() if self.starts else 0 :]
        if not re.search(r"[^\W\d]", inside.replace("if", "")):
            self.kept.append(inside)

    def handle_comment(self, data: str) -> None:
        self.parents[(*self.open, f"<!--{data}-->")] += 1

    def handle_data(self, data: str) -> None:
        self.text += data


def translated(line: str, output: str, weights: np.ndarray) -> str:
    """Return the HTML of a line whose words have these translations and weights (target words, source words)."""
    started = Started(chained([partial(markup_step, str), term_step(ELEMENTS, None, letters=True)]), line)
    [source] = started.texts
    best = aligned(source, output, weights)
    result = started.finish(iter([replace(best, n_best=[best]) if source.strip() else Translation("")]))
    assert isinstance(result, Translation)
    return result.text


WORDS = st.sampled_from(["a", "dog", "runs.", "3 &lt; 4", "&amp;", "x,", "(y)", "."])
LEAVES = st.one_of(
    WORDS,
    st.sampled_from(["<img src='a>b'>", "<x/>", "<br>", "<code>if &lt; 1</code>", "<!-- no <b> -->", "<wbr>"]),
    st.sampled_from(['<i translate="no">if &lt; <q>1</q></i>', "<sup>1</sup>", "<i class='icon'></i>", "<math/>"]),
)


def element(inside: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    return st.tuples(st.sampled_from(["b", "i", 'a href="x y"']), st.lists(inside, max_size=4), st.integers(0, 99)).map(
        lambda parts: [f"<{parts[0]} id={parts[2]}>", *sum(parts[1], []), f"</{parts[0].split()[0]}>"]
    )


NESTED = st.recursive(LEAVES.map(lambda leaf: [leaf]), element, max_leaves=12)


@settings(max_examples=50)
@given(
    parts=st.lists(NESTED, min_size=1, max_size=5),
    glue=st.lists(st.sampled_from(["", " "]), min_size=60, max_size=60),
    output=st.lists(st.sampled_from("ein Hund läuft. & < 5 1".split()), max_size=8).map(" ".join),
    seed=st.integers(0, 50),
    sparse=st.booleans(),
)
def test_every_tag_is_kept_and_balanced(
    parts: list[list[str]], glue: list[str], output: str, seed: int, sparse: bool
) -> None:
    assume(len(sum(parts, [])) <= len(glue))  # a line that is cut loses closing tags
    line = "".join(part + space for part, space in zip(sum(parts, []), glue, strict=False))
    rng = np.random.default_rng(seed)
    weights = rng.random((40, 120)) * (rng.random((40, 120)) < (0.05 if sparse else 1))
    result = translated(line, output, weights)
    before, after = Tree(line), Tree(result)
    assert before.balanced and after.balanced
    assert before.parents == after.parents
    if any(map(str.isalpha, Fragment.read(line).plain)):
        marks = re.sub(r"\w", "", before.text)  # those beside kept text stay with it
        assert not Counter(after.text) - Counter(output + "".join(before.kept) + " " * len(line) + marks)


RANDOM = random_translator()


@settings(max_examples=10, deadline=None)
@given(parts=st.lists(st.lists(NESTED, min_size=1, max_size=5), max_size=5), glue=st.sampled_from(["", " ", "\r\n"]))
def test_pages_of_a_random_model_keep_all_but_their_text(parts: list[list[list[str]]], glue: str) -> None:
    lines = [glue.join(sum(line, [])) for line in parts]
    page = "<title>dog</title>\r\n".join(f"<p>\n {line}\t </p>\n\n" for line in lines)
    segments = split_text(page, "html")
    options = SearchOptions(beam_size=2, max_length=8)
    texts = RANDOM.texts(segments.lines, options, markup=True)
    before, after = Tree(page), Tree(segments.fill(texts))
    assert before.parents == after.parents and before.balanced == after.balanced
    outside = [part for at, part in enumerate(segments.parts) if at not in segments.indices]
    assert all(part in segments.fill(texts) for part in outside)


@pytest.mark.parametrize(
    ("line", "output", "links", "expected"),
    [
        ("a <b>dog</b> runs", "ein Hund läuft", "0-0 1-1 2-2", "ein <b>Hund</b> läuft"),
        ("a <b>big dog</b> runs", "läuft Hund großer ein", "0-3 1-2 2-1 3-0", "läuft <b>Hund großer</b> ein"),
        ("the <b>dog</b>.", "der Hund.", "0-0 1-1", "der <b>Hund</b>."),
        ("<i>a <b>dog</b></i> runs", "ein Hund läuft", "0-0 1-1 2-2", "<i>ein <b>Hund</b></i> läuft"),
        # One wrong link within an element, and one outside.
        (
            "<b>a big old dog</b> x",
            "ein großer alter Hund y",
            "0-0 1-1 4-2 3-3 4-4",
            "<b>ein großer alter Hund</b> y",
        ),
        ("a <b>dog</b> runs x", "ein Hund läuft Hund", "0-0 1-1 2-2 1-3", "ein <b>Hund</b> läuft Hund"),
        # An element without aligned words, and one without words.
        ("a <b>dog</b> runs", "ein läuft", "0-0 2-1", "ein <b></b>läuft"),
        ("a <b></b> dog", "ein Hund", "0-0 1-1", "ein <b></b> Hund"),
        # One that begins or ends in another line.
        ("a <b>dog runs", "läuft ein Hund", "2-0 0-1 1-2", "läuft ein <b>Hund"),
        ("a <code>x</code> <b>dog", "Hund ein", "0-1 1-0", "Hund ein <code>x</code> <b>"),
        ("a <code>x</code></b> dog", "Hund ein", "0-1 1-0", "Hund ein <code>x</code></b>"),
        ("<b>all of it.</b>", "alles davon.", "", "<b>alles davon.</b>"),
        # Single tags keep their space, and break no word.
        ('a <img src="x"> dog', "ein Hund", "0-0 1-1", 'ein <img src="x"> Hund'),
        ("<img> a dog", "ein Hund", "0-0 1-1", "<img> ein Hund"),
        ("<img>a dog", "ein Hund", "0-0 1-1", "<img>ein Hund"),
        ("3 &lt; 4 &amp; <i>x</i>", "3 < 4 & y", "0-0 1-1 2-2 3-3 4-4", "3 &lt; 4 &amp; <i>y</i>"),
        ("a <math><mi>x</mi></math> b", "ein z", "0-0 1-1", "ein <math><mi>x</mi></math> z"),
        ("run <code>a &lt; b</code> now", "jetzt laufen", "0-1 1-0", "jetzt laufen <code>a &lt; b</code>"),
        (
            'run <b class="notranslate">a<b>b</b> c</b> now',
            "jetzt laufen",
            "0-1 1-0",
            'jetzt laufen <b class="notranslate">a<b>b</b> c</b>',
        ),
        # What is not translated stays within its parents, although a model may put it elsewhere.
        (
            "see <a href=x>(<code>y</code>)</a> now",
            "jetzt sehen",
            "0-1 1-0",
            "jetzt sehen <a href=x>(<code>y</code>)</a>",
        ),
        (
            "a <i>the <code>x</code> dog</i> now",
            "nun ein der Hund",
            "0-1 1-2 2-3 3-0",
            "nun ein <i>der <code>x</code> Hund</i>",
        ),
        (
            "<i>a <code>x</code> b <code>y</code></i> <code>z</code>",
            "ein Bett",
            "0-0 1-1",
            "<i>ein <code>x</code> Bett <code>y</code></i> <code>z</code>",
        ),
        ("a &#983040; <code>x</code>", "ein", "0-0", "ein \U000f0000 <code>x</code>"),
        # A mark that ends a word stays behind what stands before it.
        ("a dog <a id=n></a>.", "ein Hund.", "0-0 1-1", "ein Hund <a id=n></a>."),
        ("a dog<img>, b", "ein Hund , b", "0-0 1-1 1-2 2-3", "ein Hund<img> , b"),
        ("a <b>dog</b><img>.", "ein Hund .", "0-0 1-1 1-2", "ein <b>Hund</b><img> ."),
        ("a dog<sup>1</sup>.", "ein Hund.", "0-0 1-1", "ein Hund<sup>1</sup>."),
        ("a <b>dog</b><br>.", "ein Hund.", "0-0 1-1", "ein <b>Hund</b><br>."),
        # The number of a footnote stays beside its word; one within a word does not.
        ("a dog<sup>1</sup> runs", "ein Hund läuft", "0-0 1-1 2-2", "ein Hund<sup>1</sup> läuft"),
        ("a dog.<sup><a href='#n'>[12]</a></sup>", "ein Hund.", "0-0 1-1", "ein Hund.<sup><a href='#n'>[12]</a></sup>"),
        ("a dog. <a href='#n'>↩</a>", "ein Hund.", "0-0 1-1", "ein Hund. <a href='#n'>↩</a>"),
        ("in <a href='#n'>2024</a>", "bis 2024", "0-0 1-1", "bis <a href='#n'>2024</a>"),
        ("H<sub>2</sub>O x", "H2O y", "0-0 1-1", "<sub>H2O</sub> y"),
        # A word may be divided there, but it is one word.
        ("a super<wbr>dog runs", "ein Hund läuft", "0-0 1-1 2-2", "ein Hund<wbr> läuft"),
        ("a <b>dog</i> runs", "ein Hund läuft", "0-0 1-1 2-2", "ein <b>Hund</i> läuft"),
    ],
)
def test_tags_stand_where_the_alignment_says(line: str, output: str, links: str, expected: str) -> None:
    assert translated(line, output, link_weights(links)) == expected


@pytest.mark.parametrize("part", ["<b>", "</b>", "<!--", "a <b", "<b translate=no>", "<a>1"])
def test_hostile_markup_takes_little_time(part: str) -> None:
    line = part * 3000
    for content in (line, f"{line}a{line.replace('<', '</')}"):
        assert translated(content, "x y", np.ones((2, 9000))).count("<b>") == content.count("<b>")


@pytest.mark.parametrize("name", ["luong", "memory"])
def test_lines_of_html_are_translated(name: str) -> None:
    lines = ["two <b>dogs</b> &amp; x", "<i></i>", "", "<code>x</code>", "<a href='x'>two</a> <b>dogs</b>"]
    translator, options = random_translator(name), SearchOptions(beam_size=3, n_best=3, max_length=8)
    translations = translator.translate(lines, options, markup=True)
    plain = translator.translate(["two dogs & x", "", "", "", "two dogs"], options)
    for line, translation, without in zip(lines, translations, plain, strict=True):
        for best, text in zip(translation.n_best or [translation], without.n_best or [without], strict=True):
            assert best.alignment is None and best.score == text.score
            tree = Tree(best.text)
            assert tree.balanced and tree.parents == Tree(line).parents
            assert line.startswith("<code>") or tree.text == html.unescape(text.text)


def test_entities_of_characters_that_the_model_does_not_read_move_no_tags() -> None:
    trained = random_translator(kind="spm-default").trained
    trained.config["data"]["remove_invisible"] = "all"
    line = "t&shy;w&shy;o do&shy;gs <b>run</b> in New <i>York</i> x y"
    lines, options = [line, line.replace("&shy;", "")], SearchOptions(max_length=8)
    first, second = Translator(trained, check_text=False).texts(lines, options, markup=True)
    assert first == second


def test_tags_need_attention() -> None:
    assert refusal(random_translator("none").translate, ["x"], markup=True).startswith("markup: ")


def test_chinese_and_japanese_have_no_blank_where_a_line_or_picture_ends_a_word() -> None:
    line = "今日は\n   寒い。 <b>我\n们</b> a\nb 가\n나 按<img>钮 c<img>d"
    assert Fragment.read(line).text == "今日は寒い。 我们 a b 가 나 按钮 c d"
