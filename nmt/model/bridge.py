"""Initial decoder state, computed from the encoder's final state."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.model.encoder import Final


class Bridge(nn.Module):
    """Initial decoder state tanh(W h + b), with one affine map per decoder layer (Bahdanau et al. 2015, A.2.2).

    Layer k of the decoder starts from layer k of the encoder, or from the encoder's top layer if it has fewer layers.
    """

    def __init__(self, *, encoder_size: int, encoder_layers: int, decoder_size: int, decoder_layers: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(encoder_size, 2 * decoder_size) for _ in range(decoder_layers))
        self.encoder_layers = [min(layer, encoder_layers - 1) for layer in range(decoder_layers)]

    def forward(self, final: Final) -> tuple[Tensor, Tensor]:
        """Return the initial hidden and cell state, each (B, L, H)."""
        pairs = zip(self.encoder_layers, self.maps, strict=True)
        starts = [torch.tanh(affine(final.hidden[:, layer])) for layer, affine in pairs]
        hidden, cell = torch.stack(starts, dim=1).chunk(2, dim=2)
        return hidden, cell
