"""A second training loss that pulls the alignments of a model towards gold links.

Chen, Matusov, Khadivi & Peter (2016), Guided Alignment Training for Topic-Aware Neural Machine Translation, arXiv
1607.01628.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.alignment.word_weights import linked_pieces, normalise_rows
from nmt.data.words import count_words, words_of
from nmt.errors import UserError
from nmt.model import Seq2Seq
from nmt.settings.arguments import NonNegative
from nmt.settings.plugins import Block, PluginPoint, construct
from nmt.text.batches import Batch
from nmt.text.prepare import Prepared

SMALLEST = 1e-6  # added to shares, so that the loss of an alignment of 0 stays finite


class Guide(ABC):
    """A loss that is added to that of the translation, ``weight`` times."""

    weight: float

    def __deepcopy__(self, memo: object) -> Guide:
        """Return the guide itself: a moving average copies the task, but not its corpora."""
        return self

    @abstractmethod
    def loss(self, model: Seq2Seq, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the inputs (B, T, F) of the output layer, and the sum of the losses of the target pieces."""


GUIDE = PluginPoint(Guide, ("nmt.training",), supplied=frozenset({"prepared"}))


def build_guide(block: Block | None, prepared: Prepared, *, trust: Sequence[str]) -> Guide | None:
    """Return the guide that the block describes, or None. Raises UserError if it does not fit the training text."""
    return None if block is None else construct(block, GUIDE, trust=trust, prepared=prepared)


def alignment_loss(alignment: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy −Σ_ts targets_ts log a_ts, in nats.

    ``alignment`` (B, T, S) may be negative and need not sum to 1: a is |alignment| with rows that sum to 1, from which
    links and the AER are computed too.
    """
    weights = alignment.float().abs()
    shares = weights / weights.sum(2, keepdim=True).clamp(min=SMALLEST**2)  # with a smaller bound, gradients overflow
    return -(targets * (shares + SMALLEST).log()).sum()


class GoldLinks(Guide):
    """Sure gold links between words, normalised (§3.1): a target piece has equal shares of all linked source pieces.

    Pieces of target words without a link, and ``</s>``, have no target.
    """

    def __init__(self, *, prepared: Prepared, weight: NonNegative = 0.1) -> None:
        self.weight = weight
        self.corpus = prepared.corpora["train"]
        self.tokenizers = prepared.source, prepared.target
        if not self.corpus.has_links:
            raise UserError(
                "guide=links: the training text has pairs without gold links; give data.train.links=FILE, or remove it"
            )

    def loss(self, model: Seq2Seq, batch: Batch) -> tuple[Tensor, Tensor]:
        features, alignment = model.aligned_features(batch.source, batch.source_mask, batch.target_in)
        return features, alignment_loss(alignment, self.targets(batch))

    def targets(self, batch: Batch) -> Tensor:
        """Return the share (B, T, S) of each source piece for each target piece; rows of zeros have no target."""
        shares = torch.zeros(*batch.target_out.shape, batch.source.shape[1])
        for row, index in enumerate(batch.index.tolist()):
            pieces = torch.from_numpy(self._piece_shares(index))
            shares[row, : pieces.shape[0], : pieces.shape[1]] = pieces
        return shares.to(batch.source.device)

    def _piece_shares(self, row: int) -> np.ndarray:
        """Return the shares (T, S) of one row of the corpus, without ``</s>``."""
        texts = self.corpus.texts(row)
        sides = zip(self.tokenizers, texts, strict=True)
        source, target = (words_of(text, tokenizer.spans(text)) for tokenizer, text in sides)
        source_words, target_words = map(count_words, texts)
        linked = np.zeros((target_words, source_words))
        i, j = self.corpus.sure_links(row).T
        linked[j, i] = 1
        return normalise_rows(linked_pieces(linked, source, target))
