"""A corpus returns what was written, counts what was dropped, and is read without copies."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nmt.text.corpus
from nmt.data.filters import TEST_FILTERS, Filters
from nmt.data.links import Links
from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.files import atomic
from nmt.text.corpus import FORMAT, FORMAT_KEY, SCHEMA, Corpus, write_corpus
from nmt.text.tokenizer import Tokenizer

SENTENCE = "a man in blue shirt two dogs run through deep snow ein Mann läuft"
WORDS = SENTENCE.split()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([SENTENCE] * 9, vocab_size=300)


def random_pairs(count: int) -> list[Pair]:
    generator = random.Random(5)

    def sentence() -> str:
        return " ".join(generator.choices(WORDS, k=generator.randrange(1, 9)))

    def links(number: int) -> tuple[tuple[int, int], ...]:
        return tuple((generator.randrange(9), generator.randrange(9)) for _ in range(number))

    return [Pair(sentence(), sentence(), links(row % 3), links(row % 4)) for row in range(count)]


def gold(pair: Pair) -> Links:
    assert pair.links is not None
    return Links(frozenset(pair.links), frozenset(pair.links + pair.possible))


def test_a_written_corpus_is_read_back(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.text.corpus, "ROWS_PER_WRITE", 7)  # many record batches
    pairs = random_pairs(50)
    counts = write_corpus(tmp_path / "c.arrow", iter(pairs), tokenizer, tokenizer)
    corpus = Corpus.open(tmp_path / "c.arrow")
    assert len(corpus) == counts.kept == counts.total == 50
    for row, pair in enumerate(pairs):
        source, target = corpus.ids(row)
        assert source.tolist() == tokenizer.encode(pair.source)
        assert target.tolist() == tokenizer.encode(pair.target)
        assert (corpus.source_lengths[row], corpus.target_lengths[row]) == (len(source), len(target))
    assert corpus.source_lengths.dtype == np.int32
    assert corpus.source_lengths.sum() == counts.source_pieces
    assert corpus.target_lengths.sum() == counts.target_pieces
    assert corpus.sources() == [pair.source for pair in pairs]
    assert corpus.targets() == [pair.target for pair in pairs]
    assert corpus.links() == [gold(pair) for pair in pairs]
    assert [p.name for p in tmp_path.iterdir()] == ["c.arrow"]


@pytest.mark.thorough
@pytest.mark.parametrize("mapped", [True, False])
def test_reading_copies_at_most_the_file(
    tmp_path: Path, tokenizer: Tokenizer, mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nmt.text.corpus, "MAPPED_BYTES", 0 if mapped else 1 << 30)
    write_corpus(tmp_path / "c.arrow", random_pairs(20_000), tokenizer, tokenizer)
    before = pa.total_allocated_bytes()
    corpus = Corpus.open(tmp_path / "c.arrow")
    assert all(corpus.ids(row)[0].base is not None for row in range(0, 20_000, 999))
    size = 0 if mapped else (tmp_path / "c.arrow").stat().st_size
    assert pa.total_allocated_bytes() - before < size + 64 * 1024


def test_dropped_pairs_are_counted_by_reason(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs = [
        Pair("a man", "ein Mann"),
        Pair(" ", "ein"),
        Pair("a", ""),
        Pair("a", "  \t"),
        Pair("man " * 90, "Mann " * 90),
        Pair("a", "a a a a"),
        Pair("a", "a a a"),
    ]
    counts = write_corpus(tmp_path / "c.arrow", pairs, tokenizer, tokenizer, Filters(max_length=80, max_ratio=3))
    assert counts.kept == 2
    assert counts.dropped == {
        "empty source": 1,
        "empty target": 2,
        "longer than 80 pieces": 1,
        "length ratio over 3": 1,
    }
    first, second, *_ = counts.lines()
    assert first.startswith("2 of 7 pairs kept") and second == "2 dropped: empty target"
    assert Corpus.open(tmp_path / "c.arrow").sources() == ["a man", "a"]
    assert Corpus.open(tmp_path / "c.arrow").links() is None


def test_empty_sides_are_kept_on_request(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs = [Pair("", "ein Mann", ()), Pair("a", " ", ()), Pair("man " * 9, "a", ((8, 0),), ((7, 0),))]
    counts = write_corpus(tmp_path / "c.arrow", pairs, tokenizer, tokenizer, TEST_FILTERS)
    corpus = Corpus.open(tmp_path / "c.arrow")
    assert counts.kept == len(corpus) == 3
    assert corpus.ids(0)[0].tolist() == corpus.ids(1)[1].tolist() == []
    assert corpus.sources() == ["", "a", "man " * 9]
    assert corpus.links() == [gold(pair) for pair in pairs]


def test_an_empty_corpus_is_rejected_and_not_written(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match=r"0 of 3 pairs kept \(2 empty source, 1 longer than 1 piece\)"):
        pairs = [Pair("", "a"), Pair("", ""), Pair("a man", "a")]
        write_corpus(tmp_path / "c.arrow", pairs, tokenizer, tokenizer, Filters(max_length=1))
    with pytest.raises(UserError, match="no pairs were given"):
        write_corpus(tmp_path / "c.arrow", [], tokenizer, tokenizer)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def on_full_disk(path: str, **_: Any) -> Iterator[Any]:
        with atomic.replace_file("/dev/full") as stream:
            yield stream

    monkeypatch.setattr("nmt.text.corpus.replace_file", on_full_disk)
    with pytest.raises(UserError, match=r"^/dev/full: cannot write: No space left on device;"):
        write_corpus("train.arrow", random_pairs(20_000), tokenizer, tokenizer)


def formatted(path: Path, version: int) -> None:
    schema = SCHEMA.remove(SCHEMA.get_field_index("possible")) if version == 1 else SCHEMA
    with pa.ipc.new_file(str(path), schema.with_metadata({FORMAT_KEY: str(version).encode()})):
        pass


def unversioned(path: Path) -> None:
    with pa.ipc.new_file(str(path), pa.schema({"x": pa.int32()})):
        pass


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: path.unlink(), "no such corpus"),
        (lambda path: path.write_bytes(b"hello\n" * 99), "not a corpus"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "not a corpus"),
        (unversioned, "no valid format version"),
        (lambda path: formatted(path, FORMAT - 1), "format .*; prepare the corpus again with nmt-prepare$"),
        (lambda path: formatted(path, FORMAT + 1), "format .*; update the toolkit$"),
    ],
)
def test_a_file_that_is_not_a_corpus_is_rejected(
    tmp_path: Path, tokenizer: Tokenizer, damage: Callable[[Path], object], problem: str
) -> None:
    write_corpus(tmp_path / "c.arrow", random_pairs(3), tokenizer, tokenizer)
    damage(tmp_path / "c.arrow")
    with pytest.raises(UserError, match=f"^{tmp_path}/c.arrow: {problem}"):
        Corpus.open(tmp_path / "c.arrow")
