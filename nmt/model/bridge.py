"""From where the encoder ends to where the decoder starts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nmt.model.encoder import Final


class Bridge(nn.Module):
    """Initial decoder state tanh(W h + b), one affine map for all layers (Bahdanau et al. 2015, appendix A.2.2).

    A decoder deeper than the encoder starts its further layers from the encoder's top.
    """

    def __init__(self, *, encoder_size: int, encoder_layers: int, decoder_size: int, decoder_layers: int) -> None:
        super().__init__()
        self.sources = [min(layer, encoder_layers - 1) for layer in range(decoder_layers)]
        self.maps = nn.ModuleList(nn.Linear(encoder_size, 2 * decoder_size) for _ in range(decoder_layers))

    def forward(self, final: Final) -> tuple[Tensor, Tensor]:
        """Hidden and cell state, each (B, L, H)."""
        starts = [torch.tanh(linear(final.hidden[:, k])) for k, linear in zip(self.sources, self.maps, strict=True)]
        hidden, cell = torch.stack(starts, dim=1).chunk(2, dim=2)
        return hidden, cell
