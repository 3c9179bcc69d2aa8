"""Generated English-German sentence pairs with exact word alignments, stored as one file: ``data=generated``.

``scripts/grammar`` wrote the file, from the grammar in that folder.
"""

from __future__ import annotations

import lzma
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Annotated

from nmt.data.links import Link, Pair
from nmt.settings.arguments import AtLeast, AtMost

FILE = Path(__file__).with_name("generated.tsv.xz")
SIZES = {"valid": 500, "test": 500, "train": 40_000}  # pairs of each part, in the order of the file


def generated(
    *,
    train_pairs: Annotated[int, AtLeast(1), AtMost(SIZES["train"])],
    valid_pairs: Annotated[int, AtLeast(1), AtMost(SIZES["valid"])],
    test_pairs: Annotated[int, AtLeast(1), AtMost(SIZES["test"])],
) -> dict[str, list[Pair]]:
    """Return the first pairs of each part (train, valid, test) of the stored corpus.

    No English sentence occurs twice. Every word of valid and test occurs in the 40,000 training pairs.
    """
    sizes = {"valid": valid_pairs, "test": test_pairs, "train": train_pairs}
    parts = {}
    with lzma.open(FILE, "rt", encoding="utf-8") as lines:
        for part, stored in SIZES.items():
            parts[part] = [_pair(line) for line in islice(lines, sizes[part])]
            for _ in range(stored - sizes[part] if part != "train" else 0):
                next(lines)
    return parts


def _pair(line: str) -> Pair:
    source, target, links = line.rstrip("\n").split("\t")
    return Pair(source, target, tuple(_link(link) for link in links.split(" ")))


@cache
def _link(text: str) -> Link:
    i, _, j = text.partition("-")
    return int(i), int(j)
