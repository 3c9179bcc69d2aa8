"""Links and their error rates against worked examples and naive counts."""

from __future__ import annotations

import random

import pytest

from nmt.alignment.aer import alignment_error_rate, alignment_scores, better_reading
from nmt.data.links import Links, format_pharaoh, parse_links


def test_parsed_links_are_formatted_in_source_order() -> None:
    (links,) = parse_links(["2-0 0-1 10-3"], "links")
    assert format_pharaoh(links.sure) == "0-1 2-0 10-3"


def test_scores_of_a_worked_example() -> None:
    """|A|=3, |S|=2, |A∩S|=1, |A∩P|=2: precision 2/3, recall 1/2, AER 1 − 3/5."""
    (gold,) = parse_links(["0-0 1-1 2p1"], "gold")
    assert alignment_scores([{(0, 0), (2, 1), (2, 2)}], [gold]) == pytest.approx((2 / 3, 1 / 2, 0.4))


def test_scores_without_links() -> None:
    nothing, gold = Links(frozenset(), frozenset()), Links(frozenset({(0, 0)}), frozenset({(0, 0)}))
    assert alignment_scores([set()], [nothing]) == (1, 1, 0)
    assert alignment_scores([set()], [gold]) == (1, 0, 1)
    assert alignment_scores([{(0, 0)}], [nothing]) == (0, 1, 1)


def test_repeated_links_count_once() -> None:
    golds = parse_links(["0-0 1-1 2p1"], "gold")
    assert alignment_scores([[(0, 0), (2, 2), (2, 2)]], golds) == alignment_scores([{(0, 0), (2, 2)}], golds)


@pytest.mark.parametrize("shift", [0, 1, -1])
@pytest.mark.parametrize("swapped", [False, True])
def test_reading_that_fits_gold_links_better_is_found(swapped: bool, shift: int) -> None:
    draw = random.Random(5)
    golds = [frozenset((draw.randrange(9), draw.randrange(9)) for _ in range(9)) for _ in range(9)]
    written = [{(i - shift, j - shift) for i, j in gold} for gold in golds]
    if swapped:
        written = [{(j, i) for i, j in links} for links in written]
    reading = better_reading(written, [Links(gold, gold) for gold in golds])
    assert reading == ((swapped, shift) if swapped or shift else None)


def test_random_links_have_no_better_reading() -> None:
    draw = random.Random(6)
    sides: list[list[frozenset[tuple[int, int]]]] = [
        [frozenset((draw.randrange(9), draw.randrange(9)) for _ in range(9)) for _ in range(9)] for _ in range(2)
    ]
    assert better_reading(sides[0], [Links(gold, gold) for gold in sides[1]]) is None


def test_error_rate_against_a_naive_count() -> None:
    draw = random.Random(4)
    cells = [(i, j) for i in range(4) for j in range(4)]
    for _ in range(50):
        hypotheses, golds, hits, size, count, sure_hits, all_sure = [], [], 0, 0, 0, 0, 0
        for _ in range(3):
            links, sure, possible = (set(draw.sample(cells, draw.randint(0, 8))) for _ in range(3))
            hypotheses.append(links)
            golds.append(Links(frozenset(sure), frozenset(sure | possible)))
            for link in links:
                hits += (link in sure) + (link in sure | possible)
                sure_hits += link in sure
            size += len(links) + len(sure)
            count += len(links)
            all_sure += len(sure)
        expected = 1 - hits / size if size else 0.0
        assert alignment_error_rate(hypotheses, golds) == pytest.approx(expected)
        scores = alignment_scores(hypotheses, golds)
        assert scores.precision == pytest.approx((hits - sure_hits) / count if count else 1)
        assert scores.recall == pytest.approx(sure_hits / all_sure if all_sure else 1)
