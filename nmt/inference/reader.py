"""Turn lines into piece ids, and warn once if the tokenizer cannot read a text, such as one in another script."""

from __future__ import annotations

import warnings
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from nmt.data.invisible import remove_invisible
from nmt.data.words import Span, mapped
from nmt.errors import UserError
from nmt.inference.engines import LoadedModel, Properties
from nmt.inference.ensemble import Ensemble
from nmt.inference.load import load_torch
from nmt.inference.onnx.model import OnnxModel
from nmt.settings.arguments import brief, text
from nmt.text.coverage import Coverage
from nmt.text.specials import EOS
from nmt.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nmt.inference.model_folder import TrainedModel


class Reader:
    """The tokenizers of a trained model, its limits, and its checks of the text: the base class of ``Translator``."""

    def __init__(self, model: LoadedModel, *, check_text: bool = True) -> None:
        if not hasattr(model, "properties"):
            raise TypeError(f"model={brief(model)}: not a loaded model; use Translator.load(FOLDER)")
        self.loaded_model = model
        properties = model.properties
        self.lowercase = properties.lowercase
        self.score_tokenizer = properties.score_tokenizer
        self.attention = properties.attention
        self.source_check = TextCheck("source", model.source, warns=check_text)
        self.target_check = TextCheck("target", model.target, warns=check_text)
        self.change_text = partial(changed_text, properties)

    def visible(self, line: str) -> str:
        """Return ``line`` without the invisible characters that were removed from the training text."""
        return remove_invisible(line, self.loaded_model.properties.remove_invisible)

    def spans(self, tokenizer: Tokenizer, line: str) -> list[Span]:
        """Return the part of a visible ``line`` that each piece spells, which the model reads, without ``</s>``."""
        changed = self.change_text(line)
        spans = tokenizer.spans(changed)
        if len(changed) == len(line):
            return spans
        origins = [(at, at + 1) for at, letter in enumerate(line) for _ in letter.lower()]  # İ has two
        return [mapped(origins, *span) for span in spans]

    @cached_property
    def trained(self) -> TrainedModel:
        """The torch model, which forced decoding and stored memories need; other engines load it on first use."""
        model = self.loaded_model
        if isinstance(model, Ensemble):
            raise UserError("an ensemble cannot score given translations or store memories; name a single model")
        return load_torch(model.root, model.settings) if isinstance(model, OnnxModel) else cast(Any, model)

    def encode(self, line: str) -> list[int]:
        """Return the source piece ids of ``line``, with ``</s>``."""
        return [*self.source_check.encode(self.change_text(text(line, "line"))), EOS]

    def encode_target(self, line: str) -> list[int]:
        """Return the target piece ids of a given translation, with ``</s>``."""
        return [*self.target_check.encode(self.change_text(line)), EOS]

    def conclude_text(self) -> None:
        """Warn if the tokenizers cannot read the text so far, once for each side."""
        self.source_check.conclude()
        self.target_check.conclude()


def changed_text(properties: Properties, line: str) -> str:
    """Return ``line`` as the training text was changed: without invisible characters, in lower case."""
    line = remove_invisible(line, properties.remove_invisible)
    return line.lower() if properties.lowercase else line


class TextCheck:
    """Counts the lines that a tokenizer reads, over all calls of a model, and warns once if it cannot read them.

    ``side`` names it in the warning. Unless it ``warns``, lines are encoded only.
    """

    def __init__(self, side: str, tokenizer: Tokenizer, *, warns: bool = True) -> None:
        self.counts = Coverage()
        self._side, self._tokenizer, self._warned = side, tokenizer, not warns

    def encode(self, line: str) -> list[int]:
        """Return the piece ids of a line, and count it."""
        ids = self._tokenizer.encode(line)
        if not self._warned:
            self.counts.count(self._tokenizer, [line], [ids])
        return ids

    def conclude(self) -> None:
        """Warn if the lines so far are unreadable."""
        if not self._warned and (problem := self.counts.problem()) is not None:
            self._warned = True
            fix = "choose a model that was trained on such text"
            warnings.warn(f"{self._side} text: {problem}; {fix}", stacklevel=3)
