"""Word links: the formats of other tools, how they count, and lines that are read in the wrong way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import expect_error, refusal

from nmt.data.links import Links, LinkSettings, links_from_python, links_of_first, parse_links
from nmt.errors import UserError

SENTENCES = [("a b c d", "x y"), ("e", "z"), ("f g h", "u v w")]


def links(sure: set[tuple[int, int]], possible: set[tuple[int, int]]) -> Links:
    return Links(frozenset(sure), frozenset(sure | possible))


EXPECTED = [links({(0, 0), (3, 1)}, {(1, 0)}), links(set(), set()), links({(2, 2)}, {(0, 1)})]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("0-0\t3-1  1p0 0-0 0p0\n\n2-2 0?1", LinkSettings()),
        ("1-1 4-2 2?1\n\n3-3 1p2", LinkSettings(base=1)),
        ("1 1 1 S\n1 4 2\n1 2 1 P\n3 3 3 S\n3 1 2 P", LinkSettings(base=1)),
        ("0003 3 3\n0003 1 2 P 0.75\n\n0001 1 1 S 1\n0001 4 2 0.5\n0001 2 1 P", LinkSettings(base=1)),
        ("0 0 0 S\n0 3 1 S\n0\t1\t0\tP\n2 2 2 S\n2 0 1 P", LinkSettings()),
    ],
    ids=["pharaoh", "from-1", "naacl", "naacl-any-order", "naacl-from-0"],
)
def test_every_format_gives_the_same_links(text: str, settings: LinkSettings) -> None:
    lines = text.split("\n")
    assert parse_links(lines, "gold", settings) == EXPECTED
    assert parse_links(lines, "gold", settings, sentences=SENTENCES) == EXPECTED


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_links_of_the_first_sentences_are_those_of_all(base: int, count: int) -> None:
    naacl = [f"{base + 1} {base} {base} S", f"{base} {base} {base} S", f"{base + 2} {base} {base + 1} P"]
    settings = LinkSettings(base=base)
    for lines in (naacl, [f"{base}-{base}", f"{base}-{base}", f"{base}p{base + 1}"]):
        expected = parse_links(lines, "gold", settings, count=3)[:count]
        assert parse_links(links_of_first(lines, count), "gold", settings, count=count) == expected


def test_naacl_file_may_end_before_the_last_sentence() -> None:
    empty = links(set(), set())
    assert parse_links(["1 1 1 S"], "gold", LinkSettings(1), count=3) == [links({(0, 0)}, set()), empty, empty]


@pytest.mark.parametrize(
    ("lines", "settings", "message"),
    [
        (["0-0", "", "x"], LinkSettings(), "gold:3: 'x': not a link; write i-j (sure), ipj or i?j (possible)"),
        (["0-0", "", f"1-{'9' * 5000}"], LinkSettings(), "gold:3: '1-999"),
        (["1 1 1 S", "2 1 1 X"], LinkSettings(1), "gold:2: '2 1 1 X': not a link; write sentence i j S"),
        (["1 1 1 S", "0-0"], LinkSettings(1), "gold:2: '0-0': not a link"),
        (["1 1 1 S", "9 1 1 S"], LinkSettings(1), "gold has links of sentence 9 for 3 sentences"),
        (["0-0:0.9", "", ""], LinkSettings(), "gold:1: '0-0:0.9': a link with a weight; remove the weights,"
         " so that it reads 0-0"),
        (["0-0 ||| -3.2", "", ""], LinkSettings(), "gold:1: '|||': a score after the links; remove the scores"),
        (["# Sentence pair (1) source length 4 target length 2 alignment score : 0.01", "x y", "NULL ({ }) a ({ 1 })"],
         LinkSettings(), "gold:1: '# Sentence pair (1) source length 4 tar: alignments of GIZA++ (A3); convert"),
        (["0-0"], LinkSettings(), "gold has 1 line of links for 3 sentences"),
        (["0-1", "", ""], LinkSettings(1, key="alignments"), "gold:1: '0-1' counts words from 0, not from 1;"
         " set alignments_base=0"),
        (["3-0", "1-1", ""], LinkSettings(), "gold:2: 1-1 points outside the sentences of 1 and 1 word;"
         " check links_base=0"),
        (["4-2 1-1", "1-1", "3-3"], LinkSettings(), "words look counted from 1; set links_base=1"),
        (["1-3", "0-0", ""], LinkSettings(), "gold:1: 1-3 points outside the sentences of 4 and 2 words;"
         " sides look swapped; write the number of the source word first"),
    ],
)  # fmt: skip
def test_wrong_links_give_one_line_with_the_fix(lines: list[str], settings: LinkSettings, message: str) -> None:
    problem = refusal(parse_links, lines, "gold", settings, sentences=SENTENCES)
    assert message in problem and len(problem) < 200


def test_links_count_words_between_spaces_and_tabs() -> None:
    sentences = [("a\u00a0b\tc", "x \u3000 y"), ("\u2028 d\r", "z")]
    assert parse_links(["1-2", "1-0"], "gold", sentences=sentences) == [links({(1, 2)}, set()), links({(1, 0)}, set())]
    for lines in (["2-1", ""], ["0-1", "2-0"]):
        expect_error("points outside the sentences", parse_links, lines, "gold", sentences=sentences)
    expect_error(
        r"gold:1: 2-1 points .* only spaces and tabs end words; replace other whitespace",
        parse_links,
        ["0-2 2-1", ""],
        "gold",
        sentences=sentences,
    )


def test_links_from_python_are_sets_of_pairs_pharaoh_lines_or_links() -> None:
    expected = [links({(0, 0), (3, 1)}, set()), links({(0, 0)}, set()), links({(2, 2)}, {(0, 1)})]
    given = [{(0, 0), (3, 1)}, [(np.int64(0), 0)], links({(2, 2)}, {(0, 1)})]
    assert links_from_python(given, SENTENCES) == expected
    assert links_from_python(["0-0 3-1", "0-0\n", "2-2 0p1"], SENTENCES) == expected
    assert links_from_python(iter([frozenset(expected[0].sure), ((0, 0),), "2-2 0?1"]), SENTENCES) == expected
    assert links_from_python([set(), (), "0-0"], SENTENCES)[:2] == [links(set(), set())] * 2


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("0-0", TypeError, "links='0-0': str; give one set of (source word, target word) per pair"),
        (5, TypeError, "links=5: int; give one set"),
        ({(0, 0)}, UserError, "links: 1 item for 3 sentences; give one set"),
        ([{(0, 0)}, {0, 1}, set()], TypeError, "links[1]={0, 1}: set; give one set"),
        ([{(0, 0, 1)}, set(), set()], TypeError, "links[0]={(0, 0, 1)}: set; give one set"),
        ([(0, 0), (0, 0), (0, 0)], TypeError, "links[0]=(0, 0): tuple; give one set"),
        ([set(), {(1, 0)}, set()], UserError, "links[1]: (1, 0) points outside the sentences of 1 and 1 word"),
        (["0-0", "x", ""], UserError, "links[1]:1: 'x': not a link"),
        ([set(), "", []], UserError, "links: no links in 3 lines"),
    ],
)
def test_other_links_from_python_are_rejected_with_the_fix(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        links_from_python(given, SENTENCES)
    assert message in str(caught.value)
