"""Bounds accept exactly the numbers they describe, and their messages say which."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from nmt.settings.bounds import Above, AtLeast, AtMost, Within, violations


@pytest.mark.parametrize(
    ("bound", "accepted", "rejected", "message"),
    [
        (AtLeast(1), (1, 1.5, 9), (0, 0.99, -inf), "must be at least 1"),
        (Above(0), (1e-9, 3), (0, -1, -inf), "must be greater than 0"),
        (AtMost(2**32 - 1), (-inf, 0, 4294967295), (4294967296, inf), "must be at most 4294967295"),
        (Within(0, 1), (0, 0.999), (1, -0.1, inf), "must be at least 0 and less than 1"),
    ],
)
def test_each_bound_accepts_what_it_describes(bound: Any, accepted: Any, rejected: Any, message: str) -> None:
    assert [violations(value, [bound]) for value in accepted] == [[]] * len(accepted)
    assert [violations(value, [bound]) for value in (*rejected, nan)] == [[message]] * (len(rejected) + 1)


def test_every_violated_bound_is_reported() -> None:
    assert violations(5, [AtLeast(6), AtMost(4)]) == ["must be at least 6", "must be at most 4"]


def test_infinity_is_rejected_unless_nothing_bounds_the_value() -> None:
    assert violations(inf, [AtLeast(1)]) == ["must be finite"]
    assert violations(inf, []) == []


def test_other_annotations_are_skipped() -> None:
    assert violations(-1, ["a note", AtLeast(0)]) == ["must be at least 0"]
    assert violations(inf, ["a note"]) == []
