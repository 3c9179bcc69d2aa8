"""BPE-dropout changes the pieces and never the text, and batches stay within their budget."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from small_text import prepared_text, random_pairs

from nmt.errors import UserError
from nmt.text.batches import BatchPlan, collate
from nmt.text.prepare import Prepared
from nmt.text.sampled import sampled_pieces
from nmt.text.specials import EOS


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder: Path = tmp_path_factory.mktemp("sampled") / "data"
    return prepared_text(folder, random_pairs(200))


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.99])
def test_text_and_budget_stay(prepared: Prepared, dropout: float) -> None:
    corpus = prepared.corpora["train"]
    pieces = sampled_pieces(prepared, dropout, max_tokens=300)
    assert pieces is not None
    longest, _ = corpus.longest_source()
    plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, max_tokens=300, growth=pieces.growth)
    changed = Counter[bool]()
    for rows in plan.batches(0):
        batch = collate(pieces, rows)
        assert len(rows) == 1 or max(batch.source.numel(), batch.target_out.numel()) <= 300
        assert batch.source.shape[1] <= longest + 1
        for number, row in enumerate(rows):
            sides = [ids[number].tolist() for ids in (batch.source, batch.target_out)]
            sides = [ids[: ids.index(EOS)] for ids in sides]
            assert tuple(map(prepared.source.decode, sides)) == corpus.texts(row)
            changed[sides[0] != corpus.ids(row)[0].tolist()] += 1
    assert changed[True] > changed[False]


def test_every_reading_draws_other_pieces(prepared: Prepared) -> None:
    pieces = sampled_pieces(prepared, 0.3, max_tokens=10_000)
    assert pieces is not None
    first, second = ([ids.tolist() for pair in pieces.batch(range(50)) for ids in pair] for _ in range(2))
    assert first != second


def test_pieces_without_merges_are_refused(prepared: Prepared) -> None:
    assert sampled_pieces(prepared, None, max_tokens=9) is None
    unigram = replace(prepared, tokenizer=replace(prepared.tokenizer, kind="unigram"))
    with pytest.raises(UserError, match=r"^batches\.bpe_dropout=0\.1: "):
        sampled_pieces(unigram, 0.1, max_tokens=9)
