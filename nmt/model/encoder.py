"""Recurrent encoders, in one direction or in both."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from nmt.kernels.dropout import Dropout
from nmt.model.units import GRU, LSTM, Unit, torch_state
from nmt.settings.arguments import Layers, Share, Size, check_arguments


class Final(NamedTuple):
    """State of the encoder after the last real piece of each sentence, and what continues a source without padding."""

    hidden: Tensor  # (B, L, E)
    cell: Tensor | None = None  # (B, L, …)  other numbers that continue a source, such as the cells of LSTMs


class RecurrentEncoder(nn.Module):
    """Recurrent layers over the source, with states (B, S, E), E = hidden_size; each of two directions has E / 2.

    The backward direction is a normal layer over the source, reversed *within its own length*. Padding therefore comes
    after the real pieces in both directions and cannot reach them. Packed sequences would do the same, but took about
    twice as long as a padded call, because their steps shrink in size.
    """

    unit: ClassVar[Unit]

    @check_arguments
    def __init__(
        self,
        *,
        embedding_size: Size,
        hidden_size: Size = 512,
        layers: Layers = 1,
        bidirectional: bool = True,
        dropout: Share = 0.2,
    ) -> None:
        super().__init__()
        if bidirectional and hidden_size % 2:
            raise ValueError(
                f"encoder.hidden_size={hidden_size}: must be even with encoder.bidirectional=true; "
                f"use {hidden_size + 1}"
            )
        self.state_size = hidden_size
        self.bidirectional = bidirectional
        self.resumable = not bidirectional  #: a source can be encoded part by part
        self.dropout = Dropout(dropout)
        width = hidden_size // 2 if bidirectional else hidden_size

        def stack(layers: int) -> nn.ModuleList:
            sizes = (hidden_size if layer else embedding_size for layer in range(layers))
            return nn.ModuleList(self.unit.layers(size, width, batch_first=True) for size in sizes)

        self.forwards = stack(layers)
        self.backwards = stack(layers if bidirectional else 0)

    def forward(self, embedded: Tensor, mask: Tensor, state: Final | None = None) -> tuple[Tensor, Final]:
        """Return the states (B, S, E) and the final state, for embedded (B, S, X) and mask (B, S).

        The mask is True where real, and real pieces come first. ``state`` continues from an earlier part of the same
        source, which had no padding. Raises ValueError if a bidirectional encoder is asked to continue.
        """
        if self.bidirectional and state is not None:
            raise ValueError(
                "encoder.bidirectional=true: cannot continue a source, because the backward direction starts at its "
                "end; encode the complete source, or use encoder.bidirectional=false"
            )
        states, lengths = embedded, mask.sum(1)
        mirror = reversal(lengths, mask.shape[1])
        last = (lengths - 1).clamp(min=0)[:, None]
        ends, cells = [], []
        for layer, recurrent in enumerate(self.forwards):
            if layer:
                states = self.dropout(states)
            start = [] if state is None else [part[:, layer][None].contiguous() for part in state if part is not None]
            output, end = recurrent(states, torch_state(start) if start else None)
            outputs = [output]
            if self.bidirectional:
                outputs.append(self.backwards[layer](take(states, mirror))[0])
            elif isinstance(end, tuple):
                cells.append(end[1])
            ends.append(torch.cat([take(output, last) for output in outputs], dim=2))
            states = torch.cat([output, *(take(mirrored, mirror) for mirrored in outputs[1:])], dim=2)
        return states, Final(torch.cat(ends, dim=1), torch.cat(cells).transpose(0, 1) if cells else None)


class LSTMEncoder(RecurrentEncoder):
    """Long short-term memory (Hochreiter & Schmidhuber 1997)."""

    unit = LSTM


class GRUEncoder(RecurrentEncoder):
    """Gated recurrent units (Cho et al. 2014), which need three quarters of the weights of an LSTM."""

    unit = GRU


def reversal(lengths: Tensor, size: int) -> Tensor:
    """Return an index (B, S) that reverses the first ``lengths`` positions of each row and keeps the padding."""
    position = torch.arange(size, device=lengths.device).expand(lengths.shape[0], size)
    mirrored = lengths[:, None] - 1 - position
    return torch.where(mirrored >= 0, mirrored, position)


def take(states: Tensor, index: Tensor) -> Tensor:
    """Return ``states`` (B, S, D) at the positions ``index`` (B, Q), as (B, Q, D)."""
    return states.gather(1, index[..., None].expand(-1, -1, states.shape[2]))
