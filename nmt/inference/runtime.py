"""What translating needs of a model, whatever runs it. Nothing here imports torch."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from nmt.search.engine import Engine
from nmt.text.tokenizer import Tokenizer


class AttentionFacts(NamedTuple):
    """What people are told of a model's attention."""

    kind: str
    """Its class: MemoryAttention, …"""
    looks: bool
    """False: it reads nothing of the source, and aligns nothing."""
    signed: bool
    longest: int | None
    """Source pieces that it can hold, ``</s>`` counted; None: any number."""

    @property
    def name(self) -> str:
        """As people call it: Memory, Bahdanau, …"""
        return self.kind.removesuffix("Attention")


class Runtime(Protocol):
    """A trained model, ready to be searched."""

    @property
    def source(self) -> Tokenizer: ...

    @property
    def target(self) -> Tokenizer: ...

    @property
    def lowercase(self) -> bool:
        """Whether it was trained on lower-cased text."""
        ...

    @property
    def attention(self) -> AttentionFacts: ...

    def engine(self, *, trace: bool) -> Engine[Any, Any]:
        """The model as search sees it; ``trace``: alignments will be asked for."""
        ...
