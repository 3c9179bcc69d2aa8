"""BPE-dropout changes the pieces and never the text, and depends on seed, epoch and row only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sharded import in_shards, random_pairs

from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.text.prepare import Prepared
from nmt.text.sampled import SampledPieces, sampled_pieces
from nmt.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder: Path = tmp_path_factory.mktemp("sampled") / "data"
    return in_shards(folder, random_pairs(90), size=25)


def test_pieces_depend_on_seed_epoch_and_row_only(prepared: Prepared) -> None:
    rows = range(len(prepared.corpora["train"]))

    def epoch(seed: int, number: int, order: list[int] | range = rows) -> dict[int, list[list[int]]]:
        pieces = sampled_pieces(prepared, 0.3, seed=seed)
        assert pieces is not None
        pieces.set_epoch(number)
        return {row: [side.tolist() for side in pieces.ids(row)] for row in order}

    shuffled = np.random.default_rng(0).permutation(len(rows)).tolist()
    first = epoch(1, 0)
    assert first == epoch(1, 0, shuffled)
    assert first != epoch(1, 1)
    assert first != epoch(2, 0)
    for row, sides in first.items():
        assert tuple(map(prepared.source.decode, sides)) == prepared.corpora["train"].texts(row)


def test_both_sides_have_their_own_draws(tmp_path: Path) -> None:
    pairs = [Pair(pair.source, pair.source) for pair in random_pairs(60)]
    corpus = (prepared := in_shards(tmp_path / "data", pairs, size=100)).corpora["train"]
    pieces = SampledPieces(corpus, prepared.source, prepared.target, dropout=0.5, seed=1)
    sides = [[side.tolist() for side in pieces.ids(row)] for row in range(len(corpus)) if len(corpus.ids(row)[0]) > 5]
    assert len(sides) > 10 and sum(source != target for source, target in sides) > len(sides) / 2


def test_a_sampled_source_is_not_longer_than_the_longest_of_the_corpus(prepared: Prepared) -> None:
    corpus = prepared.corpora["train"]
    longest, longest_row = corpus.longest_source()
    pieces = SampledPieces(corpus, prepared.source, prepared.target, dropout=0.99, seed=1)
    sources = [pieces.ids(row)[0] for row in range(len(corpus))]
    assert max(map(len, sources)) <= longest
    assert sources[longest_row].tolist() == corpus.ids(longest_row)[0].tolist()


def test_pieces_without_merges_are_refused(prepared: Prepared) -> None:
    assert sampled_pieces(prepared, None, seed=1) is None
    unigram = replace(prepared, tokenizer=replace(prepared.tokenizer, kind="unigram"))
    with pytest.raises(UserError, match=r"^batches\.bpe_dropout=0\.1: the text has unigram pieces"):
        sampled_pieces(unigram, 0.1, seed=1)
    given_model = Tokenizer.train(["a man in a blue shirt"] * 5, vocab_size=274, kind="unigram")
    with pytest.raises(UserError, match=r"^batches\.bpe_dropout: unigram pieces have no merges"):
        sampled_pieces(replace(prepared, target=given_model), 0.1, seed=1)
