"""Lightning data module: batches by token budget, sharded by our own sampler instead of Lightning's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from nmt.text.batches import Batch, TokenBatches, collate
from nmt.text.corpus import Corpus


class EpochLoader(DataLoader[Batch]):
    """The batches of an epoch. Its state in a checkpoint is the number of batches already yielded."""

    def __init__(self, corpus: Corpus, batches: TokenBatches) -> None:
        rows: Any = range(len(corpus))
        # A separate generator: a resumed epoch creates another iterator, whose draws must not change dropout's.
        generator = torch.Generator()
        super().__init__(rows, batch_sampler=batches, collate_fn=partial(collate, corpus), generator=generator)
        self.batches = batches

    def state_dict(self) -> dict[str, int]:
        return {"done": self.batches.done}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.batches.resume(state["done"])


class CorpusBatches(pl.LightningDataModule):
    """Training batches in a new order each epoch; validation batches always in the same order."""

    def __init__(self, train: Corpus, valid: Corpus, *, batches: Mapping[str, Any], seed: int) -> None:
        super().__init__()
        self.train, self.valid = train, valid
        self.batches = batches
        self.seed = seed

    def train_dataloader(self) -> EpochLoader:
        """Return the batches of the current epoch; the trainer calls this for every epoch."""
        trainer = self.trainer
        rank, world, epoch = (trainer.global_rank, trainer.world_size, trainer.current_epoch) if trainer else (0, 1, 0)
        loader = self._loader(self.train, shuffle=True, rank=rank, world_size=world)
        loader.batches.set_epoch(epoch)
        return loader

    def val_dataloader(self) -> EpochLoader:
        return self._loader(self.valid, shuffle=False)

    def _loader(self, corpus: Corpus, *, shuffle: bool, rank: int = 0, world_size: int = 1) -> EpochLoader:
        sampler = TokenBatches(
            corpus.source_lengths,
            corpus.target_lengths,
            max_tokens=self.batches["max_tokens"],
            max_sentences=self.batches["max_sentences"],
            shuffle=shuffle,
            seed=self.seed,
            rank=rank,
            world_size=world_size,
        )
        return EpochLoader(corpus, sampler)
