"""Training pairs that are encoded again in each epoch, with BPE-dropout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.errors import UserError
from nmt.text.batches import Ids
from nmt.text.corpus import Corpus
from nmt.text.prepare import Prepared
from nmt.text.tokenizer import Tokenizer

GROWTH = 10  # a dropout of 0.1 makes sentences of the generated corpus 1.6 times as long, and one in ten twice as long


class SampledPieces:
    """Piece ids of the training rows, drawn anew whenever a batch is read.

    Batches are planned with lengths ``growth`` times the usual ones. A side that grows beyond its share of
    ``max_tokens``, or a source beyond the longest one of the corpus, which an attention may not hold, keeps its usual
    pieces. So no batch exceeds ``max_tokens`` unless it is one sentence.
    """

    def __init__(
        self, corpus: Corpus, source: Tokenizer, target: Tokenizer, *, dropout: float, max_tokens: int
    ) -> None:
        self._corpus, self._tokenizers = corpus, (source, target)
        self._dropout, self._max_tokens = dropout, max_tokens
        self._longest, _ = corpus.longest_source()
        self.growth = 1 + GROWTH * dropout

    def batch(self, rows: Sequence[int]) -> list[Ids]:
        """Return the (source, target) piece ids of these rows, without BOS and EOS."""
        share = self._max_tokens // len(rows) - 1  # </s>
        limits = (min(share, self._longest), share)
        pairs = []
        for row, usual in zip(rows, self._corpus.batch(rows), strict=True):
            sides = zip(self._tokenizers, self._corpus.texts(row), usual, limits, strict=True)
            x, y = (self._sample(*side) for side in sides)
            pairs.append((x, y))
        return pairs

    def _sample(self, tokenizer: Tokenizer, text: str, usual: np.ndarray, limit: int) -> np.ndarray:
        ids = tokenizer.sample(text, dropout=self._dropout)
        return np.array(ids, dtype=np.int32) if len(ids) <= limit else usual


def sampled_pieces(prepared: Prepared, dropout: float | None, *, max_tokens: int) -> SampledPieces | None:
    """Return the training pairs with pieces that are drawn in each epoch, or None without ``dropout``.

    Raises UserError for pieces of another kind than BPE.
    """
    if dropout is None:
        return None
    if (kind := prepared.tokenizer.kind) != "bpe":
        fix = "remove batches.bpe_dropout"
        raise UserError(f"batches.bpe_dropout={dropout}: the text has {kind} pieces, which have no merges; {fix}")
    corpus = prepared.corpora["train"]
    return SampledPieces(corpus, prepared.source, prepared.target, dropout=dropout, max_tokens=max_tokens)
