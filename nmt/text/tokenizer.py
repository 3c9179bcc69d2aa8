"""Convert text to piece ids and back with SentencePiece. Ids 0–3 are PAD, UNK, BOS and EOS for every model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sentencepiece

from nmt.errors import UserError
from nmt.text.piece_training import SPACE, STAND_IN, clean_text, train_pieces
from nmt.text.specials import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from nmt.text.bpe_dropout import BpeMerges

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer"]

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")


class Tokenizer:
    """A SentencePiece model whose ids are renumbered, if necessary, so that 0–3 are PAD, UNK, BOS and EOS.

    For a model from ``train``, ``decode(encode(text)) == " ".join(text.split())`` for every text, except that lone
    surrogates and U+10FFFF become U+FFFD, and that ``normalisation`` replaces characters. A model from a file keeps its
    own normalisation. If it has no byte fallback, it loses the characters that it did not see in training.
    """

    def __init__(self, serialized: bytes, place: str = "tokenizer") -> None:
        self._serialized = serialized
        self._model = _load(serialized, place)
        self._from_model, self._to_model = _id_maps(self._model)
        self._renumbered = self._to_model != list(range(len(self._to_model)))
        try:
            self._pieces = [*SPECIALS, *(self._model.id_to_piece(i) for i in self._to_model[len(SPECIALS) :])]
            # The byte of each byte-fallback piece.
            self._bytes = {
                our_id: int(self._pieces[our_id][3:5], 16)
                for our_id, model_id in enumerate(self._to_model)
                if model_id >= 0 and self._model.is_byte(model_id)
            }
        except ValueError:  # a piece is not UTF-8, or a byte piece not <0x..>
            raise _not_a_model(place) from None
        byte_ids = {byte: our_id for our_id, byte in self._bytes.items()}
        complete = len(byte_ids) == 256
        self._stand_in_ids = [byte_ids[byte] for byte in STAND_IN.encode()] if complete else []
        self._space_sign_ids = [byte_ids[byte] for byte in SPACE.encode()] if complete else []

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        *,
        vocab_size: int,
        kind: Literal["bpe", "unigram"] = "bpe",
        character_coverage: float = 1.0,
        normalisation: Literal["nfkc"] | None = None,
    ) -> Tokenizer:
        """Train a tokenizer with exactly ``vocab_size`` pieces: 4 specials, 256 bytes, and pieces of the sentences.

        It loses no character (byte fallback), and changes none without ``normalisation``. Training is deterministic.
        Raises UserError if the sentences hold no words, or if ``vocab_size`` is too large or too small for them.
        """
        model = train_pieces(
            sentences,
            vocab_size=vocab_size,
            kind=kind,
            character_coverage=character_coverage,
            normalisation=normalisation,
        )
        return cls(model)

    @classmethod
    def from_bytes(cls, serialized: bytes, place: str = "tokenizer") -> Tokenizer:
        """Load the bytes of ``to_bytes`` or of any SentencePiece model; errors name ``place``."""
        return cls(serialized, place)

    @classmethod
    def from_file(cls, path: str | Path) -> Tokenizer:
        """Load a SentencePiece ``.model`` file."""
        try:
            serialized = Path(path).read_bytes()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; name a SentencePiece .model file") from None
        return cls(serialized, str(path))

    def to_bytes(self) -> bytes:
        """Return the serialized SentencePiece model, unchanged."""
        return self._serialized

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_bytes, (self._serialized,)

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def normalises(self) -> bool:
        """Whether the model replaces characters by their Unicode normal form NFKC."""
        return "fi" in self._model.normalize("\ufb01")  # a ligature

    def encode(self, text: str) -> list[int]:
        """Return the piece ids of one sentence, without BOS and EOS. Any run of whitespace counts as one space."""
        return self.encode_all([text])[0]

    def encode_in_parts(self, text: str, *, words: int = 1024) -> Iterator[list[int]]:
        """Yield the piece ids of a text, ``words`` words at a time, so that memory does not grow with its length."""
        all_words = (match[0] for match in re.finditer(r"\S+", text))
        while part := list(islice(all_words, words)):
            yield self.encode(" ".join(part))

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """Return the piece ids of each text, as ``encode`` does, on all cores."""
        return self._encode(texts, self._model.encode)

    def sample(self, text: str, *, dropout: float, seed: int) -> list[int]:
        """Return piece ids of one sentence; each merge of the BPE model is skipped with probability ``dropout``.

        The ids decode to the same text. Equal seeds give equal pieces, in every process. Raises UserError for a model
        of another kind than BPE. Provilkov, Emelianenko & Voita (2020), BPE-Dropout, arXiv 1910.13267.
        """

        def sample_all(texts: list[str]) -> list[list[int]]:
            normalised = map(self._model.normalize, texts)
            return [self._merges.sample(text, dropout=dropout, seed=seed) for text in normalised]

        return self._encode([text], sample_all)[0]

    @cached_property
    def _merges(self) -> BpeMerges:
        from nmt.text.bpe_dropout import BpeMerges  # only training needs it

        return BpeMerges(self._serialized)

    def _encode(self, texts: list[str], encode_clean: Callable[[list[str]], list[list[int]]]) -> list[list[int]]:
        clean = [clean_text(text) for text in texts]
        # SentencePiece would read U+2581 in the text as a space, so another character stands in for it.
        if self._stand_in_ids:
            clean = [text.replace(SPACE, STAND_IN) for text in clean]
        encoded = encode_clean(clean)
        if self._renumbered:
            encoded = [[self._from_model[i] for i in ids] for ids in encoded]
        if self._stand_in_ids:
            for row, text in enumerate(texts):
                if SPACE in text:
                    encoded[row] = _replace_run(encoded[row], self._stand_in_ids, self._space_sign_ids)
        return encoded

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the pieces as one line with single spaces. PAD, UNK, BOS and EOS are skipped."""
        model_ids = [self._to_model[i] for i in ids if i >= len(SPECIALS)]
        return " ".join(self._model.decode(model_ids).split())

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces as SentencePiece writes them: ``▁`` is a space, ``<0x0A>`` a byte."""
        return [self._pieces[i] for i in ids]

    def words(self, ids: Iterable[int]) -> list[int]:
        """Return the 0-based whitespace word of each piece: the word of its first visible character.

        A lone ``▁`` belongs to the word after it. PAD, BOS and EOS belong to no word: −1. UNK counts as visible.
        Without UNK, the words are those of ``decode(ids).split()``.
        """
        ids = list(ids)
        word, after_space, words = -1, True, []  # after a space, the next visible character starts a word
        for piece, surface in zip(ids, self._surfaces(ids), strict=True):
            first = None
            for character in surface:
                if character.isspace():
                    after_space = True
                else:
                    word += after_space
                    after_space = False
                    first = word if first is None else first
            if piece in (PAD, BOS, EOS):
                words.append(-1)
            else:
                words.append(word + after_space if first is None else first)
        return [min(index, max(word, 0)) for index in words]  # trailing spaces belong to the last word

    def _surfaces(self, ids: list[int]) -> list[str]:
        """Return the text of each piece. A character that is spelled in bytes belongs to its first byte."""
        surfaces: list[str] = []
        pending_bytes = bytearray()

        def decode_pending_bytes() -> None:
            for character in pending_bytes.decode("utf-8", "surrogateescape"):
                invalid = "\udc80" <= character <= "\udcff"  # an invalid byte; decode shows U+FFFD for it
                surfaces.extend([character] + [""] * (0 if invalid else len(character.encode()) - 1))
            pending_bytes.clear()

        for i in ids:
            if i in self._bytes:
                pending_bytes.append(self._bytes[i])
                continue
            decode_pending_bytes()
            invisible = i in (PAD, BOS, EOS)
            surfaces.append("" if invisible else self._pieces[i].replace(SPACE, " "))
        decode_pending_bytes()
        return surfaces


def _load(serialized: bytes, place: str) -> sentencepiece.SentencePieceProcessor:
    model = sentencepiece.SentencePieceProcessor()
    try:
        loaded = bool(serialized) and model.LoadFromSerializedProto(serialized)
    except (RuntimeError, UnicodeDecodeError):  # its message quotes a piece that is not UTF-8
        loaded = False
    if not loaded or model.get_piece_size() == 0:
        raise _not_a_model(place)
    return model


def _not_a_model(place: str) -> UserError:
    return UserError(f"{place}: not a SentencePiece model; give a .model file from spm_train or nmt-prepare")


def _id_maps(model: sentencepiece.SentencePieceProcessor) -> tuple[list[int], list[int]]:
    """Return two lists: our id of each model id, and the model id of each of our ids.

    Ours are the specials, then every other piece in the model's order. The model id of a missing special is −1.
    """
    specials = [model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id()]
    size = model.get_piece_size()
    to_model = specials + [i for i in range(size) if i not in specials]
    from_model = [UNK] * size
    for our_id, model_id in enumerate(to_model):
        if model_id >= 0:
            from_model[model_id] = our_id
    return from_model, to_model


def _replace_run(ids: list[int], run: list[int], substitute: list[int]) -> list[int]:
    """Return ``ids`` with every occurrence of the sequence ``run`` replaced by ``substitute``."""
    result: list[int] = []
    for i in ids:
        result.append(i)
        if result[-len(run) :] == run:
            result[-len(run) :] = substitute
    return result
