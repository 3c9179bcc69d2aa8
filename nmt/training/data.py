"""Lightning data module: batches by token budget, sharded by our own sampler instead of Lightning's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from nmt.errors import UserError
from nmt.text.batches import Batch, collate
from nmt.text.corpus import Corpus
from nmt.text.sampled import SampledPieces
from nmt.text.sharing import EpochBatches
from nmt.text.windows import epoch_batches
from nmt.training.groups import BatchSettings
from nmt.training.ranks import rank, world_size


class EpochLoader(DataLoader[Batch]):
    """The batches of an epoch. Its state in a checkpoint says how many were already yielded."""

    def __init__(self, corpus: Corpus, batches: EpochBatches, pieces: SampledPieces | None = None) -> None:
        rows: Any = range(len(corpus))
        # A separate generator: a resumed epoch creates another iterator, whose draws must not change dropout's.
        generator = torch.Generator()
        super().__init__(
            rows, batch_sampler=batches, collate_fn=partial(collate, pieces or corpus), generator=generator
        )
        self.batches = batches

    def state_dict(self) -> dict[str, Any]:
        return self.batches.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.batches.resume(**state)


class CorpusBatches(pl.LightningDataModule):
    """Training batches in a new order each epoch; validation batches always in the same order."""

    def __init__(
        self,
        train: Corpus,
        valid: Corpus,
        *,
        batches: BatchSettings,
        seed: int,
        max_steps: int | None = None,
        pieces: SampledPieces | None = None,
        text: int = 0,
    ) -> None:
        """``text`` is the checksum of the prepared text. A run with another one is not resumed."""
        super().__init__()
        self.train, self.valid = train, valid
        self.pieces = pieces  # of the training batches, instead of the stored ones
        self.batches = batches
        self.seed = seed
        self.max_steps = max_steps
        self.text = text
        self._length: dict[str, int] | None = None  # of the whole run: its epochs, processes and updates
        self._epoch_start = {"epoch": 0, "updates": 0}  # the current epoch, and the updates before it
        self._loader: EpochLoader | None = None
        self._resumed: Mapping[str, Any] | None = None  # state of the loader of the epoch in which a run is resumed

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the epoch.

        It contains the state of the loader, which Lightning restores only after it has asked for the loader's length.
        """
        loader = None if self._loader is None else self._loader.state_dict()
        return {**self._epoch_start, "loader": loader, "length": self._length, "text": self.text}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._epoch_start = {key: state_dict[key] for key in ("epoch", "updates")}
        self._resumed = state_dict.get("loader")
        self._length = state_dict.get("length")
        if state_dict.get("text", self.text) != self.text:  # earlier versions stored none
            raise UserError("data: the text was prepared again since the run started; start a new run")

    def train_dataloader(self) -> EpochLoader:
        """Return the batches of the current epoch; the trainer calls this for every epoch.

        The epoch in which ``max_steps`` is reached ends there, so that it is validated and saved like any other.
        """
        loader, trainer = self._train_loader(), self.trainer
        if trainer is None:
            return loader
        epoch = trainer.current_epoch
        loader.batches.set_epoch(epoch)
        self._loader = loader
        if self.pieces is not None:
            self.pieces.set_epoch(epoch)
        if self._epoch_start["epoch"] != epoch:
            self._epoch_start = {"epoch": epoch, "updates": trainer.global_step}
        elif self._resumed is not None:
            loader.load_state_dict(self._resumed)
        if self.max_steps is not None:
            loader.batches.limit((self.max_steps - self._epoch_start["updates"]) * self.batches.accumulate)
        return loader

    def batches_per_epoch(self) -> int:
        """Return the number of batches of a complete epoch."""
        return len(self._train_loader())

    def updates_until(self, epochs: int) -> int:
        """Return the number of updates of a run with this number of epochs.

        It is computed again if a run is resumed with other epochs, or with another number of processes, because that
        changes the number of batches in the rest of the run.
        """
        length = {"epochs": epochs, "world_size": world_size()}
        if self._length is None or any(self._length[key] != number for key, number in length.items()):
            loader = self._train_loader()
            epoch, updates = self._epoch_start["epoch"], self._epoch_start["updates"]
            updates += (epochs - epoch - 1) * self._updates(loader)
            loader.batches.set_epoch(epoch)
            if self._resumed is not None:
                loader.load_state_dict(self._resumed)
            self._length = {**length, "updates": updates + self._updates(loader)}
        return self._length["updates"]

    def _updates(self, loader: EpochLoader) -> int:
        """Return the number of updates in the epoch of the loader."""
        return math.ceil(len(loader) / self.batches.accumulate)

    def _train_loader(self) -> EpochLoader:
        return self._share(self.train, shuffle=True, rank=rank(), world_size=world_size())

    def val_dataloader(self) -> EpochLoader:
        return self._share(self.valid, shuffle=False, rank=rank(), world_size=world_size())

    def all_valid(self) -> EpochLoader:
        """Return the validation batches of all ranks."""
        return self._share(self.valid, shuffle=False, rank=0, world_size=1)

    def _share(self, corpus: Corpus, *, shuffle: bool, rank: int, world_size: int) -> EpochLoader:
        sampler = epoch_batches(
            corpus,
            max_tokens=self.batches.max_tokens,
            max_sentences=self.batches.max_sentences,
            shuffle=shuffle,
            seed=self.seed,
            rank=rank,
            world_size=world_size,
        )
        return EpochLoader(corpus, sampler, self.pieces if shuffle else None)
