"""Training pairs that are encoded again in each epoch, with BPE-dropout."""

from __future__ import annotations

import zlib

import numpy as np

from nmt.errors import UserError
from nmt.text.corpus import Corpus
from nmt.text.prepare import Prepared
from nmt.text.tokenizer import Tokenizer


class SampledPieces:
    """Piece ids of a corpus's rows; those of one row depend only on (seed, epoch, row) and its text.

    If dropout gives a source more pieces than the longest source of the corpus has, it keeps its usual pieces, because
    an attention may not hold more.
    """

    def __init__(self, corpus: Corpus, source: Tokenizer, target: Tokenizer, *, dropout: float, seed: int) -> None:
        self._corpus, self._source, self._target = corpus, source, target
        self._dropout, self._seed = dropout, seed
        self._longest, _ = corpus.longest_source()
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, counted from 0, of the next rows."""
        self._epoch = epoch

    def ids(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the (source, target) piece ids of one row: int32, without BOS and EOS."""
        source, target = self._corpus.texts(row)
        seeds = [zlib.crc32(f"{self._seed} {self._epoch} {row} {side}".encode()) for side in ("source", "target")]
        x = np.array(self._source.sample(source, dropout=self._dropout, seed=seeds[0]), dtype=np.int32)
        y = np.array(self._target.sample(target, dropout=self._dropout, seed=seeds[1]), dtype=np.int32)
        return x if len(x) <= self._longest else self._corpus.ids(row)[0], y


def sampled_pieces(prepared: Prepared, dropout: float | None, *, seed: int) -> SampledPieces | None:
    """Return the training pairs with pieces that are drawn in each epoch, or None without ``dropout``.

    Raises UserError for pieces of another kind than BPE.
    """
    if dropout is None:
        return None
    if (kind := prepared.tokenizer.kind) != "bpe":
        fix = "remove batches.bpe_dropout"
        raise UserError(f"batches.bpe_dropout={dropout}: the text has {kind} pieces, which have no merges; {fix}")
    for tokenizer in (prepared.source, prepared.target):
        tokenizer.sample("", dropout=dropout, seed=seed)  # raises UserError if a model that was given is not BPE
    return SampledPieces(prepared.corpora["train"], prepared.source, prepared.target, dropout=dropout, seed=seed)
