"""The Python door: ``Translator.load("runs/demo").translate(["…"])``."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from nmt.errors import UserError
from nmt.inference.runtime import Runtime
from nmt.search.hypothesis import Hypothesis
from nmt.search.options import SearchOptions
from nmt.search.search import search_all
from nmt.text.specials import EOS

if TYPE_CHECKING:
    from nmt.inference.model_folder import TrainedModel


Engine = Literal["auto", "torch", "onnx", "onnx-int8"]


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

    def __init__(self, runtime: Runtime, *, max_tokens: int = 4096) -> None:
        self.runtime = runtime
        self.max_tokens = max_tokens
        self.lowercase = runtime.lowercase
        self.attention = runtime.attention

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        engine: Engine = "torch",
        device: str = "auto",
        threads: int | None = None,
        trust: Sequence[str] = (),
        shortlist: bool = False,
    ) -> Translator:
        """The translator of a folder that nmt-train wrote; the other engines are those of nmt-export, for CPUs.

        ``threads`` and ``shortlist`` are theirs; torch has its own setting of threads. ``auto`` takes the fastest
        engine that is there. Raises UserError where the folder holds no such model.
        """
        if engine not in get_args(Engine):
            raise UserError(f"engine={engine}: must be {' | '.join(get_args(Engine))}")
        if engine == "auto":
            from nmt.inference.onnx.folder import fastest

            engine = fastest(Path(folder), device)
        if engine != "torch":
            from nmt.inference.onnx.folder import open_onnx

            if device not in ("auto", "cpu"):
                raise UserError(f"device={device}: engine={engine} runs on the CPU; use engine=torch")
            return cls(open_onnx(Path(folder), engine, threads=threads, shortlist=shortlist, trust=trust))
        if shortlist:
            raise UserError("shortlist=true: torch has none; use engine=onnx or engine=onnx-int8")
        from nmt.inference.model_folder import choose_device, load_folder

        trained = load_folder(Path(folder), trust=trust)
        trained.model.to(choose_device(device))
        return cls(trained)

    @property
    def trained(self) -> TrainedModel:
        """The torch model, for what only it can do: force translations, keep memories."""
        from nmt.inference.model_folder import TrainedModel

        assert isinstance(self.runtime, TrainedModel), "load this model with torch"
        return self.runtime

    def encode(self, line: str) -> list[int]:
        """Source piece ids with ``</s>``."""
        return [*self.runtime.source.encode(self.case(line)), EOS]

    def refuse_longer(self, length: int) -> None:
        """Raises SourceTooLong where the model's attention cannot hold a source of ``length`` pieces."""
        longest = self.attention.longest
        if longest is not None and length > longest:
            raise SourceTooLong(
                f"a source of {length:,} pieces with </s>: {self.attention.name} attention of this model reads at most "
                f"{longest:,}; split the line, or train on longer ones"
            )

    def case(self, line: str) -> str:
        """The line as the model's training data was cased."""
        return line.lower() if self.lowercase else line

    def texts(self, lines: Iterable[str], options: SearchOptions | None = None) -> list[str]:
        """The best translation of each line; a blank line yields an empty one."""
        return [one.text for one in self.translate(lines, options, alignments=False)]

    def translate(
        self, lines: Iterable[str], options: SearchOptions | None = None, *, alignments: bool = True
    ) -> list[Translation]:
        """The best translation of each line, in order, with scores, tokens, n-best and, on request, alignments.

        Raises SourceTooLong where the attention cannot hold a line; the kinds that have a limit say so. Raises
        TypeError for one string, whose letters would be lines, and for a line that is no string.
        """
        if isinstance(lines, str):
            raise TypeError(f"{lines[:40]!r}: one string; give a list of lines")
        lines = list(lines)
        for row, line in enumerate(lines):
            if not isinstance(line, str):
                raise TypeError(f"lines[{row}]={reprlib.repr(line)}: {type(line).__name__}, no string")
        options = self.searchable(options, alignments=alignments)
        filled = [row for row, line in enumerate(lines) if line.strip()]
        sources = [self.encode(lines[row]) for row in filled]
        self.refuse_longer(max(map(len, sources), default=0))
        translations = [Translation("")] * len(lines)
        engine = self.runtime.engine(trace=options.keep_weights or options.coverage_penalty > 0)
        found = search_all(engine, sources, options, max_tokens=self.max_tokens)
        for row, source, hypotheses in zip(filled, sources, found, strict=True):
            translations[row] = self.translation(source, hypotheses)
        return translations

    def searchable(self, options: SearchOptions | None, *, alignments: bool) -> SearchOptions:
        """The options as search takes them. Raises UserError where this model cannot do what they ask."""
        if not isinstance(options, SearchOptions | None):
            raise TypeError(
                f"options={reprlib.repr(options)}: {type(options).__name__}; give SearchOptions(beam_size=5, …)"
            )
        options = replace(options or SearchOptions(), keep_weights=alignments)
        if options.coverage_penalty and not self.attention.looks:
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
            text=self.runtime.target.decode(hypothesis.tokens),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            source_tokens=self.runtime.source.pieces(source),
            tokens=self.runtime.target.pieces(ended),
            source_words=self.runtime.source.words(source[:-1]),
            target_words=self.runtime.target.words(hypothesis.tokens),
            alignment=None if hypothesis.alignment is None else hypothesis.alignment.T,
        )
