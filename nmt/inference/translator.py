"""The Python door: ``Translator.load("runs/demo").translate(["…"])``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from nmt.errors import UserError
from nmt.inference.folder import TrainedModel, load_folder
from nmt.inference.torch_engine import TorchEngine
from nmt.search.hypothesis import Hypothesis
from nmt.search.options import SearchOptions
from nmt.search.search import search_all
from nmt.text.specials import EOS


class SourceTooLong(UserError):
    """A source of more pieces than the model's attention was built for; the other lines can be translated."""


@dataclass(frozen=True)
class Translation:
    """One translation of one line.

    ``log_prob`` sums the natural log-probabilities of the tokens, ``</s>`` included; ``score`` divides it by the length
    penalty that search used. ``alignment`` (S, T) is the raw weights that attention used, one row a source token, one
    column a target token, both with ``</s>``; None where it was not asked for. ``source_words`` and ``target_words``
    give the whitespace word (0-based) of each token but ``</s>``. ``n_best`` holds this translation and the next ones.
    """

    text: str
    score: float = 0.0
    log_prob: float = 0.0
    source_tokens: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    source_words: list[int] = field(default_factory=list)
    target_words: list[int] = field(default_factory=list)
    alignment: np.ndarray | None = None
    n_best: list[Translation] = field(default_factory=list)


class Translator:
    """Translates lines of text with one trained model."""

    def __init__(self, trained: TrainedModel, *, max_tokens: int = 4096) -> None:
        self.trained = trained
        self.max_tokens = max_tokens
        self.lowercase = bool(trained.config["data"]["lowercase"])

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto", trust: Sequence[str] = ()) -> Translator:
        """The translator of a folder that nmt-train wrote. Raises UserError where it holds no model."""
        trained = load_folder(Path(folder), trust=trust)
        trained.model.to(choose_device(device))
        return cls(trained)

    def encode(self, line: str) -> list[int]:
        """Source piece ids with ``</s>``."""
        return [*self.trained.source.encode(self.case(line)), EOS]

    def refuse_longer(self, length: int) -> None:
        """Raises SourceTooLong where the model's attention cannot hold a source of ``length`` pieces."""
        longest = self.trained.model.attention.longest
        if longest is not None and length > longest:
            raise SourceTooLong(
                f"a source of {length:,} pieces with </s>: {self.attention} attention of this model reads at most "
                f"{longest:,}; split the line, or train on longer ones"
            )

    @property
    def attention(self) -> str:
        """The name of the model's attention, as people call it: Memory, Bahdanau, …"""
        return type(self.trained.model.attention).__name__.removesuffix("Attention")

    def case(self, line: str) -> str:
        """The line as the model's training data was cased."""
        return line.lower() if self.lowercase else line

    def texts(self, lines: Sequence[str], options: SearchOptions | None = None) -> list[str]:
        """The best translation of each line; a blank line yields an empty one."""
        return [one.text for one in self.translate(lines, options, alignments=False)]

    def translate(
        self, lines: Sequence[str], options: SearchOptions | None = None, *, alignments: bool = True
    ) -> list[Translation]:
        """The best translation of each line, in order, with scores, tokens, n-best and, on request, alignments.

        Raises SourceTooLong where the attention cannot hold a line; the kinds that have a limit say so.
        """
        options = self.searchable(options, alignments=alignments)
        filled = [row for row, line in enumerate(lines) if line.strip()]
        sources = [self.encode(lines[row]) for row in filled]
        self.refuse_longer(max(map(len, sources), default=0))
        translations = [Translation("")] * len(lines)
        was_training = self.trained.model.training
        self.trained.model.eval()
        engine = TorchEngine(self.trained.model, trace=options.keep_weights or options.coverage_penalty > 0)
        found = search_all(engine, sources, options, max_tokens=self.max_tokens)
        for row, source, hypotheses in zip(filled, sources, found, strict=True):
            translations[row] = self.translation(source, hypotheses)
        self.trained.model.train(was_training)
        return translations

    def searchable(self, options: SearchOptions | None, *, alignments: bool) -> SearchOptions:
        """The options as search takes them. Raises UserError where this model cannot do what they ask."""
        options = replace(options or SearchOptions(), keep_weights=alignments)
        if options.coverage_penalty and not self.trained.model.attention.context_size:
            raise UserError(
                f"search.coverage_penalty={options.coverage_penalty:g}: this model has no attention and covers "
                "nothing; leave it away, or use a model trained with attention"
            )
        return options

    def translation(self, source: list[int] | None, hypotheses: Sequence[Hypothesis]) -> Translation:
        """What search found for the ids ``source`` as text; without them, nothing can be said of source tokens."""
        several = [self._translation(source or [], hypothesis) for hypothesis in hypotheses]
        return replace(several[0], n_best=several)

    def _translation(self, source: list[int], hypothesis: Hypothesis) -> Translation:
        ended = [*hypothesis.tokens, EOS] if hypothesis.finished else list(hypothesis.tokens)
        return Translation(
            text=self.trained.target.decode(hypothesis.tokens),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            source_tokens=self.trained.source.pieces(source),
            tokens=self.trained.target.pieces(ended),
            source_words=self.trained.source.words(source[:-1]),
            target_words=self.trained.target.words(hypothesis.tokens),
            alignment=None if hypothesis.alignment is None else hypothesis.alignment.T,
        )


def choose_device(name: str) -> torch.device:
    """The device ``name``; ``auto`` takes a GPU where there is one. Raises UserError for one that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UserError(f"device={name}: not available here; use device=cpu, or auto") from None
    return device
