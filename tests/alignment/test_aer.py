"""Links and their error rates against worked examples."""

from __future__ import annotations

import pytest

from nmt.alignment.aer import alignment_error_rate, alignment_scores
from nmt.data.links import format_pharaoh, parse_links


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
