from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from search.toy import METHODS, ToyEngine, ToyState, forced_log_prob, ragged_sources

from nmt.errors import UserError
from nmt.search.engine import Floats, Integers
from nmt.search.options import SearchOptions
from nmt.search.search import search
from nmt.text.specials import EOS


class Broken(ToyEngine):
    """An engine whose log-probabilities are all ``value`` if the source starts with 13, from step ``since`` on."""

    def __init__(self, *, value: float, since: int) -> None:
        super().__init__(pieces=8, seed=8)
        self.value, self.since = value, since

    def step(self, state: ToyState, *arguments: Any) -> tuple[ToyState, Floats, Integers, Floats]:
        time = len(state.prefixes[0][0])
        state, log_probs, ids, weights = super().step(state, *arguments)
        if time >= self.since:
            log_probs[[sentence[0] == 13 for sentence in state.sentences]] = self.value
        return state, log_probs, ids, weights


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("since", [0, 2])
def test_sentence_without_finite_numbers_does_not_change_others(method: str, value: float, since: int) -> None:
    engine, sources = Broken(value=value, since=since), ragged_sources(1, 6)
    mixed = [[13, 6, EOS], *sources, [13, EOS]]
    results = search(engine, mixed, METHODS[method])
    assert results[1:-1] == search(engine, sources, METHODS[method])
    for source, hypotheses in [(mixed[0], results[0]), (mixed[-1], results[-1])]:
        assert since or not hypotheses  # an empty hypothesis would look like an empty translation
        for hypothesis in hypotheses:
            assert hypothesis.finished and len(hypothesis.tokens) < since
            expected = forced_log_prob(engine, source, hypothesis.tokens, finished=hypothesis.finished)
            assert hypothesis.log_prob == pytest.approx(expected) and np.isfinite(hypothesis.score)


@pytest.mark.parametrize("top_p", [None, 0.9, 0.6, 0.1])
def test_samples_follow_the_distribution_and_the_seed(top_p: float | None) -> None:
    engine, source = ToyEngine(pieces=2, seed=5), [9, 4, EOS]
    options = SearchOptions(temperature=2.0, top_p=top_p, n_best=4000, min_length=0, max_length=1, seed=3)
    [samples] = search(engine, [source], options)
    assert [samples] == search(engine, [source], options)
    first = np.array([sample.tokens[0] if sample.tokens else EOS for sample in samples])
    tempered = np.exp(engine.predict(tuple(source), (2,))[0][3:] / 2.0)
    tempered /= tempered.sum()
    kept = [sum(tempered[tempered > probability]) < (top_p or 1.0) for probability in tempered]  # likelier ones
    expected = np.where(kept, tempered, 0) / tempered[kept].sum()
    frequencies = np.array([(first == piece).mean() for piece in (EOS, 4, 5)])
    np.testing.assert_allclose(frequencies, expected, atol=0.03)
    assert not (frequencies > 0)[~np.array(kept)].any()
    for sample in samples[::500]:
        log_prob = forced_log_prob(engine, source, sample.tokens, finished=sample.finished)
        assert sample.log_prob == pytest.approx(log_prob)


@pytest.mark.parametrize("likeliest", [{"top_k": 1}, {"top_p": 0.0001}])
def test_sampling_the_likeliest_piece_is_greedy(likeliest: dict[str, Any]) -> None:
    engine, sources = ToyEngine(pieces=8, seed=5), ragged_sources(4, 10)
    greedy = search(engine, sources, SearchOptions(beam_size=1))
    assert search(engine, sources, SearchOptions(temperature=5.0, **likeliest)) == greedy


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [12, 30, 1000]),
        ({"length_model": (1.5, 0)}, [12, 25, 760]),  # 1.5 S + 10, rounded up
        ({"length_model": (0.5, 4)}, [19, 41, 439]),  # 0.5 S + 8 √S + 10, rounded up
        ({"length_model": (0.5, 4), "max_length": 20}, [20, 20, 20]),
        ({"length_model": (0.5, 4), "max_length_ratio": 1.1}, [2, 11, 550]),
        ({"max_length_ratio": 1.1}, [2, 11, 550]),
        ({"max_length_ratio": 3.0}, [3, 30, 1000]),
        ({"max_length_ratio": 1.1, "max_length": 20}, [2, 11, 20]),
        ({"max_length": 20}, [20, 20, 20]),
        ({"max_length_ratio": 1.1, "min_length": 15}, [15, 15, 550]),
    ],
)
def test_limit_follows_from_the_source_length(options: dict[str, Any], expected: list[int]) -> None:
    assert SearchOptions(**options).limits(np.array([1, 10, 500])).tolist() == expected


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"n_best": 6}, "n_best"),
        ({"coverage_penalty": 0.5, "beam_size": 1}, "coverage_penalty"),
        ({"top_k": 3}, "top_k"),
        ({"top_p": 0.5}, "top_p"),
        ({"seed": 3}, "seed"),
        ({"beam_size": 8, "temperature": 1.0}, "beam_size"),
        ({"mbr": 4, "beam_size": 1}, "mbr"),
        ({"mbr": 8}, "mbr"),
        ({"mbr": 2, "n_best": 3}, "n_best"),
        ({"min_length": 9, "max_length": 8}, "min_length"),
        ({"sentences": "german"}, "sentences"),
        ({"terms": ["dog"]}, "terms"),
    ],
)
def test_impossible_options_are_rejected_in_one_line(options: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError, match=rf"^search\.{key}=[^\n]+$"):
        SearchOptions(**options)
