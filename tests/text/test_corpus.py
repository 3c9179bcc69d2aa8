"""The corpus on disk gives back what was put in, accounts for what was left out, and copies nothing."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nmt.errors import UserError
from nmt.text import corpus as corpus_module
from nmt.text.corpus import Corpus, write_corpus
from nmt.text.pair import Pair
from nmt.text.tokenizer import Tokenizer

SENTENCE = "a man in blue shirt two dogs run through deep snow ein Mann läuft"
WORDS = SENTENCE.split()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([SENTENCE] * 9, vocab_size=300)


def random_pairs(count: int) -> list[Pair]:
    chance = random.Random(5)
    sentence = lambda: " ".join(chance.choices(WORDS, k=chance.randrange(1, 9)))  # noqa: E731
    return [Pair(sentence(), sentence(), ((0, 0),) * (row % 3)) for row in range(count)]


def test_everything_comes_back(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "ROWS_PER_WRITE", 7)  # many record batches
    pairs = random_pairs(50)
    account = write_corpus(tmp_path / "c.arrow", iter(pairs), tokenizer, tokenizer, max_length=None, max_ratio=None)
    corpus = Corpus.open(tmp_path / "c.arrow")
    assert len(corpus) == account.kept == account.total == 50
    for row, pair in enumerate(pairs):
        source, target = corpus.ids(row)
        assert source.tolist() == tokenizer.encode(pair.source)
        assert target.tolist() == tokenizer.encode(pair.target)
        assert (corpus.source_lengths[row], corpus.target_lengths[row]) == (len(source), len(target))
    assert corpus.source_lengths.dtype == np.int32
    assert corpus.source_lengths.sum() == account.source_pieces
    assert corpus.target_lengths.sum() == account.target_pieces
    assert corpus.sources() == [pair.source for pair in pairs]
    assert corpus.targets() == [pair.target for pair in pairs]
    assert corpus.links() == [pair.links for pair in pairs]
    assert [p.name for p in tmp_path.iterdir()] == ["c.arrow"]
    assert pickle.loads(pickle.dumps(corpus)).ids(49)[0].tolist() == corpus.ids(49)[0].tolist()


def test_reading_copies_nothing(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_corpus(tmp_path / "c.arrow", random_pairs(20_000), tokenizer, tokenizer, max_length=None, max_ratio=None)
    before = pa.total_allocated_bytes()
    corpus = Corpus.open(tmp_path / "c.arrow")
    assert all(corpus.ids(row)[0].base is not None for row in range(0, 20_000, 999))
    assert pa.total_allocated_bytes() - before < 64 * 1024


def test_the_account_tells_what_was_dropped_and_why(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs = [
        Pair("a man", "ein Mann"),
        Pair(" ", "ein"),
        Pair("a", ""),
        Pair("a", "  \t"),
        Pair("man " * 90, "Mann " * 90),
        Pair("a", "a a a a"),
        Pair("a", "a a a"),
    ]
    account = write_corpus(tmp_path / "c.arrow", pairs, tokenizer, tokenizer, max_length=80, max_ratio=3)
    assert account.kept == 2
    assert account.dropped == {
        "empty source": 1,
        "empty target": 2,
        "longer than 80 pieces": 1,
        "length ratio over 3": 1,
    }
    assert str(account).splitlines()[0].startswith("2 of 7 pairs kept")
    assert str(account).splitlines()[1] == "2 dropped: empty target"
    assert Corpus.open(tmp_path / "c.arrow").sources() == ["a man", "a"]
    assert Corpus.open(tmp_path / "c.arrow").links() is None


def test_empty_sides_stay_on_request(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs = [Pair("", "ein Mann", ()), Pair("a", " ", ()), Pair("man " * 9, "a", ((8, 0),))]
    account = write_corpus(
        tmp_path / "c.arrow", pairs, tokenizer, tokenizer, max_length=None, max_ratio=None, keep_empty=True
    )
    corpus = Corpus.open(tmp_path / "c.arrow")
    assert account.kept == len(corpus) == 3
    assert corpus.ids(0)[0].tolist() == corpus.ids(1)[1].tolist() == []
    assert corpus.sources() == ["", "a", "man " * 9]
    assert corpus.links() == [(), (), ((8, 0),)]


def test_nothing_left_is_an_error_that_writes_nothing(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match=r"no pair of 3 is left \(2 empty source, 1 longer than 1 pieces\)"):
        pairs = [Pair("", "a"), Pair("", ""), Pair("a man", "a")]
        write_corpus(tmp_path / "c.arrow", pairs, tokenizer, tokenizer, max_length=1, max_ratio=None)
    with pytest.raises(UserError, match="none given"):
        write_corpus(tmp_path / "c.arrow", [], tokenizer, tokenizer, max_length=None, max_ratio=None)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_corpus(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "c.arrow"
    write_corpus(path, random_pairs(3), tokenizer, tokenizer, max_length=None, max_ratio=None)

    def interrupted():  # type: ignore[no-untyped-def]
        yield from random_pairs(10_000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corpus(path, interrupted(), tokenizer, tokenizer, max_length=None, max_ratio=None)
    assert len(Corpus.open(path)) == 3
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_says_so(tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match=r"^/dev/full: cannot write: No space left on device;"):
        write_corpus("/dev/full", random_pairs(20_000), tokenizer, tokenizer, max_length=None, max_ratio=None)


def test_files_that_are_no_corpus(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match=r"absent\.arrow: no such corpus"):
        Corpus.open(tmp_path / "absent.arrow")
    for name, content in {"empty": b"", "text": b"hello\n" * 99}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=f"{name}: not a corpus"):
            Corpus.open(tmp_path / name)
    write_corpus(tmp_path / "whole", random_pairs(3), tokenizer, tokenizer, max_length=None, max_ratio=None)
    (tmp_path / "cut").write_bytes((tmp_path / "whole").read_bytes()[:-100])
    with pytest.raises(UserError, match="cut: not a corpus"):
        Corpus.open(tmp_path / "cut")
    with pa.ipc.new_file(str(tmp_path / "other"), pa.schema({"x": pa.int32()})):
        pass
    with pytest.raises(UserError, match="other: corpus format none"):
        Corpus.open(tmp_path / "other")
