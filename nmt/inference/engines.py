"""Engines that can run a trained model: names, files, the settings to load one, the interface of a loaded model.

Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from nmt.data.invisible import Invisible
from nmt.search.options import LengthModel
from nmt.settings.arguments import text_list

if TYPE_CHECKING:
    from nmt.search.engine import ModelEngine
    from nmt.text.tokenizer import Tokenizer

OnnxEngineName = Literal["onnx", "onnx-int8"]
EngineName = Literal["auto", "torch", OnnxEngineName]
"""``auto`` selects the first engine of ``GRAPH_SUFFIX`` that the model's folder has graphs for, otherwise torch."""

GRAPH_SUFFIX: dict[OnnxEngineName, str] = {"onnx": "", "onnx-int8": ".int8"}
"""The suffix of each ONNX engine's graph files. The exact engine comes first: rounding to integers is a choice."""

# An exported model: its files, and names of inputs and outputs of its graphs.
FOLDER = "onnx"  # inside a run's folder
FORMAT = 7
ABOUT = "about.json"
SHORTLIST = "shortlist.npz"
NEXT = ".after"
"""The step graph appends this to the name of a state field when it returns the next state."""
ALL_LOG_PROBS = "all_log_probs"
"""Output of a step graph, if k is -1: the log-probabilities of all pieces by id."""
# Inputs of a step graph with a shortlist: the output layer for the C target pieces of a batch, with F features.
OUTPUT_WEIGHT = "output.weight"  # (C, F), or 8-bit integers (F, C)
OUTPUT_SCALE = "output.weight.scale"  # (C,) of these integers
OUTPUT_BIAS = "output.bias"  # (C,)
SEARCH = "search."
"""Names of a search graph that are not those of its step graph begin with this."""
SPARE = 5
"""Candidates of a hypothesis in a search graph, beside N: one that ends, and four that may be banned."""
WEIGHTS = "weights"
"""The weights of the graphs lie in a file of this name: one for each suffix of ``GRAPH_SUFFIX``."""


@dataclass(frozen=True, kw_only=True)
class LoadSettings:
    """How to load a model. ``Translator.load`` describes each setting."""

    engine: EngineName = "auto"
    device: str = "auto"
    threads: int | None = None
    trust: Sequence[str] = ()
    shortlist: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "trust", tuple(text_list(self.trust, "trust", what="packages")))


@dataclass(frozen=True, kw_only=True)
class AttentionProperties:
    """Properties of a model's attention that need no torch."""

    class_name: str
    """Such as ``MemoryAttention``."""
    reads_source: bool
    """False if the decoder reads nothing from the source; such a model has no alignments."""
    signed: bool
    """True if alignments may be negative."""

    @property
    def name(self) -> str:
        """The class name without ``Attention``: Memory, Bahdanau, …"""
        return self.class_name.removesuffix("Attention")


@dataclass(frozen=True, kw_only=True)
class Properties:
    """Properties of a model besides its weights, which every engine needs. ``about.json`` stores them."""

    attention: AttentionProperties
    lowercase: bool
    """Whether the model was trained on lower-cased text."""
    remove_invisible: Invisible | None = None
    """The invisible characters that were removed from the training text."""
    score_tokenizer: str | None = None
    """``evaluation.tokenizer`` of the run that trained the model."""
    single_sentences: bool = False
    """Whether most sources of the training text are known to be single sentences."""
    length_model: LengthModel | None = None
    """How long the targets of the training text are, from ``Corpus.length_model``."""


def stored_tokenizer(config: Mapping[str, Any]) -> str | None:
    """Return ``evaluation.tokenizer`` of a run's configuration."""
    block = config.get("evaluation")
    tokenizer = block.get("tokenizer") if isinstance(block, Mapping) else None
    return tokenizer if isinstance(tokenizer, str) else None


class LoadedModel(Protocol):
    """A trained model, loaded for one engine."""

    @property
    def source(self) -> Tokenizer: ...

    @property
    def target(self) -> Tokenizer: ...

    @property
    def properties(self) -> Properties: ...

    @property
    def workers(self) -> int:
        """Number of batches that are decoded at once, each with one thread; 1: one batch gets all threads."""
        ...

    @property
    def max_hypotheses(self) -> int:
        """Largest number of live hypotheses in a batch."""
        ...

    def engine(
        self, *, trace: bool, beside_others: bool = False, hypotheses: int | None = None
    ) -> ModelEngine[Any, Any]:
        """Return the search engine of the model; set ``trace`` if alignments are needed.

        With ``beside_others``, several Python threads may use it at once, and each gets one thread of the machine.
        Without, one batch at a time gets all threads, or one thread if that is faster for this number of
        ``hypotheses`` in the batch.
        """
        ...
