"""The settings of a training run, conf/train.yaml. Blocks are checked against the signature of their ``_target_``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from nmt.data.sources import DataSettings, PreparedData
from nmt.inference.scores import EvaluationSettings
from nmt.search.options import SearchOptions
from nmt.settings.bounds import AtLeast, AtMost, NonNegative, Positive, Share, Threads
from nmt.settings.build import Block, ModelSettings, Plugin
from nmt.text.piece_training import TokenizerSettings
from nmt.training.groups import AdaptSettings, BatchSettings, ScheduleSettings, TrainingSettings

DATA = Plugin("nmt.data.sources.DATA_SOURCE", shared=DataSettings)
ENCODER = Plugin("nmt.model.build.ENCODER")
ATTENTION = Plugin("nmt.model.build.ATTENTION")
DECODER = Plugin("nmt.model.build.DECODER")
OPTIMIZER = Plugin(
    "nmt.training.optimizers.OPTIMIZER",
    bounds={"lr": Positive, "betas": tuple[Share, Share], "weight_decay": NonNegative},
)
SCHEDULE = Plugin("nmt.training.optimizers.SCHEDULE", shared=ScheduleSettings)
LOGGER = Plugin("nmt.training.tracker.LOGGER")
GUIDE = Plugin("nmt.training.guide.GUIDE")


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """The text of a run, and the tokenizers that it trains."""

    data: Annotated[DataSettings | PreparedData, DATA]
    tokenizer: TokenizerSettings


@dataclass(frozen=True, kw_only=True)
class Train(ModelSettings, TextSettings):
    """conf/train.yaml."""

    encoder: Annotated[Block, ENCODER]
    attention: Annotated[Block, ATTENTION]
    decoder: Annotated[Block, DECODER]
    batches: BatchSettings
    optimizer: Annotated[Block, OPTIMIZER]
    schedule: Annotated[ScheduleSettings, SCHEDULE]
    training: TrainingSettings
    guide: Annotated[Block, GUIDE] | None = None
    adapt: AdaptSettings | None = None
    search: SearchOptions
    evaluation: EvaluationSettings
    logger: Annotated[Block, LOGGER] | None = None
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
