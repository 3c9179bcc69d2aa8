from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from toy import ToyEngine, forced_weights, ragged_sources

from nmt.search import SearchOptions, search, search_all
from nmt.search.search import batches_by_length
from nmt.text.specials import EOS

METHODS = {
    "greedy": SearchOptions(beam_size=1),
    "beam": SearchOptions(beam_size=4, n_best=3),
    "sample": SearchOptions(temperature=0.8, top_k=5, n_best=3),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_is_each_sentence_alone_in_any_order(method: str) -> None:
    engine, sources, options = ToyEngine(pieces=8, seed=1), ragged_sources(1, 15), METHODS[method]
    together = search(engine, sources, options)
    assert together == [search(engine, [source], options)[0] for source in sources]
    order = np.random.default_rng(0).permutation(len(sources)).tolist()
    assert search(engine, [sources[row] for row in order], options) == [together[row] for row in order]


@pytest.mark.parametrize("method", METHODS)
def test_sentences_that_end_leave_once_and_for_good(method: str) -> None:
    engine, sources = ToyEngine(pieces=8, seed=1), ragged_sources(1, 15)
    search(engine, sources, METHODS[method])
    assert engine.dropped and max(Counter(engine.dropped).values()) == 1
    for before, after in zip(engine.steps, engine.steps[1:], strict=False):
        assert [one for one in before if one in after] == list(after)
    # Those that ended together with the last one needed no drop.
    assert sorted(engine.dropped + list(engine.steps[-1])) == sorted(map(tuple, sources))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("max_length", [1, 3, None])
def test_kept_weights_are_those_that_each_token_was_predicted_from(method: str, max_length: int | None) -> None:
    engine, sources = ToyEngine(pieces=8, seed=3), ragged_sources(2, 15)
    options = replace(METHODS[method], max_length=max_length)
    kept = search(engine, sources, replace(options, keep_weights=True))
    for source, found in zip(sources, kept, strict=True):
        for one in found:
            truth = forced_weights(engine, source, one.tokens, finished=one.finished)
            assert one.alignment is not None and one.weights is not None
            assert one.weights.shape == (len(truth), max(map(len, sources)))
            np.testing.assert_array_equal(one.alignment, truth.astype(np.float32))
    plain = search(engine, sources, options)
    assert plain == [[one._replace(weights=None, alignment=None) for one in found] for found in kept]


@pytest.mark.parametrize("method", METHODS)
def test_search_all_restores_the_order(method: str) -> None:
    engine, sources, options = ToyEngine(pieces=8, seed=6), ragged_sources(9, 40), METHODS[method]
    assert len(batches_by_length([len(ids) for ids in sources], max_tokens=20)) > 5
    assert search_all(engine, sources, options, max_tokens=20) == search(engine, sources, options)


def test_batches_hold_every_row_once_within_the_budget() -> None:
    lengths = np.random.default_rng(0).integers(1, 30, size=200).tolist()
    batches = batches_by_length(lengths, max_tokens=64)
    assert sorted(row for batch in batches for row in batch) == list(range(200))
    assert all(len(batch) * max(lengths[row] for row in batch) <= 64 for batch in batches)
    assert batches_by_length([100, 3], max_tokens=10) == [[0], [1]]
    assert batches_by_length([], max_tokens=10) == []


def test_nothing_in_nothing_out_and_an_empty_source_is_refused() -> None:
    engine = ToyEngine()
    assert search(engine, [], SearchOptions()) == []
    assert search_all(engine, [], SearchOptions()) == []
    with pytest.raises(ValueError, match="source 1 is empty"):
        search(engine, [[EOS], []], SearchOptions())
