"""The job that translates the lines of a shard, with one model per worker."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.inference.formats import alignment_lines, output_lines
from nmt.inference.onnx.model import OnnxModel
from nmt.inference.shards.shard import Done, Shard
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions


@dataclass(frozen=True, kw_only=True)
class TranslateShard:
    """Function from a shard to its output lines. The model is loaded at the first call, in the process that calls.

    ``settings`` are those of ``Translator.load``. A line that the model or the machine cannot hold gives an empty line
    and a warning.
    """

    model: Path
    settings: dict[str, Any]
    search: SearchOptions
    scores: bool
    alignments: bool
    identity: str
    """The value of ``identify`` for the model when the command started."""

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
            translator = Translator.load(self.model, **self.settings)
        translator.check_text = False  # the command has read a part of every shard
        if identify(translator, self.model, self.settings["adapter"]) != self.identity:
            raise UserError(f"{self.model}: the model was replaced while it translated; repeat the command")
        return translator

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_translator"}


def identify(translator: Translator, folder: Path, adapter: Path | None) -> str:
    """Return a string that changes whenever the model in ``folder`` changes, or the adapter."""
    if isinstance(translator.runtime, OnnxModel):
        return hashlib.sha256(json.dumps(translator.runtime.checksums, sort_keys=True).encode()).hexdigest()
    from nmt.inference.adapter_file import model_identity  # imports torch

    return " ".join(model_identity(place) for place in (folder, adapter) if place is not None)
