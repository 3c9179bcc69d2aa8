"""Text to piece ids and back, by SentencePiece; whatever the model, ids 0–3 are PAD, UNK, BOS and EOS."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import sentencepiece

from nmt.bounds import Above, AtLeast
from nmt.errors import UserError
from nmt.text.specials import BOS, EOS, PAD, UNK

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer"]

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
SPACE = "▁"  # U+2581: how SentencePiece writes a space
STAND_IN = "\U0010ffff"  # never to be assigned, says Unicode: it carries a U+2581 of the text itself
REPLACED = re.compile(f"[\ud800-\udfff{STAND_IN}]")  # no UTF-8 exists for surrogates, and the other is taken
CHUNK_CHARACTERS = 1000  # SentencePiece drops training sentences above 4192 bytes: long ones arrive in chunks


class Tokenizer:
    """A SentencePiece model whose ids are moved, where need be, so that 0–3 are PAD, UNK, BOS and EOS.

    ``decode(encode(text)) == " ".join(text.split())`` for every text that has no lone surrogate and no
    U+10FFFF, which both become U+FFFD, when the model was made by ``train``; a model given by a file keeps its own
    normalisation, and where it has no byte fallback, loses the characters that it never saw.
    """

    def __init__(self, serialized: bytes, place: str = "tokenizer") -> None:
        self._serialized = serialized
        self._model = _load(serialized, place)
        self._ours, self._theirs = _id_maps(self._model)
        self._moved = self._theirs != list(range(len(self._theirs)))
        self._pieces = [*SPECIALS, *(self._model.id_to_piece(i) for i in self._theirs[len(SPECIALS) :])]
        # The byte that each byte-fallback piece stands for.
        self._bytes = {
            ours: int(self._pieces[ours][3:5], 16)
            for ours, theirs in enumerate(self._theirs)
            if theirs >= 0 and self._model.is_byte(theirs)
        }
        byte_ids = {byte: ours for ours, byte in self._bytes.items()}
        complete = len(byte_ids) == 256
        self._stand_in_ids = [byte_ids[b] for b in STAND_IN.encode()] if complete else []
        self._space_sign_ids = [byte_ids[b] for b in SPACE.encode()] if complete else []

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        *,
        vocab_size: Annotated[int, AtLeast(5)],
        kind: Literal["bpe", "unigram"] = "bpe",
        character_coverage: Annotated[float, Above(0)] = 1.0,
    ) -> Tokenizer:
        """A tokenizer of exactly ``vocab_size`` pieces: 4 specials, 256 bytes, and what the sentences teach.

        No character is ever lost (byte fallback) and none is changed (identity normalisation).
        Deterministic. UserError: nothing to learn from, or a size that the data cannot fill or squeeze into.
        """
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
                normalization_rule_name="identity",
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                minloglevel=2,
            )
        except RuntimeError as error:
            if failures:  # the sentences' own error, which SentencePiece flattens into its text
                raise failures[0] from None
            raise _refusal(str(error), vocab_size) from None
        return cls(model.getvalue())

    @classmethod
    def from_bytes(cls, serialized: bytes, place: str = "tokenizer") -> Tokenizer:
        """The tokenizer that ``to_bytes`` gave, or any SentencePiece model; ``place`` is named in errors."""
        return cls(serialized, place)

    @classmethod
    def from_file(cls, path: str | Path) -> Tokenizer:
        """The tokenizer of a SentencePiece ``.model`` file, its special ids moved to ours."""
        try:
            serialized = Path(path).read_bytes()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; name a SentencePiece .model file") from None
        return cls(serialized, str(path))

    def to_bytes(self) -> bytes:
        """The SentencePiece model as it was trained or given."""
        return self._serialized

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_bytes, (self._serialized,)

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        """Piece ids of one sentence, without BOS and EOS; whitespace of any kind and length is one space."""
        return self.encode_all([text])[0]

    def encode_in_parts(self, text: str, *, words: int = 1024) -> Iterator[list[int]]:
        """``encode``, so many words at a time: what a text of any length needs beside itself does not grow with it."""
        found = (match[0] for match in re.finditer(r"\S+", text))
        while part := list(islice(found, words)):
            yield self.encode(" ".join(part))

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """``encode`` of each text, on all cores."""
        clean = [_clean(text) for text in texts]
        if self._stand_in_ids:
            clean = [text.replace(SPACE, STAND_IN) for text in clean]
        encoded: list[list[int]] = self._model.encode(clean)
        if self._moved:
            encoded = [[self._ours[i] for i in ids] for ids in encoded]
        if self._stand_in_ids:
            for row, text in enumerate(texts):
                if SPACE in text:
                    encoded[row] = _replace_run(encoded[row], self._stand_in_ids, self._space_sign_ids)
        return encoded

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the pieces, always one single-spaced line; PAD, UNK, BOS and EOS are skipped."""
        theirs = [self._theirs[i] for i in ids if i >= len(SPECIALS)]
        return " ".join(self._model.decode(theirs).split())

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as SentencePiece writes them: ``▁`` is a space, ``<0x0A>`` a byte."""
        return [self._pieces[i] for i in ids]

    def words(self, ids: Iterable[int]) -> list[int]:
        """The 0-based whitespace word that each piece belongs to: the word of its first visible character.

        A lone ``▁`` belongs to the word that it opens. PAD, BOS and EOS belong to none: −1. UNK is visible.
        The words are those of ``decode(ids).split()``, as long as there is no UNK.
        """
        ids = list(ids)
        word, between, belongs = -1, True, []  # between: the next visible character opens a word
        for piece, surface in zip(ids, self._surfaces(ids), strict=True):
            first = None
            for character in surface:
                if character.isspace():
                    between = True
                else:
                    word += between
                    between = False
                    first = word if first is None else first
            if piece in (PAD, BOS, EOS):
                belongs.append(-1)
            else:
                belongs.append(word + between if first is None else first)
        return [min(index, max(word, 0)) for index in belongs]  # spaces at the very end join the last word

    def _surfaces(self, ids: list[int]) -> list[str]:
        """What each piece adds to the text; a character spelled in bytes stands with its first byte."""
        surfaces: list[str] = []
        spelled = bytearray()

        def finish_spelling() -> None:
            for character in spelled.decode("utf-8", "surrogateescape"):
                broken = "\udc80" <= character <= "\udcff"  # an invalid byte, which decodes to U+FFFD
                surfaces.extend([character] + [""] * (0 if broken else len(character.encode()) - 1))
            spelled.clear()

        for i in ids:
            if i in self._bytes:
                spelled.append(self._bytes[i])
                continue
            finish_spelling()
            silent = i in (PAD, BOS, EOS)
            surfaces.append("" if silent else self._pieces[i].replace(SPACE, " "))
        finish_spelling()
        return surfaces


def _clean(text: str) -> str:
    return " ".join(REPLACED.sub("\ufffd", text).split())


def _load(serialized: bytes, place: str) -> sentencepiece.SentencePieceProcessor:
    model = sentencepiece.SentencePieceProcessor()
    try:
        loaded = bool(serialized) and model.LoadFromSerializedProto(serialized)
    except RuntimeError:
        loaded = False
    if not loaded or model.get_piece_size() == 0:
        raise UserError(f"{place}: not a SentencePiece model; give a .model file of spm_train or nmt-prepare")
    return model


def _id_maps(model: sentencepiece.SentencePieceProcessor) -> tuple[list[int], list[int]]:
    """(ours by their id, theirs by our id): specials first, then every other piece in the model's order.

    A special that the model lacks has −1 as its id there.
    """
    specials = [model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id()]
    size = model.get_piece_size()
    theirs = specials + [i for i in range(size) if i not in specials]
    ours = [UNK] * size
    for our_id, their_id in enumerate(theirs):
        if their_id >= 0:
            ours[their_id] = our_id
    return ours, theirs


def _training_chunks(sentences: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    try:
        for sentence in sentences:
            # A literal U+2581 is never learnt: SentencePiece could not tell it from a space.
            text = _clean(sentence.replace(SPACE, " "))
            if len(text) <= CHUNK_CHARACTERS:
                yield text
            else:
                yield from textwrap.wrap(text, CHUNK_CHARACTERS, break_on_hyphens=False)
    except BaseException as error:
        failures.append(error)
        raise


def _replace_run(ids: list[int], run: list[int], substitute: list[int]) -> list[int]:
    result: list[int] = []
    for i in ids:
        result.append(i)
        if result[-len(run) :] == run:
            result[-len(run) :] = substitute
    return result


def _refusal(message: str, vocab_size: int) -> UserError:
    if found := re.search(r"too high.*value <= (\d+)", message):
        return UserError(
            f"tokenizer.vocab_size={vocab_size}: this text yields at most {found[1]} pieces;"
            f" set tokenizer.vocab_size={found[1]} or less, or give more text"
        )
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return UserError(
            f"tokenizer.vocab_size={vocab_size}: the characters of this text alone need {found[1]} pieces;"
            f" set tokenizer.vocab_size={found[1]} or more, or lower tokenizer.character_coverage"
        )
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return UserError("tokenizer: the training text has no words; give sentences to learn the pieces from")
    reason = " ".join(message.split())
    return UserError(f"tokenizer.vocab_size={vocab_size}: SentencePiece cannot train on this: {reason}")
