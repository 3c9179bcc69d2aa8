"""Candidates for the next hypotheses of each sentence, which the searches with a beam share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nmt.search.engine import Floats, Integers
from nmt.text.specials import EOS


class Candidates(NamedTuple):
    """M candidates per sentence, best first: arrays (b,M). A log-probability of -inf marks an unused entry."""

    log_prob: Floats
    parents: Integers
    tokens: Integers

    @staticmethod
    def from_live(log_prob: Floats) -> Candidates:
        """Return the live hypotheses themselves, each with its own slot as its parent."""
        slots = np.broadcast_to(np.arange(log_prob.shape[1]), log_prob.shape)
        return Candidates(log_prob, slots, np.full(log_prob.shape, EOS))

    def in_groups(self, groups: int) -> Candidates:
        """Return the candidates as one row (M/G) per group of a sentence."""
        if groups == 1:
            return self
        columns: tuple[Any, ...] = self
        if self.log_prob.shape[1] == 1:  # before the first step, all groups share one hypothesis
            return Candidates(*(column.repeat(groups, axis=0) for column in columns))
        return Candidates(*(column.reshape(-1, column.shape[1] // groups) for column in columns))
