"""The groups of conf/train.yaml that say how a model is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from nmt.settings.bounds import Above, AtLeast, AtMost, Count, Positive, Share, Size
from nmt.settings.build import PluginSettings


@dataclass(frozen=True, kw_only=True)
class ScheduleSettings(PluginSettings):
    """conf/schedule/*.yaml."""

    interval: Literal["update", "epoch"] = "update"


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """conf/batches/default.yaml."""

    max_tokens: Annotated[int, AtLeast(1), AtMost(1_000_000)]
    max_sentences: Count | None
    accumulate: Count
    bpe_dropout: Share | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """conf/training/default.yaml."""

    max_epochs: Count | None
    max_steps: Count | None
    max_minutes: Annotated[float, Above(0), AtMost(525_600)] | None  # a year; off is null, not inf
    label_smoothing: Share
    clip_norm: Positive | None
    monitor: Literal["valid_bleu", "valid_chrf", "valid_loss", "valid_accuracy"]
    patience: Count | None
    keep_best: Count
    keep_every_n_epochs: Count | None
    checkpoint_every: Count | None
    ema_decay: Share | None
    average_checkpoints: Annotated[int, AtLeast(2), AtMost(1000)] | None
    decode_sentences: Annotated[int, AtLeast(0)]

    def conflicts(self) -> Iterator[str]:
        """Yield a message where nothing would be monitored, or nothing would end the training."""
        if self.monitor in ("valid_bleu", "valid_chrf") and not self.decode_sentences:
            yield (
                f"training.decode_sentences=0: training.monitor={self.monitor} needs translations; "
                "set training.decode_sentences=200 or training.monitor=valid_loss"
            )
        if (self.max_epochs, self.max_steps, self.max_minutes, self.patience) == (None, None, None, None):
            yield "training.max_epochs=null: training would never end; set training.max_steps or training.max_epochs"


@dataclass(frozen=True)
class AdaptSettings:
    """conf/adapt/lora.yaml."""

    rank: Size
    alpha: Positive
    to: list[Literal["encoder", "decoder", "attention", "embeddings"]]
