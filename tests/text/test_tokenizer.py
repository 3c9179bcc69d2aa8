"""The tokenizer loses no text when it encodes and decodes, and ids 0–3 are the specials for every model."""

from __future__ import annotations

import pickle
import random
import re
import unicodedata

import pytest
import sentencepiece
from tokenizer_kinds import train_sentencepiece

from nmt.errors import UserError
from nmt.text.specials import BOS, EOS, PAD, UNK
from nmt.text.tokenizer import Tokenizer

SENTENCES = [
    "a man in a blue shirt is standing on a ladder .",
    "two dogs are running through the deep snow .",
    "ein Mann läuft über die Straße , während es regnet .",
    "die Kinder spielen mit dem großen Hund im Garten .",
] * 5

HARD = [
    "",
    " ",
    "\t\n",
    "a\tb  c\u00a0d\u3000e\u2028f\x85g\x1fh",  # str.split treats all of these as whitespace
    "nul \x00 here",
    "emoji 😀👩‍👩‍👧 fin",
    "▁",
    "▁a b▁ c▁d",
    "<s> </s> <unk> <pad> <0x41>",
    "e\u0301 ﬁ Ａ ½",  # NFKC would change all of these
    "\ufeffmark \u200b zero",
    "日本語 はたらく",
    "x" * 5000,
]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(SENTENCES, vocab_size=310, kind=request.param)


def test_any_text_is_decoded_with_single_spaces(tokenizer: Tokenizer) -> None:
    generator = random.Random(3)
    alphabet = "abdeimnrst  ..ßü▁\t\x00é😀日\u2028\u00a0\u0301\ud800"
    for text in [*HARD, *("".join(generator.choices(alphabet, k=generator.randrange(30))) for _ in range(500))]:
        supported = text.replace("▁", "_").replace("\ud800", "\ufffd")
        assert tokenizer.decode(tokenizer.encode(text)) == " ".join(supported.split())


def test_specials_belong_to_no_word_and_are_not_decoded(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("two dogs")
    assert tokenizer.decode([BOS, *ids, UNK, EOS, PAD]) == "two dogs"
    assert tokenizer.decoded_spans([]) == tokenizer.spans("") == []


def test_size_pieces_and_serialization(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) == 310
    assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    ids = tokenizer.encode(SENTENCES[2])
    assert "".join(tokenizer.pieces(ids)).replace("▁", " ").strip() == SENTENCES[2]
    for copy in (Tokenizer(tokenizer.to_bytes()), pickle.loads(pickle.dumps(tokenizer))):
        assert copy.encode(SENTENCES[2]) == ids
    assert tokenizer.encode_all(SENTENCES[:4]) == [tokenizer.encode(text) for text in SENTENCES[:4]]


def test_training_is_deterministic_and_silent(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = (Tokenizer.train(SENTENCES, vocab_size=300).to_bytes() for _ in range(2))
    assert first == second
    assert capfd.readouterr() == ("", "")


def test_sentences_beyond_the_limits_of_sentencepiece_are_used() -> None:
    tokenizer = Tokenizer.train(["wo " * 5000, "ß" * 200_000, "a-b" * 3000], vocab_size=275)
    assert "▁wo" in tokenizer.pieces(range(len(tokenizer)))
    assert "ß" in "".join(tokenizer.pieces(range(len(tokenizer))))


@pytest.mark.parametrize(
    ("kind", "size", "problem"),
    [("bpe", 8000, "yields at most"), ("unigram", 8000, "yields at most"), ("bpe", 100, "needs")],
)
def test_impossible_vocabulary_is_rejected_with_the_nearest_possible_size(kind: str, size: int, problem: str) -> None:
    with pytest.raises(UserError, match=rf"^tokenizer\.vocab_size={size}: .* {problem} \d+ pieces; ") as caught:
        Tokenizer.train(SENTENCES, vocab_size=size, kind=kind)
    limit = int(re.findall(r"\d+", str(caught.value))[-1])
    assert len(Tokenizer.train(SENTENCES, vocab_size=limit, kind=kind)) == limit


@pytest.mark.parametrize("sentences", [[], [""], ["  ", "\t"]])
def test_training_text_without_words_is_rejected(sentences: list[str]) -> None:
    with pytest.raises(UserError, match="no words"):
        Tokenizer.train(sentences, vocab_size=300)


@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 310, "byte_fallback": True},  # the default: unk, bos, eos = 0, 1, 2, no pad
        {"vocab_size": 310, "byte_fallback": True, "pad_id": 3},
        {"vocab_size": 310, "byte_fallback": True, "eos_id": 0, "unk_id": 7, "bos_id": 300, "pad_id": 290},
        {"vocab_size": 310, "byte_fallback": True, "bos_id": -1, "eos_id": -1},
        {"vocab_size": 310, "byte_fallback": True, "user_defined_symbols": ["<2de>"]},
        {"vocab_size": 60, "byte_fallback": False},
    ],
)
def test_a_model_from_a_file_gets_our_special_ids(options: dict[str, object]) -> None:
    tokenizer = train_sentencepiece(SENTENCES, **options)
    reference = sentencepiece.SentencePieceProcessor()
    reference.LoadFromSerializedProto(tokenizer.to_bytes())
    present = [i for i in (reference.pad_id(), reference.bos_id(), reference.eos_id()) if i >= 0]
    assert len(tokenizer) == reference.get_piece_size() - len(present) - 1 + 4
    assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(set(tokenizer.pieces(range(len(tokenizer))))) == len(tokenizer)
    for text in SENTENCES[:4]:
        ids = tokenizer.encode(text)
        assert min(ids) > EOS
        assert tokenizer.pieces(ids) == reference.encode(text, out_type=str)
        assert tokenizer.decode(ids) == text
        assert tokenizer.spans(text)[-1][1] == len(text.rstrip())


@pytest.mark.parametrize(("old", "new"), [("ä".encode(), b"\xc3\xc3"), (b"<0x41>", b"<0xZZ>")])
def test_a_damaged_piece_is_rejected(old: bytes, new: bytes) -> None:
    model = Tokenizer.train(["ein ä"], vocab_size=266).to_bytes()
    assert model.count(old) == 1
    with pytest.raises(UserError, match="mine: not a SentencePiece model"):
        Tokenizer(model.replace(old, new), "mine")


@pytest.mark.parametrize("content", [b"", b"no model", bytes(1000), "größe".encode() * 50])
def test_a_file_that_is_not_a_model_is_rejected(tmp_path, content: bytes) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "spm.model"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"spm\.model: not a SentencePiece model"):
        Tokenizer.from_file(path)
    with pytest.raises(UserError, match=r"absent\.model: No such file"):
        Tokenizer.from_file(tmp_path / "absent.model")


FORMS = ["ﬁne １２３", "Ｚwei Hunde", "e\u0301te\u0301", "①", "ｶﾞ", "x²"]


def test_normalised_text_has_the_pieces_of_its_normal_form() -> None:
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=300, normalisation="nfkc")
    plain = Tokenizer.train(SENTENCES, vocab_size=300)
    for text in [*FORMS, *SENTENCES]:
        normal = unicodedata.normalize("NFKC", text)
        assert tokenizer.encode(text) == tokenizer.encode(normal)
        assert tokenizer.decode(tokenizer.encode(text)) == normal
        assert plain.decode(plain.encode(text)) == text
