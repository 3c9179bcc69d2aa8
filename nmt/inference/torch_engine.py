"""The reference engine: it implements the search engine interface with the PyTorch model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.attention.base import Memory
from nmt.model.decoder import map_tensors
from nmt.model.encoder import Final
from nmt.model.seq2seq import Seq2Seq
from nmt.search.engine import padded
from nmt.text.specials import PAD


class Source(NamedTuple):
    """A batch of encoded sentences."""

    memory: Memory
    final: Final


class Live(NamedTuple):
    """The sentences that are still being decoded: one memory row and N hypotheses per sentence."""

    memory: Memory
    state: Any  # of the decoder: tensors (B, N, …) in a (nested) named tuple


class TorchEngine:
    """Search engine (``nmt.search.engine.Engine``) of ``model``.

    ``trace=True`` stores a trace in each memory; attentions with a fixed number of slots need it for alignments.
    """

    def __init__(self, model: Seq2Seq, *, trace: bool = False) -> None:
        self.model = model
        self.trace = trace

    @torch.inference_mode()
    def encode(self, sources: list[list[int]]) -> Source:
        """Encode ``sources``, lists of piece ids that end in EOS."""
        ids = torch.from_numpy(padded(sources)).to(self.model.embedding.weight.device)
        return Source(*self.model.encode(ids, ids != PAD, trace=self.trace))

    @torch.inference_mode()
    def init(self, source: Source) -> Live:
        """Return the state with one empty hypothesis per sentence, without the trace, which only ``align`` needs."""
        memory = source.memory._replace(trace=None)
        return Live(memory, self.model.decoder.init(source.final, memory))

    @torch.inference_mode()
    def step(
        self,
        live: Live,
        tokens: np.ndarray,
        parents: np.ndarray,
        k: int,
        banned: Sequence[int] | None = None,
    ) -> tuple[Live, np.ndarray, np.ndarray, np.ndarray]:
        """Return the next state and the k best continuations of each hypothesis.

        These are log-probabilities and ids (B, N, k) and the read weights (B, N, R).
        """
        after, logits, weights = self._next(live, tokens, parents)
        # Before the ban: scores are normalised over the whole vocabulary.
        log_normaliser = logits.logsumexp(dim=2, keepdim=True)
        if banned:
            logits[..., list(banned)] = -torch.inf
        if k < logits.shape[2]:
            best, ids = logits.topk(k, dim=2)
            return after, _array(best - log_normaliser), _array(ids), weights
        log_probs = _array(logits - log_normaliser)
        order = (-log_probs).argsort(axis=2)  # a fifth of the time of torch's
        return after, np.take_along_axis(log_probs, order, axis=2), order, weights

    @torch.inference_mode()
    def all_log_probs(self, live: Live, tokens: np.ndarray, parents: np.ndarray) -> tuple[Live, np.ndarray, np.ndarray]:
        """Return the next state, the log-probabilities of all pieces (B, N, V), and the read weights (B, N, R)."""
        after, logits, weights = self._next(live, tokens, parents)
        return after, _array(logits.log_softmax(dim=2)), weights

    def _next(self, live: Live, tokens: np.ndarray, parents: np.ndarray) -> tuple[Live, Tensor, np.ndarray]:
        """Return the next state, the logits of all pieces and the read weights."""
        device = self.model.embedding.weight.device
        decoder = self.model.decoder
        state = decoder.reorder(live.state, torch.as_tensor(parents, device=device))
        logits, state, weights = decoder.step(torch.as_tensor(tokens, device=device), state, live.memory)
        return Live(live.memory, state), logits.float(), _array(weights.float())

    @torch.inference_mode()
    def drop(self, live: Live, keep: np.ndarray) -> Live:
        """Return the state of the sentences ``keep`` (row numbers) only, in that order."""
        rows = torch.as_tensor(keep, device=self.model.embedding.weight.device)
        live_rows: Live = map_tensors(lambda field: field[rows], live)
        return live_rows

    @torch.inference_mode()
    def align(self, source: Source, row: int, weights: np.ndarray) -> np.ndarray:
        """Return the raw alignment (T, S) of one sentence, given its read weights (T, R). S includes padding."""
        memory: Memory = map_tensors(lambda field: field[row : row + 1], source.memory)
        read_weights = torch.as_tensor(weights, device=memory.slots.device, dtype=memory.slots.dtype)
        return _array(self.model.attention.align(read_weights[None], memory)[0].float())


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.cpu().numpy()
    return array
