"""Turn lines into piece ids, and warn once if the tokenizer cannot read a text, such as one in another script."""

from __future__ import annotations

import re
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from nmt.data.invisible import Invisible, remove_invisible
from nmt.errors import UserError, counted
from nmt.inference.bulk import SourceTooLong
from nmt.inference.engines import LoadedModel
from nmt.inference.ensemble import Ensemble
from nmt.inference.load import load_torch
from nmt.inference.onnx.model import OnnxModel
from nmt.settings.arguments import brief, text
from nmt.text.coverage import SPLIT_TO_LETTERS, Coverage, cost, coverage_problems, splits_to_letters
from nmt.text.specials import EOS
from nmt.text.tokenizer import Tokenizer
from nmt.text.writing import is_letter

if TYPE_CHECKING:
    from nmt.inference.model_folder import TrainedModel

AT_ONCE = 64  # lines that are counted together
EARLY = 2000  # characters after which a text that is mostly unreadable is named before its end
EARLY_SHARE = 0.2  # unknown tokens at that time
SAMPLE = 64  # lines
LONG = 64  # tokens: shorter lines are ordinary, even for a model that learned from short sentences
MUCH_LONGER = 1.2  # than the longest training source
HINT_CHARACTERS = 1000  # of the text, before a language is guessed
NEXT_SENTENCE = re.compile(r"[.!?։] +(\w)")  # begins with a capital
OTHER_SIDE = 0.7  # share of the tokens that the other side's tokenizer needs, if the text is in its language


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
        longest = None  # an attention with a limit refuses longer lines
        if properties.longest_source is not None and self.attention.max_source_length is None:
            longest = properties.longest_source - 1  # without </s>, as the ids of a tokenizer
        self.source_check = TextCheck("source", model.source, model.target, longest, warns=check_text)
        self.target_check = TextCheck("target", model.target, model.source, warns=check_text)
        # Changes a line as the training text was changed: without invisible characters, in lower case.
        self.change_text = partial(_change_text, properties.remove_invisible, properties.lowercase)

    @cached_property
    def trained(self) -> TrainedModel:
        """The torch model, which forced decoding and stored memories need; other engines load it on first use."""
        model = self.loaded_model
        if isinstance(model, Ensemble):
            raise UserError("an ensemble cannot score given translations or store memories; name a single model")
        if isinstance(model, OnnxModel):
            model.require_unchanged()  # the folder may hold another model now
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

    def check_source_length(self, length: int) -> None:
        """Raise SourceTooLong if the model's attention cannot hold ``length`` source pieces."""
        limit = self.attention.max_source_length
        if limit is not None and length > limit:
            raise SourceTooLong(
                f"a source of {length:,} pieces with </s>: {self.attention.name} attention of this model reads at most "
                f"{limit:,}; split the line or train on longer lines"
            )


def _change_text(invisible: Invisible | None, lowercase: bool, line: str) -> str:
    line = remove_invisible(line, invisible)
    return line.lower() if lowercase else line


class TextCheck:
    """Counts the lines that a tokenizer reads, over all calls of a model. Warns of them once, and once of a long one.

    ``side`` names it in the warning. ``other`` is the tokenizer of the other side: if it reads the text better, the
    texts may be exchanged. A line is too long if it has more than ``LONG`` tokens, and is much longer than the
    ``longest`` training source. Unless it ``warns``, lines are encoded only.
    """

    def __init__(
        self, side: str, tokenizer: Tokenizer, other: Tokenizer, longest: int | None = None, *, warns: bool = True
    ) -> None:
        self.counts = Coverage()
        self._side, self._tokenizer, self._other = side, tokenizer, other
        self._uncounted = deque[tuple[str, list[int]]]()  # threads may share a model
        self._sample: list[str] = []
        self._due = EARLY
        self._longest_source = longest
        self._longest_line = 0
        self._warned = not warns
        self._judged = 0  # lines of the sample when it was judged
        self._is_text = self._is_other = self._is_wrapped = False

    def encode(self, line: str) -> list[int]:
        """Return the piece ids of a line, and count it."""
        ids = self._tokenizer.encode(line)
        if self._warned:
            return ids
        self._longest_line = max(self._longest_line, len(ids))
        self._uncounted.append((line, ids))
        if len(self._uncounted) >= AT_ONCE:
            self._count()
            if self.counts.characters >= self._due:
                self._due *= 2
                if self.counts.unknown_share > EARLY_SHARE:
                    self.conclude()
        return ids

    def conclude(self) -> None:
        """Warn if the lines so far are unreadable, or one of them is too long. Call it at the end of a text."""
        if self._warned:
            return
        self._count()
        reason = self._reason() if self.counts.lines else None
        self._warned = reason is not None
        if reason := reason or self._length_reason():
            warnings.warn(f"{self._side} text: {reason}", stacklevel=3)

    def _count(self) -> None:
        if not self._uncounted:
            return
        lines = list[str]()
        encoded = list[list[int]]()
        with suppress(IndexError):  # of the empty deque
            while True:
                line, ids = self._uncounted.popleft()
                lines.append(line)
                encoded.append(ids)
        self.counts.count(self._tokenizer, lines, encoded)
        self._sample += lines[: SAMPLE - len(self._sample)]

    def _reason(self) -> str | None:
        counts, tokenizer = self.counts, self._tokenizer
        exchange = f"the {self._side} and the other language may be exchanged: choose the model of the other direction"
        language = f"is this the {self._side} language of the model? choose a model that was trained on such text"
        reasons = coverage_problems(counts, tokenizer, language)
        self._judge_sample()
        if reasons:
            return reasons[0].replace(language, exchange) if self._is_other else reasons[0]
        if self._is_wrapped:
            fix = (
                "join the lines of each paragraph, such as with format=markdown, and split them with search.sentences="
            )
            return f"lines end within sentences, as in text of an e-mail or a PDF; {fix}"
        if counts.characters < HINT_CHARACTERS or not self._is_text:
            return None
        tokens = f"{counts.tokens_per_word:.1f} tokens per word"
        if self._is_other:
            return f"{tokens}, and fewer with the other side's tokenizer; {exchange}"
        if splits_to_letters(counts, tokenizer):
            return f"{tokens}, more than {SPLIT_TO_LETTERS:g} per letter; {language}"
        return None

    def _length_reason(self) -> str | None:
        trained = self._longest_source
        if trained is None or self._longest_line <= max(LONG, MUCH_LONGER * trained):
            return None
        self._longest_source = None  # one warning
        why = f"the longest training source has {trained:,}, and models often read only a part of such a line"
        fix = "divide it, or set search.sentences to the language"
        return f"a line has {counted(self._longest_line, 'token')}; {why}; {fix}"

    def _judge_sample(self) -> None:
        """Find out whether the sample is text, has wrapped lines, and is read better by the other side's tokenizer.

        The other tokenizer must not be much larger. With two tokenizers, this takes 1 ms for 64 captions, half the time
        in which a small model translates one. Calls may have one line each, so the sample is judged only when it has
        doubled or is full.
        """
        sample = [*self._sample]  # another thread may extend it
        if self._judged == len(sample) or len(sample) < min(2 * self._judged, SAMPLE):
            return
        self._judged = len(sample)
        self._is_text = _is_text(sample)
        self._is_wrapped = _is_wrapped(sample)
        tokenizer, other = self._tokenizer, self._other
        if tokenizer is not other and 2 * len(other) <= 3 * len(tokenizer):
            self._is_other = cost(other, sample) < OTHER_SIDE * cost(tokenizer, sample)


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Return whether many lines end within a sentence that the next line continues, and some line has two sentences.

    Lists and captions in lower case have no line with two sentences.
    """
    broken = sum(  # every word of Georgian has small letters only, and no capital in titles
        after[:1] != after[:1].title() and (before[-1:].isalpha() or before.endswith((",", "-")))
        for before, after in pairwise(lines)
    )
    letters = (match[1] for line in lines for match in NEXT_SENTENCE.finditer(line))
    return broken >= 3 and 3 * broken > len(lines) and any(map(str.isupper, letters))


def _is_text(lines: Sequence[str]) -> bool:
    """Return whether most characters are letters. Numbers and codes have many tokens in every language."""
    text = "".join("".join(lines).split())
    return 4 * sum(map(is_letter, text)) > 3 * len(text)
