"""Links and their error rates against worked examples and naive counts."""

from __future__ import annotations

import random

import pytest

from nmt.alignment.aer import alignment_error_rate, alignment_scores
from nmt.data.links import Links, format_pharaoh, parse_links


def test_parsed_links_are_formatted_in_source_order() -> None:
    (links,) = parse_links(["2-0 0-1 10-3"], "links")
    assert format_pharaoh(links.sure) == "0-1 2-0 10-3"


@pytest.mark.parametrize(
    ("links", "gold", "scores"),
    [
        ([[(0, 0), (2, 1), (2, 2), (2, 2)]], ["0-0 1-1 2p1"], (2 / 3, 1 / 2, 0.4)),  # a repeated link counts once
        ([[]], [""], (1, 1, 0)),
        ([[]], ["0-0"], (1, 0, 1)),
        ([[(0, 0)]], [""], (0, 1, 1)),
        # Counts of a corpus are sums, not means, and links belong to their sentence.
        ([[(0, 0), (2, 1), (2, 2)], [], [(1, 0)]], ["0-0 1-1 2p1", "", "0-0 1p0 2p2"], (3 / 4, 1 / 3, 3 / 7)),
    ],
)
def test_scores_of_worked_examples(
    links: list[list[tuple[int, int]]], gold: list[str], scores: tuple[float, float, float]
) -> None:
    golds = parse_links(gold, "gold")
    assert alignment_scores(links, golds) == pytest.approx(scores)
    assert alignment_error_rate(links, golds) == pytest.approx(scores[2])


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
