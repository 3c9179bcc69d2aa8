"""The interface between the Translator and a loaded model, for every engine. Nothing here imports torch."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from nmt.search.engine import Engine
from nmt.text.invisible import Invisible
from nmt.text.tokenizer import Tokenizer


class AttentionFacts(NamedTuple):
    """Properties of a model's attention that need no torch. ``about.json`` of an exported model stores them."""

    class_name: str
    """Such as ``MemoryAttention``."""
    reads_source: bool
    """False if the decoder reads nothing from the source; such a model has no alignments."""
    signed: bool
    """True if alignments may be negative."""
    max_source_length: int | None
    """Largest number of source pieces, ``</s>`` included; None: no limit."""

    @property
    def name(self) -> str:
        """The class name without ``Attention``: Memory, Bahdanau, …"""
        return self.class_name.removesuffix("Attention")


class Runtime(Protocol):
    """A trained model, loaded for one engine."""

    @property
    def source(self) -> Tokenizer: ...

    @property
    def target(self) -> Tokenizer: ...

    @property
    def lowercase(self) -> bool:
        """Whether the model was trained on lower-cased text."""
        ...

    @property
    def remove_invisible(self) -> Invisible | None:
        """The invisible characters that were removed from the training text."""
        ...

    @property
    def score_tokenizer(self) -> str | None:
        """``evaluation.tokenizer`` of the run that trained the model."""
        ...

    @property
    def attention(self) -> AttentionFacts: ...

    @property
    def workers(self) -> int:
        """Number of batches that are decoded at once, each with one thread; 1: one batch gets all threads."""
        ...

    def engine(self, *, trace: bool, beside_others: bool = False, hypotheses: int | None = None) -> Engine[Any, Any]:
        """Return the search engine of the model; set ``trace`` if alignments are needed.

        With ``beside_others``, several Python threads may use it at once, and each gets one thread of the machine.
        Without, one batch at a time gets all threads, or one thread if that is faster for this number of
        ``hypotheses`` in the batch.
        """
        ...
