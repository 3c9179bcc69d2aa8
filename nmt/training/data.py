"""The text of a run, and Lightning's data module: batches by token budget, shared among the ranks by our plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from nmt.data.sources import DataSettings, PreparedData, load_pairs, pairs_from_python
from nmt.errors import UserError, print_message
from nmt.inference.model_folder import load_folder
from nmt.text.batches import Batch, BatchPlan, SampledPieces, collate
from nmt.text.prepare import Prepared, open_prepared, prepare, reading_problems
from nmt.training.distributed import rank, world_size
from nmt.training.logs import warn
from nmt.training.settings import Train

NEEDED_PARTS = ("train", "valid")


def prepared_text(folder: Path, config: Train, program_pairs: Mapping[str, Any] | None) -> Prepared:
    """Open prepared text, or prepare it in ``folder``/data, and print what was kept of it."""
    own = not isinstance(config.data, PreparedData)
    if own and not config.resume:
        prepared = _prepare(folder / "data", config, program_pairs)
    else:
        stored = folder / "data" if own else Path(config.data.folder)  # type: ignore[union-attr]
        prepared = open_prepared(stored, needed=NEEDED_PARTS)
    if config.embeddings.shared and prepared.source.to_bytes() != prepared.target.to_bytes():
        raise UserError(
            "embeddings.shared=true: needs one vocabulary for both sides, but the text has two; "
            "set embeddings.shared=false"
        )
    if not config.resume:
        for part, counts in prepared.pair_counts.items():
            for line in counts.lines():
                print_message(f"{part}: {line}")
        setting = None if config.init_from is None or not own else f"init_from={config.init_from}"
        for problem in reading_problems(prepared, setting=setting):
            warn(f"{problem}")
    return prepared


def _prepare(folder: Path, config: Train, program_pairs: Mapping[str, Any] | None) -> Prepared:
    """Prepare the text of a new run, with the tokenizers of ``init_from`` if it starts from a model."""
    assert isinstance(config.data, DataSettings)
    if world_size() > 1:
        raise UserError(
            "data: several processes train on prepared text only; run nmt-prepare, and train with data=prepared "
            "data.folder=FOLDER"
        )
    tokenizers = None
    if config.init_from is not None:
        start = load_folder(Path(config.init_from), trust=config.trust, key="init_from")
        tokenizers = (start.source, start.target)
    if program_pairs is None:
        pairs = load_pairs(config.data, needed=NEEDED_PARTS, trust=config.trust)
    else:
        pairs = pairs_from_python(program_pairs, config.data, needed=NEEDED_PARTS)
    return prepare(pairs, config.data, config.tokenizer, folder, tokenizers=tokenizers)


@dataclass
class Position:
    """The epoch and the updates before it; the pass over the text, and how many batches of the pass and of the epoch
    each rank has read.
    """

    epoch: int = 0
    updates: int = 0
    number: int = 0
    read: int = 0
    read_in_epoch: int = 0


class Loader:
    """An iterable of batches with a length, which also counts the batches that were read before an interruption."""

    def __init__(self, length: int, batches: Callable[[], Iterator[Batch]]) -> None:
        self._length, self._batches = length, batches

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        return self._batches()


class CorpusBatches(pl.LightningDataModule):
    """Training batches in a new order in each pass; validation batches always in the same order.

    An epoch is ``training.validate_every`` updates, or else one pass over the training text. One in which ``max_steps``
    is reached ends there, so that it is validated and saved like any other.
    """

    def __init__(self, prepared: Prepared, config: Train) -> None:
        super().__init__()
        self.train, self.valid = prepared.corpora["train"], prepared.corpora["valid"]
        self.text = prepared.checksum  # a run that was trained on another text is not resumed
        self.training = config.training
        batches = config.batches
        self.accumulate = batches.accumulate
        # Pieces of the training batches, instead of the stored ones.
        dropout = batches.bpe_dropout
        self.pieces = None if dropout is None else SampledPieces(prepared, dropout, max_tokens=batches.max_tokens)
        self._plan = partial(
            BatchPlan,
            max_tokens=batches.max_tokens,
            max_sentences=batches.max_sentences,
            rank=rank(),
            world_size=world_size(),
        )
        self.train_plan = self._plan(
            self.train.source_lengths,
            self.train.target_lengths,
            seed=config.seed,
            growth=1.0 if self.pieces is None else self.pieces.growth,
        )
        self.position = Position()

    def state_dict(self) -> dict[str, Any]:
        return {"text": self.text, "processes": world_size(), **asdict(self.position)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the position. Raises UserError if the text or the number of processes has changed."""
        state = dict(state_dict)
        if state.pop("text") != self.text:
            raise UserError("data: the text was prepared again since the run started; start a new run")
        processes = state.pop("processes")
        self.position = Position(**state)
        if self.position.read and processes != world_size():
            raise UserError(
                f"resume=true: the run was stopped within a pass of {processes} processes over the text, and continues "
                f"only with as many; now there are {world_size()}"
            )

    def end_epoch(self, updates: int) -> None:
        """Move on to the next epoch, after this number of updates."""
        self._end_pass()
        position = self.position
        position.epoch += 1
        position.updates = updates
        position.read_in_epoch = 0

    def _end_pass(self) -> None:
        """Move on to the next pass if all batches of this one were read."""
        position = self.position
        if position.read == self.train_plan.count(position.number):
            position.number += 1
            position.read = 0

    def train_dataloader(self) -> Loader:
        """Return the rest of the epoch's batches; the trainer calls this for every epoch."""
        position = self.position
        if self.training.validate_every is None:
            length = position.read_in_epoch + self.train_plan.count(position.number) - position.read
        else:
            length = self.training.validate_every * self.accumulate
        if self.training.max_steps is not None:
            length = min(length, max(1, (self.training.max_steps - position.updates) * self.accumulate))
        return Loader(length, partial(self._rest, length))

    def _rest(self, length: int) -> Iterator[Batch]:
        """Yield batches, across passes, until an epoch of this length is complete."""
        position = self.position
        while position.read_in_epoch < length:
            self._end_pass()
            batches = self.train_plan.batches(position.number, position.read)
            for rows in islice(batches, length - position.read_in_epoch):
                position.read += 1
                position.read_in_epoch += 1
                yield collate(self.pieces or self.train, rows)

    def total_updates(self) -> int | None:
        """Return the number of updates of the whole run, or None without a limit."""
        limits = [self.training.max_steps] if self.training.max_steps is not None else []
        if self.training.max_epochs is not None:
            epoch = self.training.validate_every or math.ceil(self.train_plan.count(0) / self.accumulate)
            limits.append(self.position.updates + (self.training.max_epochs - self.position.epoch) * epoch)
        return min(limits, default=None)

    def val_dataloader(self) -> Loader:
        plan = self._plan(self.valid.source_lengths, self.valid.target_lengths, shuffle=False)
        return Loader(plan.count(0), lambda: (collate(self.valid, rows) for rows in plan.batches(0)))
