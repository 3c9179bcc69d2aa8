"""Encoder, attention and decoder as one model."""

from __future__ import annotations

from torch import Tensor, nn

from nmt.attention.base import Attention, Memory
from nmt.model.decoder import Decoder
from nmt.model.encoder import Final, RecurrentEncoder


class Seq2Seq(nn.Module):
    """Encoder, attention and decoder: a model of p(target | source).

    The encoder's states are written into a memory once, and every decoder step reads it.
    """

    def __init__(
        self, *, embedding: nn.Embedding, encoder: RecurrentEncoder, attention: Attention, decoder: Decoder
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.encoder = encoder
        self.attention = attention
        self.decoder = decoder

    @property
    def resumable(self) -> bool:
        """Whether the encoder can continue a source, so that a source can be encoded part by part."""
        return bool(getattr(self.encoder, "resumable", False))

    def encode(
        self, ids: Tensor, mask: Tensor, *, trace: bool = False, before: tuple[Memory, Final] | None = None
    ) -> tuple[Memory, Final]:
        """Return the memory of each source and the encoder's final state; ids and mask (B, S).

        ``before`` is the result for an earlier part of the same sources, which had no padding. This way a source of any
        length can be encoded part by part. Raises ValueError if the encoder or the attention needs the complete source
        at once.
        """
        embedded = self.encoder.dropout(self.embedding(ids))
        if before is None:
            states, final = self.encoder(embedded, mask)
            return self.attention.write(states, mask, trace=trace), final
        memory, state = before
        states, final = self.encoder(embedded, mask, state)
        return self.attention.append(memory, states, mask), final

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (B, T, V) and read weights (B, T, R) of given targets, which start with BOS."""
        memory, final = self.encode(source, mask)
        logits, weights = self.decoder(target, self.decoder.init(final, memory), memory)
        return logits, weights

    def aligned_features(self, source: Tensor, mask: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs (B, T, F) of the output layer and the alignment (B, T, S)."""
        memory, final = self.encode(source, mask, trace=True)
        features, weights = self.decoder.features(target, self.decoder.init(final, memory), memory)
        return features, self.attention.align(weights, memory)

    def features(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        """Return the inputs (B, T, F) of the output layer; see ``Decoder.features``."""
        memory, final = self.encode(source, mask)
        return self.decoder.features(target, self.decoder.init(final, memory), memory)[0]
