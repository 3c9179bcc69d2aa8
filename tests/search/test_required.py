"""Required texts: each translation contains them, and with enough hypotheses the best one is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy import ToyEngine, every_sentence, forced_log_prob

from nmt.search.options import SearchOptions
from nmt.search.required import RequiredTexts, Spelling
from nmt.search.scoring import length_penalty
from nmt.search.search import search
from nmt.text.specials import BOS, EOS

SOURCE = [5, 4, EOS]
LONGEST = 4
TEXTS = [[(4,)], [(4, 5)], [(4,), (5,)], [(4, 5), (6,)], [(4,), (4,)], [(4, 4)], [(4, 4), (5,)]]


def contains(tokens: list[int], texts: list[tuple[int, ...]], within: set[int]) -> bool:
    """Return whether the texts stand in the pieces, apart from each other, and no piece of ``within`` follows one."""
    if not texts:
        return True
    text, *others = texts
    for start in range(len(tokens) - len(text) + 1):
        stop = start + len(text)
        if tuple(tokens[start:stop]) == text and not {*tokens[stop : stop + 1]} & within:
            return contains([*tokens[:start], -1, *tokens[stop:]], others, within)  # by the leftmost, if they are equal
    return False


def required(texts: list[tuple[int, ...]], within: set[int]) -> RequiredTexts:
    return RequiredTexts([Spelling(text, text) for text in texts], within)


def goes_behind_its_end(engine: ToyEngine, tokens: list[int], texts: list[tuple[int, ...]], within: set[int]) -> bool:
    """Return whether the likeliest piece somewhere is the end, but texts are missing and the next piece completes none.

    The end is banned at the beginning.
    """
    for length in range(1, len(tokens)):
        start = tokens[:length]
        scores = engine.predict(tuple(SOURCE), (BOS, *start))[0]
        completes = any(
            not contains(start, [text], within) and tuple(tokens[length - k : length + 1]) == text[: k + 1]
            for text in texts
            for k in range(1, min(len(text), length + 1))
        )
        if scores[3:].argmax() + 3 == EOS and not contains(start, texts, within) and not completes:
            return True
    return False


@pytest.mark.parametrize("within", [set(), {6}])
@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("seed", range(6))
def test_enough_hypotheses_find_the_best_translation_with_all_texts(
    texts: list[tuple[int, ...]], within: set[int], seed: int
) -> None:
    engine = ToyEngine(seed=seed)
    options = SearchOptions(beam_size=500, n_best=3, max_length=LONGEST)
    expected = sorted(
        (
            (forced_log_prob(engine, SOURCE, tokens) / float(length_penalty(len(tokens) + 1, 1.0)), tokens)
            for tokens in every_sentence(engine, LONGEST)
            if tokens and contains(tokens, texts, within) and not goes_behind_its_end(engine, tokens, texts, within)
        ),
        reverse=True,
    )
    [hypotheses] = search(engine, [SOURCE], options, required=[required(texts, within)])
    assert [hypothesis.tokens for hypothesis in hypotheses if hypothesis.finished] == [
        tokens for _, tokens in expected[: len(hypotheses)]
    ]
    assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(
        [score for score, _ in expected[: len(hypotheses)]]
    )


@given(
    rows=st.lists(
        st.tuples(
            st.lists(st.integers(3, 6), max_size=3),
            st.lists(st.lists(st.integers(4, 6), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=4,
    ),
    within=st.sets(st.integers(4, 6), max_size=2),
    width=st.integers(1, 4),
    seed=st.integers(0, 20),
)
def test_every_translation_contains_its_texts_in_every_batch(
    rows: list[tuple[list[int], list[tuple[int, ...]]]], within: set[int], width: int, seed: int
) -> None:
    engine = ToyEngine(seed=seed)
    options = SearchOptions(beam_size=width, n_best=width, max_length=9, keep_weights=True)
    sources = [[*source, EOS] for source, _ in rows]
    together = search(engine, sources, options, required=[required(texts, within) for _, texts in rows])
    for source, (_, texts), hypotheses in zip(sources, rows, together, strict=True):
        [alone] = search(engine, [source], options, required=[required(texts, within)])
        assert [hypothesis.tokens for hypothesis in alone] == [hypothesis.tokens for hypothesis in hypotheses]
        for hypothesis in hypotheses:
            log_prob = forced_log_prob(engine, source, hypothesis.tokens, finished=hypothesis.finished)
            assert hypothesis.log_prob == pytest.approx(log_prob)
            assert np.shape(hypothesis.alignment) == (len(hypothesis.tokens) + hypothesis.finished, len(source))
            assert all(contains(hypothesis.tokens, [text], within) for text in texts)


def test_a_text_is_written_in_its_first_form_only_at_the_beginning() -> None:
    texts = RequiredTexts([Spelling((4, 5), (6,))], set())
    for seed in range(10):
        options = SearchOptions(beam_size=30, n_best=30, max_length=3)
        [hypotheses] = search(ToyEngine(seed=seed), [SOURCE], options, required=[texts])
        finished = [hypothesis.tokens for hypothesis in hypotheses if hypothesis.finished]
        assert finished and all(contains(tokens, [(4, 5)], set()) or 6 in tokens for tokens in finished)
        assert any(tokens[0] == 6 for tokens in finished)
