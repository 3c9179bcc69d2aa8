"""The LSTM encoder, in one direction or in both."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from nmt.bounds import AtLeast, Within
from nmt.kernels.dropout import Dropout


class Final(NamedTuple):
    """Where the encoder stands after the last real piece of each sentence."""

    hidden: Tensor  # (B, L, E)
    cell: Tensor | None  # (B, L, E); None where nothing can continue


def reversal(lengths: Tensor, size: int) -> Tensor:
    """Index (B, S) that reverses the first ``lengths`` positions of each row and leaves the padding in place."""
    position = torch.arange(size, device=lengths.device).expand(lengths.shape[0], size)
    mirrored = lengths[:, None] - 1 - position
    return torch.where(mirrored >= 0, mirrored, position)


def take(states: Tensor, index: Tensor) -> Tensor:
    """``states`` (B, S, D) at positions ``index`` (B, Q): (B, Q, D)."""
    return states.gather(1, index[..., None].expand(-1, -1, states.shape[2]))


class LSTMEncoder(nn.Module):
    """States (B, S, E) of a source, E = hidden_size, shared evenly by the two directions of a BiLSTM.

    The backward direction is an ordinary LSTM over the source reversed *within its own length*. Padding so stays
    behind the real pieces for both directions and can never reach them: no packed sequences, whose steps of shrinking
    size take about twice the time of a padded call here.
    """

    exportable: ClassVar[bool] = True

    def __init__(
        self,
        *,
        embedding_size: int,
        hidden_size: Annotated[int, AtLeast(1)] = 512,
        layers: Annotated[int, AtLeast(1)] = 1,
        bidirectional: bool = True,
        dropout: Annotated[float, Within(0, 1)] = 0.2,
    ) -> None:
        super().__init__()
        if bidirectional and hidden_size % 2:
            raise ValueError(f"hidden_size={hidden_size}: must be even, each direction takes one half")
        self.state_size = hidden_size
        self.layers = layers
        self.bidirectional = bidirectional
        self.dropout = Dropout(dropout)
        width = hidden_size // 2 if bidirectional else hidden_size
        sizes = [embedding_size] + [hidden_size] * (layers - 1)
        self.forwards = nn.ModuleList(nn.LSTM(size, width, batch_first=True) for size in sizes)
        self.backwards = nn.ModuleList(
            nn.LSTM(size, width, batch_first=True) for size in (sizes if bidirectional else [])
        )

    def forward(
        self, embedded: Tensor, mask: Tensor, state: Final | None = None, *, resumable: bool = False
    ) -> tuple[Tensor, Final]:
        """States (B, S, E) and where they end.

        embedded (B, S, X); mask (B, S), True = real, real pieces first. ``state`` continues an earlier piece of the
        same source; ``resumable`` makes an end that can be continued, at twice the time and not for graphs. Raises
        ValueError where a bidirectional encoder is asked to continue.
        """
        if not self.bidirectional:
            if resumable or state is not None:
                return self._resumable(embedded, mask, state)
            return self._one_direction(embedded, mask)
        if state is not None:
            raise ValueError("encoder.bidirectional=true: a source that arrives in pieces has no end to read back from")
        return self._two_directions(embedded, mask)

    def _two_directions(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
        lengths = mask.sum(1)
        mirror = reversal(lengths, mask.shape[1])
        last = (lengths - 1).clamp(min=0)[:, None]
        ends = []
        for layer, (ahead, back) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            if layer:
                states = self.dropout(states)
            right = ahead(states)[0]
            mirrored = back(take(states, mirror))[0]
            ends.append(torch.cat([take(right, last), take(mirrored, last)], dim=2))
            states = torch.cat([right, take(mirrored, mirror)], dim=2)
        return states, Final(torch.cat(ends, dim=1), None)

    def _one_direction(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Final]:
        last = (mask.sum(1) - 1).clamp(min=0)[:, None]
        ends = []
        for layer, lstm in enumerate(self.forwards):
            states = lstm(self.dropout(states) if layer else states)[0]
            ends.append(take(states, last))
        return states, Final(torch.cat(ends, dim=1), None)

    def _resumable(self, states: Tensor, mask: Tensor, state: Final | None) -> tuple[Tensor, Final]:
        """Packed, since a padded call does not say what the cell was after the last real piece."""
        lengths, size = mask.sum(1).cpu(), mask.shape[1]
        hidden, cell = [], []
        for layer, lstm in enumerate(self.forwards):
            if layer:
                states = self.dropout(states)
            start = None
            if state is not None:
                assert state.cell is not None
                start = (state.hidden[:, layer][None].contiguous(), state.cell[:, layer][None].contiguous())
            packed = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
            packed, (h, c) = lstm(packed, start)
            states = pad_packed_sequence(packed, batch_first=True, total_length=size)[0]
            hidden.append(h[0])
            cell.append(c[0])
        return states, Final(torch.stack(hidden, dim=1), torch.stack(cell, dim=1))
