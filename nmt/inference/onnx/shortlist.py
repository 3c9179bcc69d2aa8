"""Few of the target's pieces, among which those of a batch's translations are most likely found.

Jean, Cho, Memisevic & Bengio (2015), On Using Very Large Target Vocabulary for Neural Machine Translation, arXiv
1412.2007, §3.2: the most frequent pieces, and for each piece of the source its likeliest translations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from nmt.errors import UserError
from nmt.text.specials import EOS

if TYPE_CHECKING:
    from nmt.text.corpus import Corpus

FREQUENT = 200
CELLS = 30_000_000  # source × target pieces to learn from: a gigabyte, and half a minute


class Shortlist:
    """``best`` (source vocabulary, n): the translations of each source piece; ``frequent`` (F,): pieces always there.

    Both hold target ids; EOS fills up rows with fewer translations. ``weight`` (V, F) and ``bias`` (V,) are the output
    layer, of which a batch takes the rows that it may use.
    """

    def __init__(self, best: np.ndarray, frequent: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> None:
        self.best, self.frequent = best, frequent
        self.weight, self.bias = weight, bias

    def candidates(self, sources: Sequence[Sequence[int]]) -> np.ndarray:
        """The target ids (C,), rising, that translations of these sources may use; EOS is one of them."""
        pieces = np.unique(np.concatenate([np.asarray(ids, dtype=np.int64) for ids in sources]))
        ids: np.ndarray = np.unique(np.concatenate([self.best[pieces].ravel(), self.frequent, [EOS]]))
        return ids.astype(np.int64)

    def save(self, file: Path) -> None:
        np.savez(file, best=self.best, frequent=self.frequent, weight=self.weight, bias=self.bias)

    @classmethod
    def load(cls, file: Path) -> Shortlist:
        """What ``save`` wrote. Raises UserError where it is damaged, or was never one."""
        try:
            with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                found = cls(*(stored[name] for name in ("best", "frequent", "weight", "bias")))
            lists = np.concatenate([found.best.ravel(), found.frequent])
            whole = lists.dtype.kind == "i" and found.best.ndim == 2 and found.weight.shape[:1] == found.bias.shape
            sound = whole and lists.min(initial=0) >= 0 and lists.max(initial=0) < len(found.bias)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise UserError(f"{file}: cannot be read ({error}); write it again with nmt-export") from None
        if not sound:
            raise UserError(f"{file}: not what nmt-export writes; write it again")
        return found


def translations(corpus: Corpus, *, source_vocabulary: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """``best`` and ``frequent`` of a shortlist with ``size`` translations of each source piece.

    By IBM Model 1 of the corpus, or of as many of its first pairs as fit into memory.
    """
    from nmt.alignment.model1 import train_ibm_model_1

    cells = np.cumsum(corpus.source_lengths.astype(np.int64) * corpus.target_lengths)
    rows = max(1, int(np.searchsorted(cells, CELLS, side="right")))
    source, target, probability = train_ibm_model_1(corpus.ids(row) for row in range(min(rows, len(corpus))))
    order = np.lexsort([target, -probability, source])
    source, target = source[order], target[order]
    rank = np.arange(len(source)) - np.searchsorted(source, source)
    kept = rank < size
    best = np.full((source_vocabulary, size), EOS, dtype=np.int32)
    best[source[kept], rank[kept]] = target[kept]
    seen = np.bincount(np.concatenate([corpus.ids(row)[1] for row in range(len(corpus))]))
    frequent = np.argsort(-seen, kind="stable")[: min(FREQUENT, np.count_nonzero(seen))]
    return best, np.sort(frequent).astype(np.int32)
