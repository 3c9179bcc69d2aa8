"""Convert text to piece ids and back with SentencePiece. Ids 0–3 are PAD, UNK, BOS and EOS for every model."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import and_
from pathlib import Path
from typing import Annotated, Any, Literal

import sentencepiece

from nmt.data.words import Span
from nmt.errors import UserError
from nmt.settings.arguments import AtLeast, AtMost
from nmt.text.specials import BOS, EOS, PAD, SPACE, UNK
from nmt.text.writing import LazyPattern

SURROGATE = LazyPattern("[\ud800-\udfff]")
CHUNK_CHARACTERS = 1000  # long training sentences are cut: SentencePiece drops those above 4192 bytes
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")

Pieces = Annotated[int, AtLeast(5), AtMost(1_000_000)]


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """conf/tokenizer/*.yaml: how to train the tokenizers of both sides, or the user's models to use instead."""

    kind: Literal["bpe", "unigram"]
    vocab_size: Pieces | tuple[Pieces, Pieces]
    character_coverage: Annotated[float, AtLeast(0.98), AtMost(1)]  # the range that SentencePiece accepts
    normalisation: Literal["nfkc"] | None = None
    model: str | tuple[str, str] | None = None

    @property
    def joint(self) -> bool:
        """Whether both sides have one vocabulary."""
        return not isinstance(self.vocab_size if self.model is None else self.model, tuple)

    @property
    def sizes(self) -> tuple[int, int]:
        """The vocabulary sizes of both sides."""
        return self.vocab_size if isinstance(self.vocab_size, tuple) else (self.vocab_size, self.vocab_size)

    def train(self, source: list[str], target: list[str]) -> tuple[Tokenizer, Tokenizer]:
        """Return the tokenizers of both sides, one object if they are ``joint``: the user's models, or trained ones."""
        if self.model is not None:
            files = [self.model] if isinstance(self.model, str) else self.model
            models = [Tokenizer.from_file(file) for file in files]
            return models[0], models[-1]
        if self.joint:
            joint = self._train([line for pair in zip(source, target, strict=True) for line in pair], self.sizes[0])
            return joint, joint
        return self._train(source, self.sizes[0]), self._train(target, self.sizes[1])

    def _train(self, lines: list[str], vocab_size: int) -> Tokenizer:
        return Tokenizer.train(
            lines,
            vocab_size=vocab_size,
            kind=self.kind,
            character_coverage=self.character_coverage,
            normalisation=self.normalisation,
        )


class Tokenizer:
    """A SentencePiece model whose ids are renumbered, if necessary, so that 0–3 are PAD, UNK, BOS and EOS.

    For a model from ``train``, ``decode(encode(text)) == clean_text(text)`` for every text, except that
    ``normalisation`` replaces characters. A model from a file keeps its own normalisation. If it has no byte fallback,
    it loses the characters that it did not see in training.
    """

    def __init__(self, serialized: bytes, name: str = "tokenizer") -> None:
        """Load the bytes of ``to_bytes`` or of any SentencePiece model; errors name ``name``."""
        self._serialized = serialized
        self._model = sentencepiece.SentencePieceProcessor()
        try:
            if not (serialized and self._model.LoadFromSerializedProto(serialized) and self._model.get_piece_size()):
                raise ValueError
            self._from_model, self._to_model = _id_maps(self._model)
            self._renumbered = self._to_model != list(range(len(self._to_model)))
            # Lists, because a call takes more time than the answer.
            self.all_pieces = [*SPECIALS, *self._model.id_to_piece(self._to_model[len(SPECIALS) :])]
            is_byte = self._model.is_byte([*range(self._model.get_piece_size())])
            # The byte of each byte-fallback piece.
            self._bytes = {
                our_id: int(self.all_pieces[our_id][3:5], 16)
                for our_id, model_id in enumerate(self._to_model)
                if model_id >= 0 and is_byte[model_id]
            }
        except (RuntimeError, ValueError):  # also if a piece is not UTF-8, or a byte piece not <0x..>
            fix = "give a .model file from spm_train or nmt-prepare"
            raise UserError(f"{name}: not a SentencePiece model; {fix}") from None
        self._spaces_unknown = self._model.piece_to_id(SPACE) == self._model.unk_id()  # as a model of whole words

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
        Raises UserError if the sentences hold no words, or if ``vocab_size`` does not fit them.
        """
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_training_chunks(sentences),
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
            raise _training_error(str(error), vocab_size) from None
        return cls(model.getvalue())

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
        return Tokenizer, (self._serialized,)

    def __len__(self) -> int:
        return len(self.all_pieces)

    @cached_property
    def fallback(self) -> frozenset[int]:
        """The ids of UNK and of the pieces that are one byte."""
        return frozenset({UNK, *self._bytes})

    @cached_property
    def visible(self) -> frozenset[int]:
        """The ids of the pieces that are text, and not only spaces or a part of a character."""
        texts = ((our_id, self.decode([our_id])) for our_id in range(len(SPECIALS), len(self)))
        return frozenset(our_id for our_id, text in texts if text)

    @cached_property
    def spellings(self) -> list[bytes]:
        """The bytes of each piece, in UTF-8 and with spaces; empty for special pieces."""
        return [
            bytes([self._bytes[our_id]])
            if our_id in self._bytes
            else b""
            if our_id < len(SPECIALS) or self._model.is_control(self._to_model[our_id])
            else piece.replace(SPACE, " ").encode()
            for our_id, piece in enumerate(self.all_pieces)
        ]

    @property
    def spells_bytes(self) -> bool:
        """Whether the bytes of an unknown character are pieces; otherwise it is UNK."""
        return len(self._bytes) == 256

    def normalise(self, text: str) -> str:
        """Return the text as the model's own normalisation changes it, without spaces."""
        normalised: str = self._model.normalize(clean_text(text))
        return normalised.replace(SPACE, "").replace(" ", "")

    def encode(self, text: str) -> list[int]:
        """Return the piece ids of one sentence, without BOS and EOS. Any run of whitespace counts as one space."""
        # A list would start threads, which take ten times as long as one sentence.
        return self._our_ids(self._model.encode(clean_text(text)))

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """Return the piece ids of each text, as ``encode`` does, on all cores."""
        return [*map(self._our_ids, self._model.encode([*map(clean_text, texts)]))]

    def sample(self, text: str, *, dropout: float) -> list[int]:
        """Return piece ids of one sentence; each merge of the BPE model is skipped with probability ``dropout``.

        The ids decode to the same text. Every call draws other pieces, in other processes too.
        Provilkov, Emelianenko & Voita (2020), BPE-Dropout, arXiv 1910.13267.
        """
        return self._our_ids(self._model.encode(clean_text(text), enable_sampling=True, alpha=dropout, nbest_size=-1))

    @property
    def has_merges(self) -> bool:
        """Whether the pieces are those of BPE, so that ``sample`` can skip merges."""
        from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec  # type: ignore[attr-defined]

        spec = ModelProto.FromString(self._model.serialized_model_proto()).trainer_spec
        return bool(spec.model_type == TrainerSpec.BPE)

    def _our_ids(self, ids: list[int]) -> list[int]:
        return [self._from_model[i] for i in ids] if self._renumbered else ids

    def decode(self, ids: Iterable[int], *, unknown: str = "") -> str:
        """Return the text of the pieces as one line with single spaces.

        PAD, BOS, EOS and the bytes of incomplete characters are skipped. ``unknown`` is the text of UNK.
        """
        ids = list(ids)
        if unknown and UNK in ids:
            return clean_text("".join(self._surfaces(ids, unknown)))
        model_ids = [self._to_model[i] for i in compress(ids, self._have_text(ids))]
        return " ".join(self._model.decode(model_ids).split())

    def _have_text(self, ids: list[int], unknown: str = "") -> list[bool]:
        """Return whether each piece is text, or a part of it."""
        texts = [i >= len(SPECIALS) or (i == UNK and unknown != "") for i in ids]
        if self._bytes.keys().isdisjoint(ids):
            return texts
        # One byte per piece. A byte that spells no character becomes a surrogate.
        spelled = bytes(self._bytes.get(i, 0) for i in ids).decode(errors="surrogateescape")
        whole = (not SURROGATE.match(letter) for letter in spelled for _ in letter.encode(errors="surrogateescape"))
        return [*map(and_, texts, whole)]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the pieces as SentencePiece writes them: ``▁`` is a space, ``<0x0A>`` a byte."""
        return [self.all_pieces[i] for i in ids]

    def spans(self, text: str) -> list[Span]:
        """Return the part of ``text`` that each piece of ``encode(text)`` spells.

        Every piece that a character turns into has the character's part, also after normalisation. A piece without
        letters, such as a lone space sign, stands for the next character with a piece, or for the last one.
        """
        clean = clean_text(text)
        unchanged = self._model.normalize(clean).replace(SPACE, " ").strip(" ") == clean  # most lines
        places: Sequence[int] = range(len(text) + 1)  # in ``text``, of each character of ``clean``
        if clean != text:
            places = [at for match in re.finditer(r"\S+", text) for at in range(match.start(), match.end() + 1)]
        words = [] if unchanged else self._kept_words(clean)
        spans = list[Span | None]()
        mapping = self._model.encode(clean, return_type="offset_mapping")
        for piece, (start, stop) in zip(mapping["pieces"], mapping["offsets"], strict=True):
            # All pieces of a character but the last have an empty range at its place.
            part = clean[start : max(stop, start + 1)]
            inside: Sequence[int] = range(start + len(part) - len(part.lstrip()), start + len(part.rstrip()))
            count = len(piece.replace(SPACE, " ").split())
            if not unchanged:  # a space may include letters that disappear
                numbers = sorted({words[at] for at in inside} - {-1})
                numbers = numbers[-count:] if piece.startswith(SPACE) else numbers[:count]
                inside = [at for at in inside if words[at] in numbers]
            spans.append((places[inside[0]], places[inside[-1]] + 1) if count and inside else None)
        following = max((span[1] for span in spans if span), default=0) - 1
        known = list[Span]()
        for span in reversed(spans):
            known.append(span or (following, following))
            following = known[-1][0]
        return known[::-1]

    def _kept_words(self, clean: str) -> list[int]:
        """Return the word of each character, −1 for spaces and for words that normalisation removes."""
        words = list[int]()
        for number, word in enumerate(clean.split(" ")):
            words += [number if self.normalise(word) else -1] * len(word) + [-1]
        return words

    def decoded_spans(self, ids: Iterable[int], *, unknown: str = "") -> list[Span]:
        """Return the part of ``decode(ids, unknown=unknown)`` that each piece spells.

        A lone ``▁`` stands for the character after it, and UNK, if it has no text, for the one before.
        """
        spans = list[Span]()
        at = 0
        is_spaced = False  # before the next visible character
        for surface in self._surfaces([*ids], unknown):
            start = None
            for character in surface:
                if character.isspace():
                    is_spaced = at > 0
                else:
                    at += is_spaced
                    is_spaced = False
                    start = at if start is None else start
                    at += 1
            point = at + 1 if is_spaced else max(at - 1, 0)
            spans.append((point, point) if start is None else (start, at))
        return [(min(start, at - 1), min(stop, at)) for start, stop in spans]

    def _surfaces(self, ids: list[int], unknown: str) -> list[str]:
        """Return the text of each piece. A character that is spelled in bytes belongs to its first byte."""
        has_text = self._have_text(ids, unknown)
        decoded = [self._to_model[i] for i in compress(ids, has_text)]
        mapping = self._model.decode(decoded, return_type="offset_mapping")
        spans = iter(mapping["offsets"])
        surfaces = []
        for i, is_text in zip(ids, has_text, strict=True):
            start, stop = next(spans) if is_text else (0, 0)
            surfaces.append(mapping["text"][start:stop])
            if unknown and i == UNK:
                surfaces[-1] = f" {unknown} " if self._spaces_unknown else unknown
        for row in range(len(ids) - 2, -1, -1):  # SentencePiece gives a character to its last byte
            if not surfaces[row] and has_text[row] and ids[row] in self._bytes and ids[row + 1] in self._bytes:
                surfaces[row], surfaces[row + 1] = surfaces[row + 1], ""
        return surfaces


def clean_text(text: str) -> str:
    """Return the text as SentencePiece gets it: with one space for every run of whitespace.

    Lone surrogates become U+FFFD. ``▁``, which SentencePiece takes for a space, becomes ``_``.
    """
    return " ".join(encodable(text).replace(SPACE, "_").split())


def encodable(text: str) -> str:
    """Return ``text`` with U+FFFD for each lone surrogate, which UTF-8 cannot encode."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def _training_chunks(sentences: Iterable[str]) -> Iterator[str]:
    """Yield training text in chunks that SentencePiece accepts."""
    for sentence in sentences:
        text = clean_text(sentence)
        if len(text) <= CHUNK_CHARACTERS:
            yield text
        else:
            yield from textwrap.wrap(text, CHUNK_CHARACTERS, break_on_hyphens=False)


def _training_error(message: str, vocab_size: int) -> UserError:
    """Return a UserError that explains SentencePiece's ``message`` about the vocabulary size."""
    setting = f"tokenizer.vocab_size={vocab_size}"
    for pattern, bound, others in (
        (r"too high.*value <= (\d+)", "yields at most", "fewer"),
        (r"required_chars\. \d+ vs (\d+)", "needs", "more"),
    ):
        if match := re.search(pattern, message):
            return UserError(f"{setting}: the text {bound} {match[1]} pieces; give this number or {others}")
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return UserError("tokenizer: the training text contains no words; give text to learn the pieces from")
    return UserError(f"{setting}: SentencePiece cannot train on this text: {' '.join(message.split())}")


def other_side(model: Any, expected: Any) -> str | None:
    """Return the first side, source or target, of which two models or texts have different tokenizers, or None."""
    for side in ("source", "target"):
        if getattr(model, side).to_bytes() != getattr(expected, side).to_bytes():
            return side
    return None


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
