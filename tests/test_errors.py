"""Messages count correctly, and name what they are about."""

from __future__ import annotations

import pytest

from nmt.errors import UserError, counted


def test_nouns_agree_with_their_number() -> None:
    assert [counted(number, "line") for number in (0, 1, 1234)] == ["0 lines", "1 line", "1,234 lines"]
    assert [counted(number, "memory", "memories") for number in (1, 2)] == ["1 memory", "2 memories"]


@pytest.mark.parametrize(
    ("problem", "key"),
    [("attention.slots=0: must be at least 1", "attention.slots"), ("in.txt:3: invalid UTF-8", "in.txt"), ("no", "no")],
)
def test_key_is_what_a_message_is_about(problem: str, key: str) -> None:
    assert UserError(problem, "other=1: wrong").key == key
