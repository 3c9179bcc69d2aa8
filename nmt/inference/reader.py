"""Turn lines into piece ids, as the training text was turned into them."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from nmt.data.invisible import remove_invisible
from nmt.data.words import Span, mapped
from nmt.errors import UserError
from nmt.inference.engines import LoadedModel, Properties
from nmt.inference.load import load_torch
from nmt.inference.onnx.model import OnnxModel
from nmt.settings.arguments import brief, text
from nmt.text.coverage import TextCheck
from nmt.text.specials import EOS
from nmt.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nmt.inference.model_folder import TrainedModel


class Reader:
    """The tokenizers of a trained model, and its checks of the text: the base class of ``Translator``."""

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
        from nmt.inference.ensemble import Ensemble

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
