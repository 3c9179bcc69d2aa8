"""Lightning data module: batches by token budget, sharded by our own sampler instead of Lightning's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from nmt.text.batches import Batch, collate
from nmt.text.corpus import Corpus
from nmt.text.sampled import SampledPieces
from nmt.text.windows import EpochBatches, epoch_batches


class EpochLoader(DataLoader[Batch]):
    """The batches of an epoch. Its state in a checkpoint is the number of batches already yielded."""

    def __init__(self, corpus: Corpus, batches: EpochBatches, pieces: SampledPieces | None = None) -> None:
        rows: Any = range(len(corpus))
        # A separate generator: a resumed epoch creates another iterator, whose draws must not change dropout's.
        generator = torch.Generator()
        super().__init__(
            rows, batch_sampler=batches, collate_fn=partial(collate, pieces or corpus), generator=generator
        )
        self.batches = batches

    def state_dict(self) -> dict[str, int]:
        return {"done": self.batches.done}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.batches.resume(state["done"])


class CorpusBatches(pl.LightningDataModule):
    """Training batches in a new order each epoch; validation batches always in the same order."""

    def __init__(
        self,
        train: Corpus,
        valid: Corpus,
        *,
        batches: Mapping[str, Any],
        seed: int,
        max_steps: int | None = None,
        pieces: SampledPieces | None = None,
    ) -> None:
        super().__init__()
        self.train, self.valid = train, valid
        self.pieces = pieces  # of the training batches, instead of the stored ones
        self.batches = batches
        self.seed = seed
        self.max_steps = max_steps
        self._epoch_start = {"epoch": 0, "updates": 0}  # the current epoch, and the updates before it

    def state_dict(self) -> dict[str, int]:
        return self._epoch_start

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self._epoch_start = state_dict

    def train_dataloader(self) -> EpochLoader:
        """Return the batches of the current epoch; the trainer calls this for every epoch.

        The epoch in which ``max_steps`` is reached ends there, so that it is validated and saved like any other.
        """
        loader, trainer = self._train_loader(), self.trainer
        if trainer is None:
            return loader
        epoch = trainer.current_epoch
        loader.batches.set_epoch(epoch)
        if self.pieces is not None:
            self.pieces.set_epoch(epoch)
        if self._epoch_start["epoch"] != epoch:
            self._epoch_start = {"epoch": epoch, "updates": trainer.global_step}
        if self.max_steps is not None:
            loader.batches.limit((self.max_steps - self._epoch_start["updates"]) * self.batches["accumulate"])
        return loader

    def batches_per_epoch(self) -> int:
        """Return the number of batches of a complete epoch."""
        return len(self._train_loader())

    def _train_loader(self) -> EpochLoader:
        trainer = self.trainer
        rank, world = (trainer.global_rank, trainer.world_size) if trainer else (0, 1)
        return self._loader(self.train, shuffle=True, rank=rank, world_size=world)

    def val_dataloader(self) -> EpochLoader:
        return self._loader(self.valid, shuffle=False)

    def _loader(self, corpus: Corpus, *, shuffle: bool, rank: int = 0, world_size: int = 1) -> EpochLoader:
        sampler = epoch_batches(
            corpus,
            max_tokens=self.batches["max_tokens"],
            max_sentences=self.batches["max_sentences"],
            shuffle=shuffle,
            seed=self.seed,
            rank=rank,
            world_size=world_size,
        )
        return EpochLoader(corpus, sampler, self.pieces if shuffle else None)
