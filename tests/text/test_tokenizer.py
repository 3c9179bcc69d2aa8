"""The tokenizer loses no text when it encodes and decodes, and ids 0–3 are the specials for every model."""

from __future__ import annotations

import io
import pickle
import random

import pytest
import sentencepiece

from nmt.errors import UserError
from nmt.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

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


def spm_train(**options: object) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES), model_writer=model, model_type="bpe", minloglevel=2, **options
    )
    return model.getvalue()


@pytest.mark.parametrize("text", HARD)
def test_hard_text_is_decoded_with_single_spaces(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())


def test_random_text_is_decoded_and_split_into_its_words(tokenizer: Tokenizer) -> None:
    generator = random.Random(3)
    alphabet = "abdeimnrst  ..ßü▁\t\x00é😀日\u2028\u00a0\u0301"
    for _ in range(500):
        text = "".join(generator.choices(alphabet, k=generator.randrange(30)))
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == " ".join(text.split())
        words = tokenizer.decoded_words(ids)
        assert sorted(set(words)) == list(range(len(text.split())))
        for index, word in enumerate(text.split()):
            pieces = [i for i, word_index in zip(ids, words, strict=True) if word_index == index]
            assert tokenizer.decode(pieces) == word


def test_words_of_random_ids_are_the_words_of_their_text(tokenizer: Tokenizer) -> None:
    # A model may generate double spaces, incomplete characters, whitespace in bytes, or trailing spaces.
    generator = random.Random(4)
    spaces = [tokenizer.encode("a b")[0]] + [tokenizer.pieces(range(310)).index(piece) for piece in ("▁", "<0x0A>")]
    nbsp = [tokenizer.pieces(range(310)).index(piece) for piece in ("<0xC2>", "<0xA0>")]
    for _ in range(500):
        ids: list[int] = []
        for _ in range(generator.randrange(1, 12)):
            ids += generator.choice([[generator.choice(spaces)], nbsp, [generator.randrange(4, 310)]])
        words, text = tokenizer.decoded_words(ids), tokenizer.decode(ids)
        assert len(words) == len(ids)
        assert words == sorted(words)
        if text:
            assert sorted(set(words)) == list(range(len(text.split()))), tokenizer.pieces(ids)
        assert "\n" not in text


def test_specials_belong_to_no_word_and_are_not_decoded(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("two dogs")
    words = tokenizer.decoded_words([BOS, *ids, EOS, PAD])
    assert words == [-1, *tokenizer.decoded_words(ids), -1, -1]
    assert tokenizer.decoded_words([UNK]) == [-1]
    assert tokenizer.decoded_words([]) == tokenizer.words("") == []
    assert tokenizer.decode([BOS, *ids, UNK, EOS, PAD]) == "two dogs"


def test_unsupported_characters_become_the_replacement_character(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a \ud800b")) == "a \ufffdb"
    for text in ("\U0010ffff", "a\U0010ffffb", "\U0010ffff▁ c\U0010ffff", "▁ \U0010ffff\ud800"):
        expected = text.replace("\U0010ffff", "\ufffd").replace("\ud800", "\ufffd")
        assert tokenizer.decode(tokenizer.encode(text)) == expected


def test_size_pieces_and_serialization(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) == 310
    assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    ids = tokenizer.encode(SENTENCES[2])
    assert "".join(tokenizer.pieces(ids)).replace("▁", " ").strip() == SENTENCES[2]
    for copy in (Tokenizer.from_bytes(tokenizer.to_bytes()), pickle.loads(pickle.dumps(tokenizer))):
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


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_large_vocabulary_is_rejected_with_the_largest_size(kind: str) -> None:
    with pytest.raises(UserError, match=r"^tokenizer\.vocab_size=8000: .* at most (\d+) pieces") as caught:
        Tokenizer.train(SENTENCES, vocab_size=8000, kind=kind)
    largest = int(str(caught.value).split("at most ")[1].split()[0])
    assert len(Tokenizer.train(SENTENCES, vocab_size=largest, kind=kind)) == largest


def test_too_small_vocabulary_is_rejected_with_the_smallest_size() -> None:
    with pytest.raises(UserError, match=r"^tokenizer\.vocab_size=100: .* need (\d+) pieces") as caught:
        Tokenizer.train(SENTENCES, vocab_size=100)
    smallest = int(str(caught.value).split("need ")[1].split()[0])
    assert len(Tokenizer.train(SENTENCES, vocab_size=smallest)) == smallest


@pytest.mark.parametrize("sentences", [[], [""], ["  ", "\t"]])
def test_training_text_without_words_is_rejected(sentences: list[str]) -> None:
    with pytest.raises(UserError, match="no words"):
        Tokenizer.train(sentences, vocab_size=300)


def test_an_error_of_the_sentence_iterator_reaches_the_caller() -> None:
    def failing() -> object:
        yield "a b"
        raise UserError("corpus.en:2: invalid UTF-8")

    with pytest.raises(UserError, match=r"^corpus\.en:2"):
        Tokenizer.train(failing(), vocab_size=300)  # type: ignore[arg-type]


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
    serialized = spm_train(**options)
    tokenizer = Tokenizer.from_bytes(serialized)
    reference = sentencepiece.SentencePieceProcessor()
    reference.LoadFromSerializedProto(serialized)
    present = [i for i in (reference.pad_id(), reference.bos_id(), reference.eos_id()) if i >= 0]
    assert len(tokenizer) == reference.get_piece_size() - len(present) - 1 + 4
    assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(set(tokenizer.pieces(range(len(tokenizer))))) == len(tokenizer)
    for text in SENTENCES[:4]:
        ids = tokenizer.encode(text)
        assert min(ids) > EOS
        assert tokenizer.pieces(ids) == reference.encode(text, out_type=str)
        assert tokenizer.decode(ids) == text
        assert tokenizer.words(text)[-1] == len(text.split()) - 1


def test_a_model_without_byte_fallback_loses_unknown_characters() -> None:
    tokenizer = Tokenizer.from_bytes(spm_train(vocab_size=60))
    ids = tokenizer.encode("dogs Ω snow")
    assert UNK in ids
    assert sorted(set(tokenizer.words("dogs Ω snow"))) == [0, 1, 2]
    assert tokenizer.decode(ids) == "dogs snow"


def test_words_are_correct_if_the_model_marks_spaces_as_suffixes() -> None:
    tokenizer = Tokenizer.from_bytes(spm_train(vocab_size=70, treat_whitespace_as_suffix=True))
    ids = tokenizer.encode("two dogs run")
    for index, word in enumerate(["two", "dogs", "run"]):
        pieces = [i for i, word_index in zip(ids, tokenizer.words("two dogs run"), strict=True) if word_index == index]
        assert tokenizer.decode(pieces) == word


@pytest.mark.parametrize(("old", "new"), [("ä".encode(), b"\xc3\xc3"), (b"<0x41>", b"<0xZZ>")])
def test_a_damaged_piece_is_rejected(old: bytes, new: bytes) -> None:
    model = Tokenizer.train(["ein ä"], vocab_size=266).to_bytes()
    assert model.count(old) == 1
    with pytest.raises(UserError, match="mine: not a SentencePiece model"):
        Tokenizer.from_bytes(model.replace(old, new), "mine")


@pytest.mark.parametrize("content", [b"", b"no model", bytes(1000), "größe".encode() * 50])
def test_a_file_that_is_not_a_model_is_rejected(tmp_path, content: bytes) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "spm.model"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"spm\.model: not a SentencePiece model"):
        Tokenizer.from_file(path)
    with pytest.raises(UserError, match=r"absent\.model: No such file"):
        Tokenizer.from_file(tmp_path / "absent.model")
