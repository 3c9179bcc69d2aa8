"""The reference engine: the PyTorch model behind the interface that search sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.attention.base import Memory
from nmt.model.decoder import State
from nmt.model.encoder import Final
from nmt.model.seq2seq import Seq2Seq
from nmt.text.specials import PAD


class Source(NamedTuple):
    """A batch of encoded sentences."""

    memory: Memory
    final: Final


class Live(NamedTuple):
    """Sentences still being decoded: one memory row each, N hypotheses each."""

    memory: Memory
    state: State


class TorchEngine:
    """Runs ``model`` for search. ``trace=True`` keeps in the memory what alignments of the fixed-size kinds need."""

    def __init__(self, model: Seq2Seq, *, trace: bool = False) -> None:
        self.model = model
        self.trace = trace

    @torch.inference_mode()
    def encode(self, sources: list[list[int]]) -> Source:
        """Memories of ``sources``, piece ids that end in EOS."""
        size = max(map(len, sources))
        ids = np.full((len(sources), size), PAD, dtype=np.int64)
        for row, source in enumerate(sources):
            ids[row, : len(source)] = source
        lengths = torch.tensor([len(source) for source in sources])
        mask = torch.arange(size) < lengths[:, None]
        device = self.model.embedding.weight.device
        return Source(*self.model.encode(torch.from_numpy(ids).to(device), mask.to(device), trace=self.trace))

    @torch.inference_mode()
    def init(self, source: Source) -> Live:
        """One empty hypothesis for each sentence."""
        return Live(source.memory, self.model.decoder.init(source.final, source.memory))

    @torch.inference_mode()
    def step(
        self,
        live: Live,
        tokens: np.ndarray,
        parents: np.ndarray,
        k: int,
        banned: Sequence[int] | None = None,
    ) -> tuple[Live, np.ndarray, np.ndarray, np.ndarray]:
        """The k best continuations of each hypothesis: log-probabilities, ids (B, N, k), read weights (B, N, R)."""
        device = self.model.embedding.weight.device
        decoder = self.model.decoder
        state = decoder.reorder(live.state, torch.as_tensor(parents, device=device))
        logits, state, weights = decoder.step(torch.as_tensor(tokens, device=device), state, live.memory)
        logits = logits.float()
        total = logits.logsumexp(dim=2, keepdim=True)  # over the whole vocabulary: banning does not change a score
        if banned:
            logits[..., list(banned)] = -torch.inf
        best, ids = logits.topk(min(k, logits.shape[2]), dim=2)
        return Live(live.memory, state), _array(best - total), _array(ids), _array(weights.float())

    @torch.inference_mode()
    def drop(self, live: Live, keep: np.ndarray) -> Live:
        """Only the sentences ``keep`` (row numbers), in that order."""
        rows = torch.as_tensor(keep, device=self.model.embedding.weight.device)
        return Live(_rows(live.memory, rows), State(*(field[rows] for field in live.state)))

    @torch.inference_mode()
    def align(self, source: Source, row: int, weights: np.ndarray) -> np.ndarray:
        """Raw alignment (T, S) of one sentence from its read weights (T, R); S counts the batch's padding."""
        one = _rows(source.memory, torch.tensor([row], device=source.memory.slots.device))
        read = torch.as_tensor(weights, device=one.slots.device, dtype=one.slots.dtype)
        return _array(self.model.attention.align(read[None], one)[0].float())


def _rows(memory: Memory, rows: Tensor) -> Memory:
    kept = {name: field[rows] for name, field in memory._asdict().items() if field is not None}
    return memory._replace(**kept)


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.cpu().numpy()
    return array
