"""Random searches equal a search that tries everything, and do not depend on their batch."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from search.toy import (
    AllowedPrefix,
    TiedEngine,
    ToyEngine,
    brute_force,
    forced_log_prob,
    forced_weights,
    is_allowed,
    naive_beam,
)

from nmt.search.engine import BANNED
from nmt.search.options import SearchOptions
from nmt.search.scoring import coverage_penalty, length_penalty
from nmt.search.search import batches_by_length, search
from nmt.text.specials import EOS

SOURCE = st.lists(st.integers(4, 50), max_size=5).map(lambda ids: [*ids, EOS])
SEED = st.integers(0, 10_000)
ALPHA = st.one_of(st.just(0.0), st.floats(0, 3))
BETA = st.one_of(st.just(0.0), st.floats(0.01, 3))


@st.composite
def limits(draw: st.DrawFn, longest: int | None = None) -> dict[str, Any]:
    """Options of every method; with ``longest``, a maximum length up to it."""
    max_length = draw(st.integers(1, longest or 6) if longest else st.integers(1, 6) | st.none())
    return {
        "max_length": max_length,
        "max_length_ratio": None if longest else draw(st.floats(0.1, 3) | st.none()),
        "min_length": draw(st.integers(0, min(3, max_length or 3))),
    }


@st.composite
def prefixes(draw: st.DrawFn) -> AllowedPrefix:
    """Return a prefix of up to two pieces that each have alternatives, some of which complete it at once."""
    length = draw(st.integers(0, 2))
    pieces = st.sampled_from([EOS, 4, 5])
    return [draw(st.dictionaries(pieces, st.integers(place + 1, length), min_size=1)) for place in range(length)]


@st.composite
def beams(draw: st.DrawFn) -> SearchOptions:
    """Return options of a beam search. A beam of 1 is greedy: it stops at the first end."""
    size = draw(st.integers(1, 7))
    return SearchOptions(
        beam_size=size,
        n_best=draw(st.integers(1, size)),
        length_penalty=draw(ALPHA) if size > 1 else 0.0,
        **draw(limits()),
    )


@st.composite
def others(draw: st.DrawFn) -> SearchOptions:
    """Return options of greedy search, of a beam with a coverage penalty, or of sampling."""
    sampling = {
        "temperature": st.floats(0.01, 10),
        "top_k": st.integers(1, 12) | st.none(),
        "top_p": st.floats(0.01, 1) | st.none(),
        "n_best": st.integers(1, 4),
        "seed": st.integers(0, 1000),
    }
    greedy = {"beam_size": st.just(1)}
    covering = {"beam_size": st.integers(2, 7), "coverage_penalty": BETA}
    method = draw(st.sampled_from([greedy, covering, sampling]))
    return SearchOptions(**{name: draw(value) for name, value in method.items()}, **draw(limits()))


@given(SOURCE, SEED, st.floats(0.1, 5), ALPHA, BETA, st.integers(2, 3), limits(longest=4), prefixes(), st.data())
def test_full_beam_equals_brute_force(
    source: list[int],
    seed: int,
    sharpness: float,
    alpha: float,
    beta: float,
    pieces: int,
    limits: dict[str, Any],
    prefix: AllowedPrefix,
    data: st.DataObject,
) -> None:
    engine = ToyEngine(pieces=pieces, seed=seed, sharpness=sharpness)
    longest = limits["max_length"] + len(prefix)
    options = SearchOptions(
        **limits,
        beam_size=min(1000, 4 * pieces**longest),
        n_best=data.draw(st.integers(1, 8)),
        length_penalty=alpha,
        coverage_penalty=beta,
    )
    truth = brute_force(engine, source, options, prefix)
    [hypotheses] = search(engine, [source], options, [prefix])
    if not truth:
        assert not any(hypothesis.finished for hypothesis in hypotheses)
        return
    scores = {tuple(tokens): score for score, tokens in truth}
    searched = [scores[tuple(hypothesis.tokens)] for hypothesis in hypotheses]
    tolerance = 1e-5 if beta else 1e-12  # read weights are float32
    assert all(hypothesis.finished for hypothesis in hypotheses)
    np.testing.assert_allclose(searched, [score for score, _ in truth[: options.n_best]], rtol=tolerance)
    np.testing.assert_allclose([hypothesis.score for hypothesis in hypotheses], searched, rtol=tolerance)


@given(
    st.lists(st.tuples(SOURCE, prefixes()), min_size=1, max_size=4),
    SEED,
    st.integers(2, 8),
    beams(),
    st.booleans(),
)
def test_beam_equals_a_beam_without_an_early_stop(
    lines: list[tuple[list[int], AllowedPrefix]], seed: int, pieces: int, options: SearchOptions, tied: bool
) -> None:
    engine = (TiedEngine if tied else ToyEngine)(pieces=pieces, seed=seed)
    sources, prefixes = zip(*lines, strict=True)
    results = search(engine, [*sources], options, prefixes)
    for source, prefix, hypotheses in zip(sources, prefixes, results, strict=True):
        expected = naive_beam(engine, source, options, prefix)
        if tied and options.length_penalty:  # rounding decides between sums that should be equal
            assert len(hypotheses) == len(expected)
        else:
            assert [hypothesis.tokens for hypothesis in hypotheses] == expected


@given(
    st.lists(st.tuples(SOURCE, prefixes()), min_size=1, max_size=6),
    SEED,
    st.one_of(beams(), others()),
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
def test_hypotheses_are_scored_by_the_model_and_do_not_depend_on_their_batch(
    lines: list[tuple[list[int], AllowedPrefix]],
    seed: int,
    options: SearchOptions,
    max_tokens: int,
    random: Random,
) -> None:
    engine = ToyEngine(pieces=6, seed=seed)
    sources, prefixes = zip(*lines, strict=True)
    results = search(engine, [*sources], options, prefixes)
    for rows in batches_by_length([len(source) for source in sources], max_tokens=max_tokens):
        random.shuffle(rows)
        part = search(engine, [sources[row] for row in rows], options, [prefixes[row] for row in rows])
        assert part == [results[row] for row in rows]
    for source, prefix, hypotheses in zip(sources, prefixes, results, strict=True):
        assert prefix or hypotheses  # a minimum length can make a prefix impossible
        assert len(hypotheses) <= options.n_best
        limit = int(options.limits(np.array([len(source)]))[0]) + len(prefix)
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert options.temperature or len({tuple(best.tokens) for best in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            tokens, finished = hypothesis.tokens, hypothesis.finished
            assert len(tokens) <= limit and (finished or len(tokens) == limit)
            assert is_allowed([*tokens, EOS] if finished else tokens, options, prefix)
            assert not {*BANNED, EOS} & set(tokens)
            log_prob = forced_log_prob(engine, source, tokens, finished=finished)
            score = log_prob / float(length_penalty(len(tokens) + finished, options.length_penalty))
            if options.coverage_penalty:
                weights = forced_weights(engine, source, tokens, finished=finished)
                score += coverage_penalty(weights, options.coverage_penalty)
            np.testing.assert_allclose([hypothesis.log_prob, hypothesis.score], [log_prob, score], rtol=1e-5)
            starts = [tokens[:time] for time in range(len(tokens) + 1)]
            sums = [forced_log_prob(engine, source, start, finished=False) for start in starts]
            steps = np.diff(sums + [log_prob] * finished)
            np.testing.assert_allclose(hypothesis.token_log_probs, steps, rtol=1e-5, atol=1e-5)
