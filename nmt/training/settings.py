"""The settings of a training run, conf/train.yaml. Blocks are checked against the signature of their ``_target_``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from nmt.data.sources import DataSettings, PreparedData
from nmt.inference.scores import EvaluationSettings
from nmt.search.options import SearchOptions
from nmt.settings.arguments import AtLeast, AtMost, Count, NonNegative, Positive, Share, Size, Threads
from nmt.settings.build import ModelSettings
from nmt.settings.plugins import Block, Plugin
from nmt.text.tokenizer import TokenizerSettings


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
    label_smoothing: Share
    clip_norm: Positive | None
    monitor: Literal["valid_bleu", "valid_chrf", "valid_loss", "valid_accuracy"]
    patience: Count | None
    validate_every: Count | None = None
    ema_decay: Share | None
    decode_sentences: Annotated[int, AtLeast(0)]

    def conflicts(self) -> Iterator[str]:
        """Yield a message where nothing would be monitored, or nothing would end the training."""
        if self.monitor in ("valid_bleu", "valid_chrf") and not self.decode_sentences:
            yield (
                f"training.decode_sentences=0: training.monitor={self.monitor} needs translations; "
                "set training.decode_sentences=200 or training.monitor=valid_loss"
            )
        if (self.max_epochs, self.max_steps, self.patience) == (None, None, None):
            yield "training.max_epochs=null: training would never end; set training.max_steps or training.max_epochs"


@dataclass(frozen=True)
class AdaptSettings:
    """conf/adapt/lora.yaml."""

    rank: Size
    alpha: Positive
    to: list[Literal["encoder", "decoder", "attention", "embeddings"]]


DATA = Plugin("nmt.data.sources.DATA_SOURCE", shared=DataSettings)
OPTIMIZER = Plugin(
    "nmt.training.schedules.OPTIMIZER",
    bounds={"lr": Positive, "betas": tuple[Share, Share], "weight_decay": NonNegative},
)


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """The text of a run, and the tokenizers that it trains."""

    data: Annotated[DataSettings | PreparedData, DATA]
    tokenizer: TokenizerSettings


@dataclass(frozen=True, kw_only=True)
class Train(ModelSettings, TextSettings):
    """conf/train.yaml."""

    encoder: Annotated[Block, Plugin("nmt.model.build.ENCODER")]
    attention: Annotated[Block, Plugin("nmt.model.build.ATTENTION")]
    decoder: Annotated[Block, Plugin("nmt.model.build.DECODER")]
    batches: BatchSettings
    optimizer: Annotated[Block, OPTIMIZER]
    schedule: Annotated[Block, Plugin("nmt.training.schedules.SCHEDULE")]
    training: TrainingSettings
    guide: Annotated[Block, Plugin("nmt.training.guide.GUIDE")] | None = None
    adapt: AdaptSettings | None = None
    search: SearchOptions
    evaluation: EvaluationSettings
    logger: Annotated[Block, Plugin("nmt.training.logs.LOGGER")] | None = None
    name: str
    runs: str
    seed: Annotated[int, AtLeast(0), AtMost(2**32 - 1)]  # the range that NumPy accepts
    threads: Threads | None
    device: str
    precision: Literal["float32", "bf16"]
    export: bool
    resume: bool
    init_from: str | None
    trust: list[str]


@dataclass(frozen=True, kw_only=True)
class PreparedTrain(Train):
    """conf/train.yaml with data=prepared."""

    data: PreparedData
