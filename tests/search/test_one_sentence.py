"""A search in one call gives the hypotheses that single steps give (tests/inference/test_onnx.py compares engines)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nmt.search.history import Hypothesis
from nmt.search.one_sentence import OneSearch, search_one_sentence
from nmt.search.options import SearchOptions
from nmt.text.specials import EOS


def hypotheses(search: OneSearch | None, *, limit: int = 2, **settings: float) -> list[Hypothesis] | None:
    engine = SimpleNamespace(search_one=lambda *_: search)
    return search_one_sentence(engine, None, limit, SearchOptions(length_penalty=0.0, **settings))  # type: ignore[arg-type]


def steps(last: list[float], *, piece: int = 9) -> OneSearch:
    """Return three steps of a beam of 2: pieces 5 and 6, then 7 after 6 and 8 after 5, then ``piece`` and 4."""
    return OneSearch(
        log_probs=np.array([[-1.0, -2.0, -7.0, -8.0], [-3.0, -4.0, -7.0, -8.0], [*last, -9.0, -9.0]]),
        tokens=np.array([[5, 6, 11, 12], [7, 8, 11, 12], [piece, 4, 11, 12]]),
        parents=np.array([[0, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]]),
        places=np.array([[0, 1], [0, 1], [1, 2]]),
    )


def test_an_ended_hypothesis_is_traced_back() -> None:
    (hypothesis,) = hypotheses(steps([-3.5, -6.0], piece=EOS)) or []
    assert hypothesis == Hypothesis([6, 7], -3.5, -3.5, finished=True, token_log_probs=[-2.0, -1.0, -0.5])


def test_without_an_end_the_best_hypothesis_of_the_longest_length_is_cut() -> None:
    (hypothesis,) = hypotheses(steps([-5.0, -6.0])) or []
    assert hypothesis == Hypothesis([6, 7], -3.0, -3.0, finished=False, token_log_probs=[-2.0, -1.0])


@pytest.mark.parametrize("setting", [{"n_best": 2}, {"coverage_penalty": 0.1}, {"temperature": 1.0}])
def test_options_that_need_single_steps(setting: dict[str, float]) -> None:
    assert hypotheses(steps([-5.0, -6.0]), **setting) is None
