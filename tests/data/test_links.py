"""Word links: Pharaoh lines, how they count words, and what programs give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import expect_error, refusal

from nmt.data.links import Links, links_from_python, parse_links
from nmt.errors import UserError

SENTENCES = [("a b c d", "x y"), ("e", "z"), ("f g h", "u v w")]


def links(sure: set[tuple[int, int]], possible: set[tuple[int, int]]) -> Links:
    return Links(frozenset(sure), frozenset(sure | possible))


EXPECTED = [links({(0, 0), (3, 1)}, {(1, 0)}), links(set(), set()), links({(2, 2)}, {(0, 1)})]


def test_pharaoh_lines_give_sure_and_possible_links() -> None:
    lines = ["0-0\t3-1  1p0 0-0 0p0", "", "2-2 0?1"]
    assert parse_links(lines, "gold") == parse_links(lines, "gold", SENTENCES) == EXPECTED


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (["0-0", "", "x"], "gold:3: 'x'"),
        (["0-0", "", f"1-{'9' * 5000}"], "gold:3: '1-999"),
        (["0-0 ||| -3.2", "", ""], "gold:1: '|||'"),
        (["1 1 1 S", "", ""], "gold:1: '1'"),
        (["0-0"], "gold has 1 line of links for 3 sentences"),
        (["3-0", "1-1", ""], "gold:2: 1-1 points outside the sentences of 1 and 1 word; "),
        (["1-3", "0-0", ""], "gold:1: 1-3 points outside the sentences of 4 and 2 words; "),
    ],
)
def test_wrong_links_are_named_with_their_line(lines: list[str], place: str) -> None:
    problem = refusal(parse_links, lines, "gold", SENTENCES)
    assert problem.startswith(place) and len(problem) < 200


def test_links_count_words_between_spaces_and_tabs() -> None:
    sentences = [("a\u00a0b\tc", "x \u3000 y"), ("\u2028 d\r", "z")]
    assert parse_links(["1-2", "1-0"], "gold", sentences) == [links({(1, 2)}, set()), links({(1, 0)}, set())]
    for lines in (["2-1", ""], ["0-1", "2-0"]):
        expect_error("points outside the sentences", parse_links, lines, "gold", sentences)


def test_links_from_python_are_sets_of_pairs_pharaoh_lines_or_links() -> None:
    expected = [links({(0, 0), (3, 1)}, set()), links({(0, 0)}, set()), links({(2, 2)}, {(0, 1)})]
    given = [{(0, 0), (3, 1)}, [(np.int64(0), 0)], links({(2, 2)}, {(0, 1)})]
    assert links_from_python(given, SENTENCES) == expected
    assert links_from_python(["0-0 3-1", "0-0\n", "2-2 0p1"], SENTENCES) == expected
    assert links_from_python(iter([frozenset(expected[0].sure), ((0, 0),), "2-2 0?1"]), SENTENCES) == expected
    assert links_from_python([set(), (), "0-0"], SENTENCES)[:2] == [links(set(), set())] * 2


@pytest.mark.parametrize(
    ("given", "error", "place"),
    [
        ("0-0", TypeError, "links='0-0'"),
        (5, TypeError, "links=5"),
        ({(0, 0)}, UserError, "links: 1 item for 3 sentences"),
        ([{(0, 0)}, {0, 1}, set()], TypeError, "links[1]="),
        ([{(0, 0, 1)}, set(), set()], TypeError, "links[0]="),
        ([(0, 0), (0, 0), (0, 0)], TypeError, "links[0]="),
        ([set(), {(1, 0)}, set()], UserError, "links[1]: 1-0"),
        (["0-0", "x", ""], UserError, "links[1]: 'x'"),
        ([set(), "", []], UserError, "links: no links"),
    ],
)
def test_other_links_from_python_are_rejected(given: Any, error: type[Exception], place: str) -> None:
    with pytest.raises(error) as caught:
        links_from_python(given, SENTENCES)
    assert str(caught.value).startswith(place)
