"""Guide alignments towards gold word links of the training text.

Chen, Matusov, Khadivi & Peter (2016), Guided Alignment Training for Topic-Aware Neural Machine Translation,
arXiv 1607.01628.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nmt.alignment.word_weights import linked_pieces, normalise_rows
from nmt.data.words import count_words
from nmt.errors import UserError
from nmt.settings.arguments import Count, NonNegative
from nmt.text.batches import Batch
from nmt.text.prepare import Prepared
from nmt.training.guide import Guide


class GoldLinks(Guide):
    """Sure gold links between words, normalised (§3.1): a target piece has equal shares of all linked source pieces.

    Pieces of target words without a link, and ``</s>``, have no target.
    """

    def __init__(self, *, prepared: Prepared, weight: NonNegative = 0.1, decay_steps: Count | None = None) -> None:
        super().__init__(weight=weight, decay_steps=decay_steps)
        self.corpus = prepared.corpora["train"]
        self.tokenizers = prepared.source, prepared.target
        if not self.corpus.has_links:
            raise UserError(
                "guide=links: the training text has pairs without gold links; give data.train.links=FILE, or remove it"
            )

    def targets(self, batch: Batch) -> Tensor:
        """Return the share (B, T, S) of each source piece for each target piece, in float32."""
        shares = torch.zeros(*batch.target_out.shape, batch.source.shape[1])
        for row, index in enumerate(batch.index.tolist()):
            pieces = torch.from_numpy(self.piece_shares(index))
            shares[row, : pieces.shape[0], : pieces.shape[1]] = pieces
        return shares.to(batch.source.device)

    def piece_shares(self, row: int) -> np.ndarray:
        """Return the shares (T, S) of one row of the corpus, without ``</s>``."""
        texts = self.corpus.texts(row)
        source_words, target_words = (
            tokenizer.words(text) for tokenizer, text in zip(self.tokenizers, texts, strict=True)
        )
        if [len(source_words), len(target_words)] != [len(side) for side in self.corpus.ids(row)]:
            raise UserError(
                f"{self.corpus.path}: this version of SentencePiece splits training pair {row + 1} into other pieces; "
                "prepare the text again"
            )
        sizes = [count_words(text) for text in texts]
        linked = np.zeros(sizes[::-1])
        i, j = self.corpus.sure_links(row).T
        linked[j, i] = 1
        return normalise_rows(linked_pieces(linked, source_words, target_words))
