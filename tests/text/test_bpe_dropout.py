"""BPE-dropout: the merges of SentencePiece, each skipped with the given probability, and the same in every process."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from tokenizer_kinds import train_sentencepiece

from nmt.text import bpe_dropout
from nmt.text.bpe_dropout import BpeMerges
from nmt.text.tokenizer import UNK, Tokenizer

SENTENCES = [
    "a man in a blue shirt is standing on a ladder .",
    "two dogs are running through the deep snow .",
    "ein Mann läuft über die Straße , während es regnet .",
    "die Kinder spielen mit dem großen Hund im Garten .",
    "两只狗在雪地里奔跑 两只狗在奔跑 一个男人站在梯子上",
] * 5
TEXTS = [
    *SENTENCES[:5],
    "",
    " ",
    "   many   spaces \t here  ",
    "▁a b▁ c▁d ▁▁ the",
    "emoji 😀👩‍👩‍👧 fin",
    "nul \x00 here",
    "<sep>ein Mann<sep> <sep> spielen<s> </s><sep><sep>",
    "两只狗在雪地里奔跑一个男人站在梯子上两只狗在奔跑",
    "qzqz xyx Ω die ΩΩ Kinder",
    "ﬁ Ａ ½ \ufeffmark",
    "<unk> <pad> <0x41> ⁇",
    "Kinderspielenmitdemgroßen" * 20,
]


def train_directly(*, byte_fallback: bool = False, vocab_size: int = 180, **options: object) -> Tokenizer:
    vocab_size += 256 * byte_fallback
    return train_sentencepiece(SENTENCES, vocab_size=vocab_size, byte_fallback=byte_fallback, **options)


def with_unused_pieces() -> Tokenizer:
    model = ModelProto.FromString(train_directly().to_bytes())
    for piece in model.pieces:
        if piece.type == piece.NORMAL and len(piece.piece) > 1 and sum(map(ord, piece.piece)) % 3 == 0:
            piece.type = piece.UNUSED
    return Tokenizer(model.SerializeToString())


MODELS: dict[str, Callable[[], Tokenizer]] = {
    "ordinary": lambda: Tokenizer.train(SENTENCES, vocab_size=450),
    "nfkc": lambda: Tokenizer.train(SENTENCES, vocab_size=450, normalisation="nfkc"),
    "low character coverage": lambda: Tokenizer.train(SENTENCES, vocab_size=360, character_coverage=0.98),
    "without bytes": train_directly,
    "without bytes, low character coverage": lambda: train_directly(character_coverage=0.98, vocab_size=120),
    "symbols": lambda: train_directly(user_defined_symbols=["<sep>", "<sep><sep>", "pie", "ein", "狗"]),
    "symbols and bytes": lambda: train_directly(byte_fallback=True, user_defined_symbols=["<sep>", "Ω", "▁d"]),
    "spaces behind words": lambda: train_directly(treat_whitespace_as_suffix=True),
    "pieces of several words": lambda: train_directly(split_by_whitespace=False, vocab_size=250),
    "unused pieces": with_unused_pieces,
}


@pytest.fixture(scope="module", params=MODELS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def ordinary() -> Tokenizer:
    return MODELS["ordinary"]()


def test_without_dropout_the_pieces_are_those_of_encode(tokenizer: Tokenizer) -> None:
    random = Random(2)
    alphabet = "aeinrdst  .▁ß😀狗两雪Ω\x00"
    some = ["".join(random.choices(alphabet, k=random.randrange(40))) for _ in range(300)]
    words = [" ".join(random.choices(" ".join(SENTENCES).split(), k=8)) for _ in range(100)]
    for text in [*TEXTS, *some, *words]:
        expected = tokenizer.encode(text)
        assert tokenizer.sample(text, dropout=0, seed=1) == expected  # stores the words
        assert tokenizer.sample(text, dropout=0, seed=1) == expected  # finds them


@st.composite
def models(draw: st.DrawFn) -> bytes:
    """Draw a model of random pieces: equal scores, pieces that no merge reaches, unused pieces and symbols."""
    model = ModelProto()
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.byte_fallback = draw(st.booleans())
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.escape_whitespaces = draw(st.booleans())
    model.normalizer_spec.remove_extra_whitespaces = draw(st.booleans())
    piece = ModelProto.SentencePiece
    texts = {"<unk>": piece.UNKNOWN, "<s>": piece.CONTROL}
    if model.trainer_spec.byte_fallback:
        texts |= {f"<0x{byte:02X}>": piece.BYTE for byte in range(256)}
    letters = st.text("ab▁ é", min_size=1, max_size=5)
    merges = st.one_of(letters, letters.map(lambda text: "▁" + text.replace("▁", "a")))
    texts |= dict.fromkeys(draw(st.lists(letters, max_size=2)), piece.USER_DEFINED)
    for text in [*draw(st.permutations("ab▁é"))[1:], *draw(st.lists(merges, max_size=15))]:
        texts.setdefault(text, draw(st.sampled_from([piece.NORMAL] * 5 + [piece.UNUSED])))
    for text, kind in texts.items():
        model.pieces.add(piece=text, type=kind, score=-draw(st.integers(1, 9)))
    return model.SerializeToString()


@pytest.mark.thorough
@given(models(), st.lists(st.text("aab▁ é😀x", max_size=20), min_size=1, max_size=5))
def test_random_models_agree_with_sentencepiece(serialized: bytes, texts: list[str]) -> None:
    model = sentencepiece.SentencePieceProcessor()
    model.LoadFromSerializedProto(serialized)
    merges = BpeMerges(serialized)
    for text in texts:
        normalised = model.normalize(text)
        assert merges.sample(normalised, dropout=0, seed=1) == model.encode(text)
        no_merges = model.encode(text, enable_sampling=True, alpha=1.0, nbest_size=-1)
        assert merges.sample(normalised, dropout=1, seed=1) == no_merges


@pytest.mark.parametrize("dropout", [0.1, 0.6, 1])
def test_samples_decode_to_the_text_of_encode(tokenizer: Tokenizer, dropout: float) -> None:
    for text, seed in itertools.product(TEXTS, range(5)):
        ids = tokenizer.sample(text, dropout=dropout, seed=seed)
        assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(text))
        assert ids.count(UNK) == tokenizer.encode(text).count(UNK)


def merge_naively(word: str, scores: dict[str, float], skip: Callable[[], bool]) -> tuple[str, ...]:
    """Apply the merges one by one, and look at all pairs each time. ``skip`` decides about each candidate."""
    symbols = list(enumerate(word))  # start and text
    skipped = []
    while True:
        pairs = [(left, right) for left, right in itertools.pairwise(symbols) if left[1] + right[1] in scores]
        pairs = [pair for pair in pairs if pair not in skipped]
        if not pairs:
            return tuple(text for _, text in symbols)
        left, right = min(pairs, key=lambda pair: (-scores[pair[0][1] + pair[1][1]], pair[0][0]))
        if skip():
            skipped.append((left, right))
        else:
            index = symbols.index(left)
            symbols[index : index + 2] = [(left[0], left[1] + right[1])]


def merge_scores(tokenizer: Tokenizer) -> dict[str, float]:
    model = ModelProto.FromString(tokenizer.to_bytes())
    return {piece.piece: piece.score for piece in model.pieces if piece.type == piece.NORMAL and len(piece.piece) > 1}


def test_unused_pieces_are_split_as_often_as_by_sentencepiece() -> None:
    # SentencePiece splits both "abc" alike: as the pair that could last have become one of them.
    model = ModelProto()
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.normalizer_spec.name = "identity"
    piece = ModelProto.SentencePiece
    kinds = {"<unk>": piece.UNKNOWN, "abc": piece.UNUSED}
    for rank, text in enumerate(["<unk>", "▁", "a", "b", "c", "ab", "bc", "abc"]):
        model.pieces.add(piece=text, type=kinds.get(text, piece.NORMAL), score=-rank)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    merges, count = BpeMerges(model.SerializeToString()), 20_000
    options = {"enable_sampling": True, "alpha": 0.4, "nbest_size": -1}
    expected = Counter(tuple(processor.encode("abc abc", **options)) for _ in range(count))
    counts = Counter(tuple(merges.sample("▁abc▁abc", dropout=0.4, seed=seed)) for seed in range(count))
    assert sum(abs(counts[ids] - expected[ids]) for ids in counts | expected) / 2 / count < 0.03


def test_each_candidate_takes_one_draw_whether_or_not_the_word_is_cached(ordinary: Tokenizer) -> None:
    scores = merge_scores(ordinary)
    for dropout, seed, text in itertools.product((0.05, 0.2, 0.7), range(12), SENTENCES[:5]):
        random = Random(seed).random
        expected: list[str] = []
        for word in text.split():
            expected += merge_naively("▁" + word, scores, lambda: random() < dropout)  # noqa: B023
        assert ordinary.pieces(ordinary.sample(text, dropout=dropout, seed=seed)) == expected


def test_pieces_do_not_depend_on_the_cache(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    def samples(tokenizer: Tokenizer) -> list[list[int]]:
        return [tokenizer.sample(text, dropout=0.3, seed=seed) for seed in range(4) for text in TEXTS]

    expected = [Tokenizer(tokenizer.to_bytes()).sample(text, dropout=0.3, seed=0) for text in TEXTS]
    first = samples(tokenizer)
    assert first[: len(TEXTS)] == expected
    assert samples(tokenizer) == first
    assert samples(pickle.loads(pickle.dumps(tokenizer))) == first
    monkeypatch.setattr(bpe_dropout, "CACHED_RESULTS", 3)
    small = Tokenizer(tokenizer.to_bytes())
    assert samples(small) == first
    assert len(small._merges._cache) <= 3
