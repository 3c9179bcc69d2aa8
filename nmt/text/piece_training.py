"""Train SentencePiece models that lose no character."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import sentencepiece

from nmt.errors import UserError
from nmt.settings.bounds import AtLeast, AtMost
from nmt.system.machine import can_allocate, describe_limits
from nmt.text.specials import BOS, EOS, PAD, UNK

SPACE = "▁"  # U+2581: how SentencePiece writes a space
STAND_IN = "\U0010ffff"  # replaces U+2581 in the text; Unicode guarantees that it is never a character
UNSUPPORTED = re.compile(f"[\ud800-\udfff{STAND_IN}]")  # surrogates cannot be encoded in UTF-8; the other is taken
THREADS_MB = 16 * (8 + 64)  # of addresses: SentencePiece starts 16 threads, each with a stack and a heap
CHUNK_CHARACTERS = 1000  # long training sentences are cut: SentencePiece drops those above 4192 bytes


Pieces = Annotated[int, AtLeast(5), AtMost(1_000_000)]


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """conf/tokenizer/*.yaml: how the tokenizers of both sides are trained, or the models that they are."""

    kind: Literal["bpe", "unigram"]
    vocab_size: Pieces
    joint: bool
    source_vocab_size: Pieces | None = None
    target_vocab_size: Pieces | None = None
    character_coverage: Annotated[float, AtLeast(0.98), AtMost(1)]  # the range that SentencePiece accepts
    normalisation: Literal["nfkc"] | None = None
    source_model: str | None
    target_model: str | None

    def model_of(self, side: str) -> tuple[str, str | None]:
        """Return the key of the user's model of a side, and the file that it names, or None."""
        key = "source_model" if self.joint or side == "source" else "target_model"
        return f"tokenizer.{key}", getattr(self, key)

    def size_of(self, side: str) -> tuple[str, int]:
        """Return the key that sets the vocabulary size of a side, and the size."""
        size = None if self.joint else getattr(self, f"{side}_vocab_size")
        return ("tokenizer.vocab_size", self.vocab_size) if size is None else (f"tokenizer.{side}_vocab_size", size)

    def conflicts(self) -> Iterator[str]:
        """Yield a message where a joint vocabulary is given a model of the target side, or a size of one side."""
        if not self.joint:
            return
        for key in ("source_vocab_size", "target_vocab_size"):
            if (size := getattr(self, key)) is not None:
                yield (
                    f"tokenizer.{key}={size}: a joint vocabulary has one size; set tokenizer.vocab_size={size}, or "
                    "tokenizer.joint=false"
                )
        if self.target_model is not None:
            yield (
                f"tokenizer.target_model={self.target_model}: a joint vocabulary reads tokenizer.source_model only; "
                "remove tokenizer.target_model or set tokenizer.joint=false"
            )


class WrongSize(UserError):
    """A text cannot have ``size`` pieces; ``limit`` is the most, or the fewest, that it can have."""

    def __init__(self, message: str, size: int, limit: int) -> None:
        super().__init__(message)
        self.size, self.limit = size, limit


def train_pieces(
    sentences: Iterable[str],
    *,
    vocab_size: int,
    kind: Literal["bpe", "unigram"],
    character_coverage: float,
    normalisation: Literal["nfkc"] | None = None,
) -> bytes:
    """Train a SentencePiece model with byte fallback and return its serialized form.

    Raises UserError if the sentences hold no words, or if ``vocab_size`` is too large or too small for them.
    """
    if not can_allocate(THREADS_MB << 20):  # SentencePiece ends the process if it cannot start a thread
        raise UserError(
            f"tokenizer: not enough RAM{describe_limits()}: learning pieces needs {THREADS_MB:,} MB more; raise this "
            "limit, or give tokenizer.source_model="
        )
    model = io.BytesIO()
    failures: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_training_chunks(sentences, failures),
            model_writer=model,
            model_type=kind,
            vocab_size=vocab_size,
            character_coverage=character_coverage,
            byte_fallback=True,
            normalization_rule_name=normalisation or "identity",
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=2,
        )
    except RuntimeError as error:
        if failures:  # the iterator's own error, of which SentencePiece keeps only the text
            raise failures[0] from None
        raise _training_error(str(error), vocab_size) from None
    return model.getvalue()


def clean_text(text: str) -> str:
    """Replace unsupported characters by U+FFFD and every run of whitespace by one space."""
    supported = text if text.isascii() else UNSUPPORTED.sub("\ufffd", text)
    return " ".join(supported.split())


def _training_chunks(sentences: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """Yield training text in chunks that SentencePiece accepts; append the sentences' own error to ``failures``."""
    try:
        for sentence in sentences:
            # A literal U+2581 is left out: SentencePiece cannot distinguish it from a space.
            text = clean_text(sentence.replace(SPACE, " "))
            if len(text) <= CHUNK_CHARACTERS:
                yield text
            else:
                yield from textwrap.wrap(text, CHUNK_CHARACTERS, break_on_hyphens=False)
    except BaseException as error:
        failures.append(error)
        raise


def _training_error(message: str, vocab_size: int) -> UserError:
    """Return a UserError that explains SentencePiece's ``message``."""
    if match := re.search(r"too high.*value <= (\d+)", message):
        return WrongSize(
            f"tokenizer.vocab_size={vocab_size}: this text yields at most {match[1]} pieces;"
            f" set tokenizer.vocab_size={match[1]} or less, or give more text",
            vocab_size,
            int(match[1]),
        )
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return WrongSize(
            f"tokenizer.vocab_size={vocab_size}: the characters of this text alone need {match[1]} pieces;"
            f" set tokenizer.vocab_size={match[1]} or more, or lower tokenizer.character_coverage",
            vocab_size,
            int(match[1]),
        )
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return UserError("tokenizer: the training text contains no words; give text to learn the pieces from")
    reason = " ".join(message.split())
    return UserError(f"tokenizer.vocab_size={vocab_size}: SentencePiece cannot train on this text: {reason}")
