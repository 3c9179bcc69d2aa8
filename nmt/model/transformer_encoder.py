"""The Transformer encoder."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from nmt.attention.base import clear_padding
from nmt.kernels.dropout import Dropout
from nmt.model.encoder import Final
from nmt.model.transformer_layers import EncoderLayer, Kind, PositionedEmbeddings, new_layers
from nmt.self_attention import SoftmaxSelfAttention
from nmt.settings.arguments import check_arguments
from nmt.settings.bounds import Layers, Share, Size


class TransformerEncoder(nn.Module):
    """Layers of self-attention over the source (Vaswani et al. 2017), with states (B, S, E), E = hidden_size.

    ``self_attention`` builds the self-attention of a layer: a class of ``nmt.self_attention``, or a function. The final
    state is the mean of the states.
    """

    final_states: ClassVar[int] = 1
    exportable: ClassVar[bool] = True
    """Whether ``nmt.inference.onnx`` can export this class. A subclass has to declare it again."""

    @check_arguments
    def __init__(
        self,
        *,
        embedding_size: Size,
        hidden_size: Size = 256,
        layers: Layers = 3,
        heads: Size = 4,
        feedforward_size: Size = 1024,
        dropout: Share = 0.1,
        self_attention: Kind = SoftmaxSelfAttention,
    ) -> None:
        super().__init__()
        require_heads("encoder", hidden_size, heads)
        self.state_size = hidden_size
        self.dropout = Dropout(dropout)
        self.inputs = PositionedEmbeddings(embedding_size=embedding_size, size=hidden_size)
        new_layer = partial(
            EncoderLayer,
            size=hidden_size,
            heads=heads,
            inner_size=feedforward_size,
            dropout=dropout,
            kind=self_attention,
        )
        self.blocks = new_layers("encoder", layers, new_layer)
        limit: int | None = self.blocks[0].self_attention.max_source_length  # type: ignore[union-attr, assignment]
        self.max_source_length = limit
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
        """Return the states (B, S, E) and their mean, for embedded (B, S, X) and mask (B, S), True where real."""
        states = self.inputs(embedded, torch.arange(mask.shape[1], device=mask.device))
        for block in self.blocks:
            states = block(states, mask)
        states = clear_padding(self.norm(states), mask)
        count = mask.sum(1).clamp(min=1)[:, None].to(states.dtype)
        return states, Final((states.sum(1) / count)[:, None], None)


def require_heads(group: str, size: int, heads: int) -> None:
    """Raise ValueError unless the states of the part ``group`` can be divided into heads."""
    if size % heads:
        raise ValueError(f"{group}.heads={heads}: must divide {group}.hidden_size={size}; change one of them")
