"""The translation of one line, with everything that was recorded about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

SCORES_NOT_FINITE = "the model's scores are not finite, so its weights are too large or damaged; use another model"


@dataclass(frozen=True, repr=False)
class Translation:
    """One translation of one line.

    ``log_prob`` is the sum of the tokens' natural log-probabilities, ``</s>`` included. ``score`` is ``log_prob``
    divided by the length penalty of the search. ``alignment`` (T, S) holds the raw attention weights, one row per
    target token and one column per source token, both with ``</s>``; None if it was not requested.
    ``source_words`` and ``target_words`` give the number of the word that each token belongs to, from 0 and without
    ``</s>``: a word of the source line, or of ``text``, as ``nmt.text.words`` splits them. Both are empty without an
    alignment. ``n_best`` lists the best translations of the line, this one first.
    """

    text: str
    score: float = 0.0
    log_prob: float = 0.0
    source_tokens: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    source_words: list[int] = field(default_factory=list)
    target_words: list[int] = field(default_factory=list)
    alignment: np.ndarray | None = None
    n_best: list[Translation] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Translation({self.text!r}, log_prob={self.log_prob:.3f}, {len(self.n_best)} best)"
