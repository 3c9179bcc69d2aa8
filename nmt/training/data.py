"""Lightning data module: batches by token budget, shared among the ranks by our sampler instead of Lightning's."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from nmt.errors import UserError, counted, print_message
from nmt.text.batches import Batch, EpochBatches, Plan, SegmentPlan, collate
from nmt.text.corpus import Corpus
from nmt.text.prepare import Prepared
from nmt.text.sampled import SampledPieces, sampled_pieces
from nmt.text.windows import plan_batches
from nmt.training.distributed import rank, world_size
from nmt.training.settings import Train


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of training: the epoch, the updates before it, and how many of its batches each rank has read.

    ``abandoned`` of these were read by another number of processes, after which the epoch started again.
    """

    epoch: int = 0
    updates: int = 0
    read: int = 0
    abandoned: int = 0
    world_size: int


class CorpusBatches(pl.LightningDataModule):
    """Training batches in a new order each epoch; validation batches always in the same order."""

    def __init__(self, prepared: Prepared, config: Train) -> None:
        """An epoch is ``training.validate_every`` updates, or else one pass over the training text."""
        super().__init__()
        self.train = prepared.corpora["train"]
        self.valid = prepared.corpora["valid"]
        self.text = prepared.checksum  # a run that was trained on another text is not resumed
        self.max_steps = config.training.max_steps
        batches = config.batches
        self.accumulate = batches.accumulate
        # Pieces of the training batches, instead of the stored ones.
        self.pieces = sampled_pieces(prepared, batches.bpe_dropout, seed=config.seed)
        plan = partial(plan_batches, max_tokens=batches.max_tokens, max_sentences=batches.max_sentences)
        self.pass_plan = plan(self.train, seed=config.seed)
        self.train_plan: Plan = self.pass_plan
        if (updates := config.training.validate_every) is not None:
            self.train_plan = SegmentPlan(self.pass_plan, updates * self.accumulate * world_size())
        self.valid_plan = plan(self.valid, shuffle=False)
        self.position = Position(world_size=world_size())

    def state_dict(self) -> dict[str, Any]:
        return {"position": asdict(self._present()), "text": self.text}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the position. Another number of processes has other batches, so it starts the epoch again."""
        if state_dict["text"] != self.text:
            raise UserError("data: the text was prepared again since the run started; start a new run")
        position = Position(**state_dict["position"])
        before = position.world_size
        now = world_size()
        if before != now and position.read:
            processes = f"{counted(before, 'process', 'processes')} and continues with {now}"
            print_message(f"epoch {position.epoch + 1} starts again, because it was interrupted with {processes}")
            position = replace(position, abandoned=position.read)
        self.position = replace(position, world_size=now)

    def _present(self) -> Position:
        """Return the position after the last update."""
        if self.trainer is None:
            return self.position
        return replace(self.position, read=(self.trainer.global_step - self.position.updates) * self.accumulate)

    def end_epoch(self) -> None:
        """Move the position to the next epoch."""
        updates = self.trainer.global_step  # type: ignore[union-attr]
        self.position = Position(epoch=self.position.epoch + 1, updates=updates, world_size=world_size())

    def train_dataloader(self) -> DataLoader[Batch]:
        """Return the rest of the epoch's batches; the trainer calls this for every epoch.

        The epoch in which ``max_steps`` is reached ends there, so that it is validated and saved like any other.
        """
        position = self._present()
        if self.pieces is not None:
            self.pieces.set_epoch(position.epoch)
        batches = EpochBatches(
            self.train_plan,
            position.epoch,
            rank=rank(),
            world_size=world_size(),
            skip=position.read - position.abandoned,
            before=position.abandoned,
            limit=None if self.max_steps is None else (self.max_steps - position.updates) * self.accumulate,
        )
        return _loader(self.train, batches, self.pieces)

    def batches_per_epoch(self) -> int:
        """Return the number of batches of a complete epoch."""
        return len(EpochBatches(self.train_plan, world_size=world_size()))

    def batches_per_pass(self) -> int:
        """Return the number of batches of a pass over the training text."""
        return len(EpochBatches(self.pass_plan, world_size=world_size()))

    def updates_until(self, epochs: int) -> int:
        """Return the number of updates of a run with this number of epochs."""
        per_epoch = math.ceil(self.batches_per_epoch() / self.accumulate)
        abandoned = self.position.abandoned // self.accumulate
        return self.position.updates + abandoned + (epochs - self.position.epoch) * per_epoch

    def val_dataloader(self) -> DataLoader[Batch]:
        return _loader(self.valid, EpochBatches(self.valid_plan, rank=rank(), world_size=world_size()))

    def all_valid(self) -> DataLoader[Batch]:
        """Return the validation batches of all ranks."""
        return _loader(self.valid, EpochBatches(self.valid_plan))


def _loader(corpus: Corpus, batches: EpochBatches, pieces: SampledPieces | None = None) -> DataLoader[Batch]:
    rows: Any = range(len(corpus))
    # A separate generator: a resumed epoch creates another iterator, whose draws must not change dropout's.
    generator = torch.Generator()
    return DataLoader(rows, batch_sampler=batches, collate_fn=partial(collate, pieces or corpus), generator=generator)
