"""What each key of a configuration may be. Blocks with a ``_target_`` are checked against that class's constructor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from nmt.bounds import Above, AtLeast, AtMost, Within
from nmt.search.options import SearchOptions

Count = Annotated[int, AtLeast(1)]
Threads = Annotated[int, AtLeast(1), AtMost(1024)]  # many more end torch without a word
NonNegative = Annotated[float, AtLeast(0)]
Positive = Annotated[float, Above(0)]


@dataclass(frozen=True)
class Target:
    """A class by its dotted name; the other keys are its constructor's."""

    _target_: str


@dataclass(frozen=True)
class Files:
    src: str | None
    tgt: str | None


@dataclass(frozen=True)
class TestFiles:
    src: str | None
    tgt: str | None
    links: str | None
    links_base: Literal[0, 1]


@dataclass(frozen=True)
class Filters:
    lowercase: bool
    max_length: Count | None
    max_ratio: Annotated[float, AtLeast(1)] | None


@dataclass(frozen=True)
class Generated(Filters):
    kind: Literal["generated", "copy"]
    train_pairs: Count
    valid_pairs: Count
    test_pairs: Count
    seed: int


@dataclass(frozen=True)
class Text(Filters):
    kind: Literal["text"]
    train: Files
    valid: Files
    test: TestFiles
    folder: str = ""


@dataclass(frozen=True)
class PreparedData:
    kind: Literal["prepared"]
    folder: str


DATA_KINDS: dict[str, type[Any]] = {
    "generated": Generated,
    "copy": Generated,
    "text": Text,
    "prepared": PreparedData,
}


@dataclass(frozen=True)
class TokenizerSettings:
    kind: Literal["bpe", "unigram"]
    vocab_size: Annotated[int, AtLeast(5)]
    joint: bool
    character_coverage: Annotated[float, AtLeast(0.98), AtMost(1)]  # as SentencePiece asks
    source_model: str | None
    target_model: str | None


@dataclass(frozen=True)
class Embeddings:
    size: Count
    shared: bool


@dataclass(frozen=True)
class Batches:
    max_tokens: Count
    max_sentences: Count | None
    accumulate: Count


@dataclass(frozen=True)
class Training:
    max_epochs: Count
    max_minutes: Annotated[float, Above(0), AtMost(525_600)] | None  # a year: off is null, not inf
    optimizer: Literal["adam", "adamw"]
    lr: Positive
    betas: list[Annotated[float, Within(0, 1)]]
    weight_decay: NonNegative
    schedule: Literal["constant", "inverse_sqrt", "linear", "plateau"]
    warmup_steps: Annotated[int, AtLeast(0)]
    decay: Annotated[float, Within(0, 1)]
    decay_patience: Annotated[int, AtLeast(0)]
    label_smoothing: Annotated[float, Within(0, 1)]
    clip_norm: Positive | None
    monitor: Literal["valid_bleu", "valid_chrf", "valid_loss", "valid_accuracy"]
    patience: Count | None
    keep_best: Count
    decode_sentences: Annotated[int, AtLeast(0)]


@dataclass(frozen=True)
class Train:
    """conf/train.yaml. ``data`` is one of DATA_KINDS, told apart by its ``kind``."""

    data: Any
    tokenizer: TokenizerSettings
    embeddings: Embeddings
    encoder: Target
    attention: Target
    decoder: Target
    batches: Batches
    training: Training
    search: SearchOptions
    name: str
    runs: str
    seed: Annotated[int, AtLeast(0), AtMost(2**32 - 1)]  # what NumPy takes
    threads: Threads | None
    device: str
    precision: Literal["float32", "bf16"]
    resume: bool
    init_from: str | None
    trust: list[str]
