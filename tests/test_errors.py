"""Messages count correctly, and advice fits the error."""

from __future__ import annotations

import errno

import pytest

from nmt.errors import UserError, counted, suggest_fix


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (1234, "1,234 lines"), (-1, "-1 lines")]
)
def test_nouns_agree_with_their_number(number: int, text: str) -> None:
    assert counted(number, "line") == text


def test_irregular_plural() -> None:
    assert [counted(number, "memory", "memories") for number in (1, 2)] == ["1 memory", "2 memories"]


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN])
def test_missing_memory_has_its_own_advice(number: int) -> None:
    assert "workers=" in suggest_fix(OSError(number, ""))


@pytest.mark.parametrize(
    ("problem", "key"),
    [("attention.slots=0: must be at least 1", "attention.slots"), ("in.txt:3: invalid UTF-8", "in.txt"), ("no", "no")],
)
def test_key_is_what_a_message_is_about(problem: str, key: str) -> None:
    assert UserError(problem, "other=1: wrong").key == key
