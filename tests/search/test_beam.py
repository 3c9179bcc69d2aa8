from __future__ import annotations

from itertools import pairwise
from math import log
from typing import Any

import numpy as np
import pytest
from toy import TiedEngine, ToyEngine, brute_force, forced_log_prob, forced_weights, naive_beam, ragged_sources

from nmt.search import SearchOptions, length_penalty, search
from nmt.search.beam import beam_search
from nmt.search.history import History
from nmt.search.scoring import Scorer, coverage_penalty
from nmt.search.search import _collect_hypotheses
from nmt.text.specials import EOS


@pytest.mark.parametrize("max_length", [1, 2, None])
@pytest.mark.parametrize("seed", range(5))
def test_beam_1_without_length_penalty_is_greedy(seed: int, max_length: int | None) -> None:
    engine = ToyEngine(pieces=6, seed=seed)
    sources = ragged_sources(seed, 12)
    options = SearchOptions(beam_size=1, length_penalty=0.0, max_length=max_length)
    assert options.method == "greedy"
    history = History(keep_weights=False)
    limits = options.limits(np.array([len(source) for source in sources]))
    scorer = Scorer(options, history, lambda row, reads: reads)
    endings = beam_search(engine, engine.encode(sources), limits, options, history, scorer)
    beams = _collect_hypotheses(history, endings, scorer, len(sources), options)
    assert beams == search(engine, sources, options)


@pytest.mark.parametrize("n_best", [1, 8, 20])
@pytest.mark.parametrize("seed", range(5))
def test_older_ending_wins_a_tie_in_a_full_beam(seed: int, n_best: int) -> None:
    engine, source = TiedEngine(pieces=2, seed=seed), [7, 5, EOS]
    options = SearchOptions(beam_size=4 * 2**5, length_penalty=0.0, n_best=n_best, max_length=5)
    truth = [(score, len(tokens)) for score, tokens in brute_force(engine, source, options)]
    [hypotheses] = search(engine, [source], options)
    older_first = sorted(truth, key=lambda pair: (-pair[0], pair[1]))
    assert [(best.score, len(best.tokens)) for best in hypotheses] == older_first[:n_best]


@pytest.mark.parametrize(
    ("kind", "alpha"), [*((ToyEngine, alpha) for alpha in (0.0, 0.6, 1.0, 2.0)), (TiedEngine, 0.0)]
)
@pytest.mark.parametrize(("beam_size", "n_best"), [(2, 1), (2, 2), (3, 3), (5, 2)])
@pytest.mark.parametrize("max_length", [1, 4, None])
def test_early_stop_does_not_change_results(
    kind: type[ToyEngine], alpha: float, beam_size: int, n_best: int, max_length: int | None
) -> None:
    engine = kind(pieces=7, seed=21)
    sources = ragged_sources(beam_size, 8, longest=5)
    options = SearchOptions(beam_size=beam_size, n_best=n_best, length_penalty=alpha, max_length=max_length)
    for source, hypotheses in zip(sources, search(engine, sources, options), strict=True):
        assert [hypothesis.tokens for hypothesis in hypotheses] == naive_beam(engine, source, options)


def test_early_stop_saves_steps() -> None:
    engine = ToyEngine(pieces=4, seed=2, sharpness=3.0)
    search(engine, [[5, EOS]], SearchOptions(beam_size=3, length_penalty=0.0, max_length=500))
    assert len(engine.steps) < 50


def test_groups_have_more_different_pieces_than_a_plain_beam() -> None:
    engine, sources = ToyEngine(pieces=8, seed=2, sharpness=3.0), ragged_sources(3, 30)

    def distinct(**options: Any) -> float:
        """Return the share of different bigrams among all of an n-best list."""
        shares = []
        for hypotheses in search(engine, sources, SearchOptions(beam_size=6, n_best=3, **options)):
            bigrams = [pair for best in hypotheses for pair in pairwise([0, *best.tokens, 1])]
            shares.append(len(set(bigrams)) / len(bigrams))
        return sum(shares) / len(shares)

    measured = [distinct(), distinct(groups=3, diversity=0.5), distinct(groups=3, diversity=5.0)]
    assert measured[0] + 0.05 < measured[1] and measured[1] + 0.05 < measured[2]


def test_unfinished_hypotheses_are_returned_only_if_none_finished() -> None:
    engine = ToyEngine(pieces=8, seed=4)
    sources = ragged_sources(5, 30)
    kinds = set()
    for hypotheses in search(engine, sources, SearchOptions(beam_size=2, n_best=2, max_length=2)):
        finished = {hypothesis.finished for hypothesis in hypotheses}
        assert len(finished) == 1
        kinds |= finished
        assert all(hypothesis.finished or len(hypothesis.tokens) == 2 for hypothesis in hypotheses)
    assert kinds == {True, False}


def test_coverage_penalty_computed_by_hand() -> None:
    # Shares by absolute value: the first piece gets 0.5 and 1, the second 0.5, the third nothing.
    alignment = np.array([[1.0, -1.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    expected = 0.2 * (log(1.0) + log(0.5) + log(1e-9))
    assert coverage_penalty(alignment, 0.2) == pytest.approx(expected)


def test_score_of_a_cut_hypothesis_includes_coverage() -> None:
    engine = ToyEngine(pieces=3, seed=3)
    predict = engine.predict

    def never_ends(source: tuple[int, ...], prefix: tuple[int, ...]) -> Any:
        log_probs, weights = predict(source, prefix)
        return np.where(np.arange(engine.size) == EOS, -np.inf, log_probs), weights

    engine.predict = never_ends  # type: ignore[method-assign]
    source = [7, 5, 9, EOS]
    options = SearchOptions(beam_size=27, n_best=27, coverage_penalty=1.0, max_length=3)
    [hypotheses] = search(engine, [source], options)
    for hypothesis in hypotheses:
        assert not hypothesis.finished and hypothesis.weights is None
        weights = forced_weights(engine, source, hypothesis.tokens, finished=False)
        coverage = np.log(weights.sum(0).clip(max=1)).sum()
        plain = forced_log_prob(engine, source, hypothesis.tokens, finished=False) / length_penalty(3, 1.0)
        assert hypothesis.score == pytest.approx(plain + coverage, rel=1e-5)
