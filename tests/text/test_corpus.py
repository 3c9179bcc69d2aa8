"""A corpus returns what was written, and counts what was dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_text import WORDS, random_pairs

from nmt.data.filters import TEST_FILTERS, Filters
from nmt.data.links import Links, Pair
from nmt.errors import UserError
from nmt.search.options import SearchOptions
from nmt.text import corpus as module
from nmt.text.corpus import Corpus, write_corpus
from nmt.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([" ".join(WORDS)] * 9, vocab_size=300)


def gold(pair: Pair) -> Links:
    assert pair.links is not None
    return Links(frozenset(pair.links), frozenset(pair.links + pair.possible))


def test_a_written_corpus_is_read_back(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_WRITE", 7)  # many record batches
    monkeypatch.setattr(module, "ROWS_IN_MEMORY", 20)
    links = ((0, 2), (3, 1), (2, 0), (1, 1))
    pairs = [
        pair._replace(links=links[: row % 3], possible=links[row % 5 :]) for row, pair in enumerate(random_pairs(50))
    ]
    counts = write_corpus(tmp_path / "c.arrow", iter(pairs), tokenizer, tokenizer)
    corpus = Corpus(tmp_path / "c.arrow")
    assert len(corpus) == counts.kept == counts.total == 50
    for row, pair in enumerate(pairs):
        [(source, target)] = corpus.batch([row])
        assert source.tolist() == tokenizer.encode(pair.source)
        assert target.tolist() == tokenizer.encode(pair.target)
        assert (corpus.source_lengths[row], corpus.target_lengths[row]) == (len(source), len(target))
        assert corpus.texts(row) == pair[:2]
        assert corpus.sure_links(row).tolist() == [list(link) for link in pair.links or ()]
    longest, row = corpus.longest_source()
    assert longest == corpus.source_lengths.max() == corpus.source_lengths[row]
    assert corpus.source_lengths.sum() == counts.source_pieces
    assert corpus.target_lengths.sum() == counts.target_pieces
    assert corpus.sources() == [pair.source for pair in pairs]
    assert corpus.targets() == [pair.target for pair in pairs]
    assert corpus.links() == [gold(pair) for pair in pairs]
    assert [p.name for p in tmp_path.iterdir()] == ["c.arrow"]


def test_length_model_recovers_the_lengths_of_the_text(tmp_path: Path, tokenizer: Tokenizer) -> None:
    draw = np.random.default_rng(1)
    pairs = []
    for _ in range(2000):
        length = int(draw.integers(1, 90))
        target = max(0, round(draw.normal(1.3 * length, (0.7 * length) ** 0.5)))
        pairs.append(Pair(" ".join(["the"] * length), " ".join(["the"] * target)))
    write_corpus(tmp_path / "c.arrow", iter(pairs), tokenizer, tokenizer, Filters(max_length=None))
    corpus = Corpus(tmp_path / "c.arrow")
    lengths = [(len(source) + 1, len(target)) for source, target in map(corpus.ids, range(len(corpus)))]
    ratio = sum(target for _, target in lengths) / sum(source for source, _ in lengths)
    variance = sum((target - ratio * source) ** 2 / source for source, target in lengths) / len(lengths)
    assert corpus.length_model() == pytest.approx((ratio, variance))
    limits = SearchOptions(length_model=corpus.length_model()).limits(np.array([source for source, _ in lengths]))
    assert all(target <= limit for (_, target), limit in zip(lengths, limits.tolist(), strict=True))
    assert limits.max() < 2 * max(source for source, _ in lengths)


def test_several_processes_write_the_same_file(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_PER_WRITE", 9)
    files = [tmp_path / f"{workers}.arrow" for workers in (1, 2)]
    counts = [
        write_corpus(file, random_pairs(80), tokenizer, tokenizer, Filters(max_length=9), workers=workers)
        for workers, file in enumerate(files, 1)
    ]
    assert counts[0] == counts[1] and files[0].read_bytes() == files[1].read_bytes()


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
    reasons = ["empty source", "empty target", "longer than 80 pieces", "length ratio over 3"]
    assert counts.dropped == dict(zip(reasons, (1, 2, 1, 1), strict=True))
    assert Corpus(tmp_path / "c.arrow").sources() == ["a man", "a"]
    assert Corpus(tmp_path / "c.arrow").links() is None


def test_a_test_set_keeps_empty_sides(tmp_path: Path, tokenizer: Tokenizer) -> None:
    pairs = [Pair("", "ein Mann", ()), Pair("a", " ", ()), Pair("man " * 9, "a", ((8, 0),), ((7, 0),))]
    counts = write_corpus(tmp_path / "c.arrow", pairs, tokenizer, tokenizer, TEST_FILTERS)
    corpus = Corpus(tmp_path / "c.arrow")
    assert counts.kept == len(corpus) == 3 and counts.empty == 2
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


@pytest.mark.parametrize("content", [None, b"", b"hello\n" * 99, "half", "columns"])
def test_a_file_that_is_not_a_corpus_is_rejected(tmp_path: Path, tokenizer: Tokenizer, content: Any) -> None:
    path = tmp_path / "c.arrow"
    write_corpus(path, random_pairs(3), tokenizer, tokenizer)
    if content == "columns":
        with pa.ipc.new_file(str(path), pa.schema({"x": pa.int32()})):
            pass
    elif content is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-100] if content == "half" else content)
    with pytest.raises(UserError, match=f"^{path}: not a corpus"):
        Corpus(path)
