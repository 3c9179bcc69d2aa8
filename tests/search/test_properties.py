"""Random searches equal a search that tries everything, and do not depend on their batch."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import TiedEngine, ToyEngine, brute_force, forced_log_prob, forced_weights, naive_beam

from nmt.search import SearchOptions, length_penalty, search
from nmt.search.engine import BANNED
from nmt.search.scoring import coverage_penalty
from nmt.search.search import batches_by_length
from nmt.text.specials import EOS

EXAMPLES = pytest.mark.parametrize("examples", [100, pytest.param(10_000, marks=pytest.mark.slow)])
SOURCE = st.lists(st.integers(4, 50), max_size=5).map(lambda ids: [*ids, EOS])
SEED = st.integers(0, 10_000)
ALPHA = st.one_of(st.just(0.0), st.floats(0, 3))
BETA = st.one_of(st.just(0.0), st.floats(0.01, 3))
LENGTH = st.integers(1, 6) | st.none()


@st.composite
def beams(draw: st.DrawFn) -> SearchOptions:
    size = draw(st.integers(2, 7))
    n_best = draw(st.integers(1, size))
    return SearchOptions(beam_size=size, n_best=n_best, length_penalty=draw(ALPHA), max_length=draw(LENGTH))


GREEDY = st.builds(SearchOptions, beam_size=st.just(1), length_penalty=ALPHA, max_length=LENGTH)
COVERING = st.builds(SearchOptions, beam_size=st.integers(2, 7), coverage_penalty=BETA, max_length=LENGTH)
SAMPLES = st.builds(
    SearchOptions,
    temperature=st.floats(0.01, 10),
    top_k=st.integers(1, 12) | st.none(),
    n_best=st.integers(1, 4),
    length_penalty=ALPHA,
    max_length=LENGTH,
    seed=st.integers(0, 1000),
)


@EXAMPLES
def test_full_beam_equals_brute_force(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(SOURCE, SEED, st.floats(0.1, 5), ALPHA, BETA, st.integers(2, 3), st.integers(1, 4), st.integers(1, 8))
    def check(
        source: list[int],
        seed: int,
        sharpness: float,
        alpha: float,
        beta: float,
        pieces: int,
        longest: int,
        n_best: int,
    ) -> None:
        engine = ToyEngine(pieces=pieces, seed=seed, sharpness=sharpness)
        truth = brute_force(engine, source, longest=longest, alpha=alpha, beta=beta)
        penalties = {"length_penalty": alpha, "coverage_penalty": beta}
        options = SearchOptions(beam_size=4 * pieces**longest, n_best=n_best, max_length=longest, **penalties)
        [hypotheses] = search(engine, [source], options)
        scores = {tuple(tokens): score for score, tokens in truth}
        searched = [scores[tuple(hypothesis.tokens)] for hypothesis in hypotheses]
        tolerance = 1e-5 if beta else 1e-12  # read weights are float32
        assert all(hypothesis.finished for hypothesis in hypotheses)
        np.testing.assert_allclose(searched, [score for score, _ in truth[:n_best]], rtol=tolerance)
        np.testing.assert_allclose([hypothesis.score for hypothesis in hypotheses], searched, rtol=tolerance)

    check()


@EXAMPLES
def test_beam_equals_a_beam_without_an_early_stop(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(st.lists(SOURCE, min_size=1, max_size=4), SEED, st.integers(2, 8), beams(), st.booleans())
    def check(sources: list[list[int]], seed: int, pieces: int, options: SearchOptions, tied: bool) -> None:
        engine = (TiedEngine if tied else ToyEngine)(pieces=pieces, seed=seed)
        for source, hypotheses in zip(sources, search(engine, sources, options), strict=True):
            expected = naive_beam(engine, source, options, options.max_length or 2 * len(source) + 10)
            if tied and options.length_penalty:  # rounding decides between sums that should be equal
                assert len(hypotheses) == len(expected)
            else:
                assert [hypothesis.tokens for hypothesis in hypotheses] == expected

    check()


@EXAMPLES
def test_hypotheses_are_scored_by_the_model_and_do_not_depend_on_their_batch(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(
        st.lists(SOURCE, min_size=1, max_size=6),
        SEED,
        st.one_of(GREEDY, beams(), COVERING, SAMPLES),
        st.integers(1, 40),
        st.randoms(use_true_random=False),
    )
    def check(sources: list[list[int]], seed: int, options: SearchOptions, max_tokens: int, random: Random) -> None:
        engine = ToyEngine(pieces=6, seed=seed)
        results = search(engine, sources, options)
        for rows in batches_by_length([len(source) for source in sources], max_tokens=max_tokens):
            random.shuffle(rows)
            assert search(engine, [sources[row] for row in rows], options) == [results[row] for row in rows]
        for source, hypotheses in zip(sources, results, strict=True):
            assert 1 <= len(hypotheses) <= options.n_best
            scores = [hypothesis.score for hypothesis in hypotheses]
            assert scores == sorted(scores, reverse=True)
            assert options.temperature or len({tuple(best.tokens) for best in hypotheses}) == len(hypotheses)
            for hypothesis in hypotheses:
                tokens, finished = hypothesis.tokens, hypothesis.finished
                limit = options.max_length or 2 * len(source) + 10
                assert len(tokens) <= limit and (finished or len(tokens) == limit)
                assert not {*BANNED, EOS} & set(tokens)
                log_prob = forced_log_prob(engine, source, tokens, finished=finished)
                score = log_prob / float(length_penalty(len(tokens) + finished, options.length_penalty))
                if options.coverage_penalty:
                    weights = forced_weights(engine, source, tokens, finished=finished)
                    score += coverage_penalty(weights, options.coverage_penalty)
                np.testing.assert_allclose([hypothesis.log_prob, hypothesis.score], [log_prob, score], rtol=1e-5)

    check()
