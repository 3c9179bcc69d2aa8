from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import log

import numpy as np
import pytest
from search.toy import METHODS, ToyEngine, forced_weights, ragged_sources

from nmt.search.options import SearchOptions
from nmt.search.scoring import coverage_penalty
from nmt.search.search import batches_by_length, search
from nmt.text.specials import EOS


@pytest.mark.parametrize("method", METHODS)
def test_ended_sentences_are_dropped_once(method: str) -> None:
    engine, sources = ToyEngine(pieces=8, seed=1), ragged_sources(1, 15)
    search(engine, sources, METHODS[method])
    # A dropped sentence does not come back.
    assert engine.dropped and max(Counter(engine.dropped).values()) == 1
    for before, after in zip(engine.steps, engine.steps[1:], strict=False):
        assert [sentence for sentence in before if sentence in after] == list(after)
    # Sentences that end in the last step are not dropped.
    assert sorted(engine.dropped + list(engine.steps[-1])) == sorted(map(tuple, sources))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("max_length", [1, 3, None])
def test_kept_weights_belong_to_the_predictions_of_their_tokens(method: str, max_length: int | None) -> None:
    engine, sources = ToyEngine(pieces=8, seed=3), ragged_sources(2, 15)
    options = replace(METHODS[method], max_length=max_length)
    kept = search(engine, sources, replace(options, keep_weights=True))
    for source, hypotheses in zip(sources, kept, strict=True):
        for hypothesis in hypotheses:
            expected = forced_weights(engine, source, hypothesis.tokens, finished=hypothesis.finished)
            assert hypothesis.alignment is not None and hypothesis.weights is not None
            assert hypothesis.weights.shape == (len(expected), max(map(len, sources)))
            np.testing.assert_array_equal(hypothesis.alignment, expected.astype(np.float32))
    plain = search(engine, sources, options)
    assert plain == [[best._replace(weights=None, alignment=None) for best in hypotheses] for hypotheses in kept]


def test_batches_contain_each_row_once_within_the_token_budget() -> None:
    lengths = np.random.default_rng(0).integers(1, 30, size=200).tolist()
    batches = batches_by_length(lengths, max_tokens=64)
    assert sorted(row for batch in batches for row in batch) == list(range(200))
    assert all(len(batch) * max(lengths[row] for row in batch) <= 64 for batch in batches)
    assert batches_by_length([100, 3], max_tokens=10) == [[0], [1]]
    assert batches_by_length([3, 4, 2, 2], max_tokens=64, max_rows=2) == [[1, 0], [2, 3]]
    assert batches_by_length([], max_tokens=10) == []


def test_no_sources_give_no_results_and_an_empty_source_is_rejected() -> None:
    engine = ToyEngine()
    assert search(engine, [], SearchOptions()) == []
    with pytest.raises(ValueError, match="source 1 is empty"):
        search(engine, [[EOS], []], SearchOptions())


def test_early_stop_saves_steps() -> None:
    engine = ToyEngine(pieces=4, seed=2, sharpness=3.0)
    search(engine, [[5, EOS]], SearchOptions(beam_size=3, length_penalty=0.0, max_length=500))
    assert len(engine.steps) < 50


def test_coverage_penalty_computed_by_hand() -> None:
    # Shares by absolute value: the first piece gets 0.5 and 1, the second 0.5, the third nothing.
    alignment = np.array([[1.0, -1.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    expected = 0.2 * (log(1.0) + log(0.5) + log(1e-9))
    assert coverage_penalty(alignment, 0.2) == pytest.approx(expected)
