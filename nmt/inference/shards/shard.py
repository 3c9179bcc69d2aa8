"""A shard of the input lines, its result, and the job that turns one into the other, with one model per worker."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from nmt.errors import UserError
from nmt.files.checksum import fingerprint
from nmt.inference.engines import LoadSettings
from nmt.inference.load import load
from nmt.inference.onnx.model import OnnxModel
from nmt.inference.translation import alignment_lines, output_lines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions


class Shard(NamedTuple):
    """Consecutive lines of the input."""

    number: int
    """Position among the shards, from 0."""
    first: int
    """Number of lines before it."""
    lines: list[str]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.lines)

    @property
    def place(self) -> str:
        """The shard as messages name it, with lines counted from 1."""
        return f"lines {self.first + 1:,} to {self.first + len(self.lines):,}"


class Done(NamedTuple):
    """The result of a shard."""

    lines: int
    """Number of lines of the shard."""
    output: list[str]
    """Output lines; n-best lists have several per input line."""
    links: list[str]
    """Alignment lines, one per translation; none if they were not requested."""
    warnings: list[tuple[int, str]]
    """Row of each line without a translation, counted from the first line of the shard, and the reason."""


@dataclass(frozen=True, kw_only=True)
class TranslateShard:
    """Function from a shard to its output lines. The model is loaded at the first call, in the process that calls.

    A line that the model or the machine cannot hold gives an empty line and a warning.
    """

    model: Path
    settings: LoadSettings
    search: SearchOptions
    scores: bool
    alignments: bool
    fingerprint: str
    """The value of ``translator_fingerprint`` for the model when the command started."""

    def __call__(self, shard: Shard) -> Done:
        failures: list[tuple[int, str]] = []
        translations = self._translator.translate(
            shard.lines,
            self.search,
            alignments=self.alignments,
            on_failure=lambda row, reason: failures.append((row, reason)),
        )
        output = [
            line
            for row, best in enumerate(translations, shard.first)
            for line in output_lines(row, best, n_best=self.search.n_best, scores=self.scores)
        ]
        return Done(len(shard.lines), output, alignment_lines(translations) if self.alignments else [], failures)

    @cached_property
    def _translator(self) -> Translator:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the command that started this worker has shown them
            translator = Translator(load(self.model, self.settings))
        translator.check_text = False  # the command has read a part of every shard
        if translator_fingerprint(translator, self.model, self.settings.adapter) != self.fingerprint:
            raise UserError(f"{self.model}: the model was replaced while it translated; repeat the command")
        return translator

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_translator"}


def translator_fingerprint(translator: Translator, folder: Path, adapter: str | Path | None) -> str:
    """Return a string that changes whenever the model in ``folder`` changes, or the adapter."""
    if isinstance(translator.runtime, OnnxModel):
        return fingerprint(translator.runtime.checksums)
    from nmt.inference.adapter_file import model_fingerprint  # imports torch

    return " ".join(model_fingerprint(Path(place)) for place in (folder, adapter) if place is not None)
