"""The type and bounds of every key of a configuration.

Blocks with a ``_target_`` are checked against the signature of that class or function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from nmt.bounds import Above, AtLeast, AtMost, Count, NonNegative, Share, Size
from nmt.evaluation import EvaluationSettings
from nmt.search.options import SearchOptions
from nmt.text.filters import Duplicates
from nmt.text.invisible import Invisible

Threads = Annotated[int, AtLeast(1), AtMost(1024)]  # torch crashes silently with many more
Pieces = Annotated[int, AtLeast(5), AtMost(1_000_000)]
Positive = Annotated[float, Above(0)]


@dataclass(frozen=True, eq=False)  # compared and hashed by identity: typing hashes it in a union, and bounds is a dict
class Plugin:
    """A block with a ``_target_``, whose other keys are arguments of that class or function."""

    point: str
    """The dotted name of its ``nmt.plugins.PluginPoint``, resolved when the block is checked: that may import torch."""
    shared: type[Any] | None = None
    """A dataclass of the keys that every block of this kind may have besides."""
    bounds: Mapping[str, Any] = field(default_factory=dict)
    """Bounded types of arguments whose own annotations have no bounds, as in torch's classes."""


@dataclass(frozen=True)
class Filters:
    """Keys of every data source."""

    lowercase: bool = False
    remove_invisible: Invisible | None = "bom"
    max_length: Count | None = None
    max_ratio: Annotated[float, AtLeast(1)] | None = None
    drop_identical: bool = False
    duplicates: Duplicates | None = None
    languages: tuple[str, str] | None = None


@dataclass(frozen=True)
class Interval:
    """Keys of every learning-rate schedule."""

    interval: Literal["update", "epoch"] = "update"


@dataclass(frozen=True)
class PreparedData:
    """conf/data/prepared.yaml."""

    _target_: str
    folder: str


DATA = Plugin("nmt.tasks.sources.DATA_SOURCE", shared=Filters)
ENCODER = Plugin("nmt.model.build.ENCODER")
ATTENTION = Plugin("nmt.model.build.ATTENTION")
DECODER = Plugin("nmt.model.build.DECODER")
OPTIMIZER = Plugin(
    "nmt.training.optimizers.OPTIMIZER",
    bounds={"lr": Positive, "betas": tuple[Share, Share], "weight_decay": NonNegative},
)
LOGGER = Plugin("nmt.training.tracker.LOGGER")
GUIDE = Plugin("nmt.training.guide.GUIDE")
SCHEDULE = Plugin("nmt.training.optimizers.SCHEDULE", shared=Interval)


@dataclass(frozen=True)
class TokenizerSettings:
    kind: Literal["bpe", "unigram"]
    vocab_size: Pieces
    joint: bool
    character_coverage: Annotated[float, AtLeast(0.98), AtMost(1)]  # the range that SentencePiece accepts
    source_model: str | None
    target_model: str | None
    normalisation: Literal["nfkc"] | None = None
    source_vocab_size: Pieces | None = None
    target_vocab_size: Pieces | None = None


@dataclass(frozen=True)
class Embeddings:
    size: Size
    shared: bool


@dataclass(frozen=True)
class Batches:
    max_tokens: Annotated[int, AtLeast(1), AtMost(1_000_000)]
    max_sentences: Count | None
    accumulate: Count
    bpe_dropout: Share | None = None


@dataclass(frozen=True)
class Training:
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


@dataclass(frozen=True)
class Adapt:
    """conf/adapt/lora.yaml."""

    rank: Size
    alpha: Positive
    to: list[Literal["encoder", "decoder", "attention", "embeddings"]]


@dataclass(frozen=True)
class Train:
    """conf/train.yaml."""

    data: Annotated[Any, DATA]
    tokenizer: TokenizerSettings
    embeddings: Embeddings
    encoder: Annotated[Any, ENCODER]
    attention: Annotated[Any, ATTENTION]
    decoder: Annotated[Any, DECODER]
    batches: Batches
    optimizer: Annotated[Any, OPTIMIZER]
    schedule: Annotated[Any, SCHEDULE]
    training: Training
    search: SearchOptions
    evaluation: EvaluationSettings
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
    logger: Annotated[Any, LOGGER] | None = None
    guide: Annotated[Any, GUIDE] | None = None
    adapt: Adapt | None = None


@dataclass(frozen=True)
class PreparedTrain(Train):
    """conf/train.yaml with data=prepared."""

    data: PreparedData
