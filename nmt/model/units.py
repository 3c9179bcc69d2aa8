"""Recurrent units: everything that differs between encoders and decoders with LSTMs and those with GRUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nmt.kernels.recurrence import gru_cell, lstm_cell

Parts = tuple[Tensor, ...]


class Unit(NamedTuple):
    """A recurrent unit. The state of a layer is a tuple of tensors (…, H), the first of which is the layer's output.

    Layers are modules of torch, with its parameters: the input's and the hidden state's weight and bias.
    """

    name: str  # of a decoder's layers in its state_dict
    layers: type[nn.LSTM] | type[nn.GRU]
    run: Callable[..., tuple[Tensor, ...]]  # torch's function for all steps
    joint: bool  # the cell uses only the sum of both products, that of the input and that of the hidden state
    cell: Callable[..., Parts]  # (that sum, or both products; then the state) -> the next state
    bounded: tuple[bool, ...]  # for each tensor of the state: whether its numbers always lie in [−1, 1]

    def step(self, from_input: Tensor, from_hidden: Tensor, state: Parts) -> Parts:
        """Return the next state, given both products with their biases (…, G)."""
        gates = (from_input + from_hidden,) if self.joint else (from_input, from_hidden)
        return self.cell(*gates, *state)


def _lstm(gates: Tensor, _: Tensor, cell: Tensor) -> Parts:
    return lstm_cell(gates, cell)


def _gru(from_input: Tensor, from_hidden: Tensor, hidden: Tensor) -> Parts:
    return (gru_cell(from_input, from_hidden, hidden),)


LSTM = Unit("lstm", nn.LSTM, torch.lstm, joint=True, cell=_lstm, bounded=(True, False))
GRU = Unit("gru", nn.GRU, torch.gru, joint=False, cell=_gru, bounded=(True,))


def torch_state(parts: Sequence[Tensor]) -> Any:
    """Return the state as torch's functions take it: a tuple for the LSTM, a tensor for the GRU."""
    return tuple(parts) if len(parts) > 1 else parts[0]
