"""Lines that are too long for the model or the machine do not affect other lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from inference.random_translators import TOKENIZER, tiny_translator

from nmt.errors import SourceTooLong
from nmt.inference import forced_decoding, translator
from nmt.inference.bulk import run_in_halves
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.search.options import SearchOptions

pytestmark = pytest.mark.thorough

LONG = "dog " * 60
LINES = ["a dog", "", LONG, "two cats sleep here today", "houses"]
TARGETS = ["two cats", "a dog", "houses", "red houses", "a dog"]
SHORT = SearchOptions(max_length=9)
Failures = list[tuple[int, str]]


@pytest.fixture
def failures() -> Failures:
    return []


@pytest.fixture
def on_failure(failures: Failures) -> Callable[[int, str], None]:
    return lambda row, reason: failures.append((row, reason))


@pytest.fixture(params=["not enough memory", "can't allocate memory"])  # torch on Windows, and on Linux
def small_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every batch with a line of more than 50 pieces run out of memory."""

    def limit(function: Callable[..., Any], lengths_of: Callable[[Any], list[int]]) -> Callable[..., Any]:
        def limited(*arguments: Any, **options: Any) -> Any:
            if max(lengths_of(arguments), default=0) > 50:
                raise RuntimeError(f"DefaultCPUAllocator: {request.param}: you tried to allocate 9 bytes.")
            return function(*arguments, **options)

        return limited

    def source_lengths(arguments: Any) -> list[int]:
        return [len(ids) for ids in arguments[1]]

    monkeypatch.setattr(translator, "search", limit(translator.search, source_lengths))
    by_length = limit(forced_decoding.batches_by_length, lambda arguments: list(arguments[0]))
    monkeypatch.setattr(forced_decoding, "batches_by_length", by_length)


@pytest.mark.usefixtures("small_machine")
def test_only_the_oversized_line_has_no_translation(failures: Failures, on_failure: Callable[[int, str], None]) -> None:
    model = tiny_translator("attention=bahdanau")
    translations = model.translate(LINES, SHORT, on_failure=on_failure)
    assert failures == [(2, "not enough memory for this line of 60 words")]
    assert (translations[2].text, translations[2].log_prob) == ("", float("-inf"))
    others = [line for line in LINES if line != LONG]
    expected = model.translate(others, SHORT)
    del translations[2]
    assert [translation.text for translation in translations] == [translation.text for translation in expected]
    assert model.texts(LINES, SHORT, on_failure=on_failure)[2] == ""
    assert [row for row, _ in failures] == [2, 2]


@pytest.mark.usefixtures("small_machine")
def test_only_the_oversized_source_is_not_aligned(failures: Failures, on_failure: Callable[[int, str], None]) -> None:
    model = tiny_translator("attention=bahdanau")
    decodings = force_decode(model, LINES, TARGETS, on_failure=on_failure)
    links = forced_links(model, LINES, TARGETS, on_failure=on_failure)
    assert failures == [(2, "not enough memory for this line of 60 words")] * 2
    assert (decodings[2].tokens, decodings[2].log_prob, decodings[2].alignment.size) == ([], float("-inf"), 0)
    assert links[2] == frozenset()
    for row in (0, 1, 3, 4):
        [alone] = force_decode(model, LINES[row : row + 1], TARGETS[row : row + 1])
        assert decodings[row].log_prob == pytest.approx(alone.log_prob, abs=1e-4)
        assert [links[row]] == forced_links(model, LINES[row : row + 1], TARGETS[row : row + 1])


def test_a_line_longer_than_the_attention_holds_is_reported_alone(
    failures: Failures, on_failure: Callable[[int, str], None]
) -> None:
    model = tiny_translator("attention=low_rank")
    texts = model.texts(LINES, SHORT, on_failure=on_failure)
    assert [row for row, _ in failures] == [2] and "LowRankAttention holds at most 40" in failures[0][1]
    assert texts[2] == "" and texts[:2] + texts[3:] == model.texts(LINES[:2] + LINES[3:], SHORT)
    with pytest.raises(SourceTooLong, match=r"^lines\[2\]: source of .* states.* holds at most 40"):
        model.texts(LINES, SHORT)


def test_pair_whose_alignment_needs_more_than_the_free_memory_is_reported(
    monkeypatch: pytest.MonkeyPatch, failures: Failures, on_failure: Callable[[int, str], None]
) -> None:
    pieces = len(TOKENIZER.encode(LONG)) + 1  # with </s>
    monkeypatch.setattr(forced_decoding, "available_memory", lambda: 290 * pieces * forced_decoding.BYTES_PER_SCORE)
    links = forced_links(tiny_translator("attention=bahdanau"), [*LINES, LONG], [*TARGETS, LONG], on_failure=on_failure)
    assert failures == [(5, "not enough memory for this line of 60 words")]
    assert [bool(pairs) for pairs in links] == [True, False, True, True, True, False]


def test_batches_are_halved_until_they_fit() -> None:
    sizes = []

    def run(rows: slice) -> list[int]:
        size = rows.stop - rows.start
        sizes.append(size)
        if size > 3:
            raise MemoryError
        return list(range(rows.start, rows.stop))

    assert list(run_in_halves(run, ["line"] * 10)) == list(range(10))
    assert sizes == [10, 5, 2, 3, 5, 2, 3]
    assert list(run_in_halves(run, [])) == []
