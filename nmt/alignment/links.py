"""Word links: choose them by word weights, and write them in Pharaoh's notation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nmt.text.links import Link, Links


def argmax_links(weights: np.ndarray) -> frozenset[Link]:
    """Return, for each target word of ``weights`` (J, I), a link to the source word with the largest weight.

    A target word whose weights are all 0 gets no link.
    """
    if not weights.size:
        return frozenset()
    return frozenset((int(row.argmax()), j) for j, row in enumerate(weights) if row.max() > 0)


def format_pharaoh(links: Iterable[Link]) -> str:
    """Return the links as ``i-j`` items, counted from 0 and sorted by source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def format_gold(links: Links) -> str:
    """Return gold links as ``i-j`` (sure) and ``ipj`` (possible) items, as ``parse_links`` reads them."""
    return " ".join(f"{i}{'-' if (i, j) in links.sure else 'p'}{j}" for i, j in sorted(links.sure | links.possible))
