"""A second training loss that pulls a model towards given alignments, or towards another model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

from nmt.model import Seq2Seq
from nmt.settings.arguments import Count, NonNegative
from nmt.settings.plugins import Block, PluginPoint, construct, locate
from nmt.text.batches import Batch
from nmt.text.prepare import Prepared

SMALLEST = 1e-6  # added to shares, so that the loss of an alignment of 0 stays finite


class Guided(NamedTuple):
    """The loss of a guide for a batch, with the features that the loss of the translation needs too."""

    features: Tensor
    """The inputs (B, T, F) of the model's output layer."""
    loss: Tensor
    pieces: int
    """The number of target pieces over which the loss is the mean."""


class Guide(ABC):
    """Target alignments of the training batches, and the weight of the loss that compares a model with them.

    The weight falls linearly from ``weight`` to 0 within ``decay_steps`` updates; None keeps it.
    """

    fingerprint = ""
    """A text that changes with the targets, if they depend on more than the training text."""

    def __init__(self, *, weight: NonNegative = 0.1, decay_steps: Count | None = None) -> None:
        self.weight = weight
        self.decay_steps = decay_steps

    @staticmethod
    def problems(settings: Block) -> Iterator[str]:
        """Yield the problems of the settings, before any text is prepared."""
        yield from ()

    @abstractmethod
    def targets(self, batch: Batch) -> Tensor:
        """Return the share (B, T, S) of each source piece for each target piece; rows of zeros have no target."""

    def start(self, model: Seq2Seq) -> None:  # noqa: B027  (most guides need none)
        """Prepare a new model before its first update. A resumed run does not call this."""

    def loss(self, model: Seq2Seq, batch: Batch) -> Guided:
        """Return the features of the model, and by default the cross-entropy between its alignment and the targets."""
        features, alignment = model.aligned_features(batch.source, batch.source_mask, batch.target_in)
        targets = self.targets(batch)
        return Guided(features, alignment_loss(alignment, targets), int(guided_pieces(targets)))

    def weight_at(self, update: int) -> float:
        """Return the weight of the loss at this update, counted from 0."""
        if self.decay_steps is None:
            return self.weight
        return self.weight * max(0.0, 1 - update / self.decay_steps)


GUIDE = PluginPoint(Guide, ("nmt.training",), supplied=frozenset({"prepared", "trusted"}))


def alignment_loss(alignment: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy −Σ_s targets_ts log a_ts, in nats, over the rows of ``targets`` that are not 0.

    ``alignment`` (B, T, S) may be negative and need not sum to 1: a is |alignment| with rows that sum to 1, from which
    links and the AER are computed too.
    """
    losses = -(targets * (normalise(alignment) + SMALLEST).log()).sum()
    return losses / guided_pieces(targets).clamp(min=1)


def guided_pieces(targets: Tensor) -> Tensor:
    """Return the number of target pieces that have a given alignment: rows of ``targets`` that are not 0."""
    return (targets.sum(2) > 0).sum()


def normalise(alignment: Tensor) -> Tensor:
    """Return |alignment| (B, T, S) with rows that sum to 1; rows of zeros stay zero."""
    weights = alignment.float().abs()
    return weights / weights.sum(2, keepdim=True).clamp(min=SMALLEST**2)  # with a smaller bound, gradients overflow


def build_guide(block: Block | None, prepared: Prepared, *, trust: Sequence[str]) -> Guide | None:
    """Return the guide that the block describes, for the training text, or None.

    Raises UserError if the text has no such targets, or if the settings do not fit the text.
    """
    return None if block is None else construct(block, GUIDE, trust=trust, prepared=prepared, trusted=trust)


def guide_problems(block: Block, *, trust: Sequence[str]) -> Iterator[str]:
    """Yield the problems of the block ``guide`` of a configuration."""
    guide = locate(block["_target_"], GUIDE, trust=trust)
    yield from guide.problems(block)  # type: ignore[attr-defined]
