"""Lines that are too long for the model or the machine, or without finite scores, do not affect other lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import BAHDANAU, random_trained, tiny_config
from inference.random_translators import TOKENIZER, tiny_translator

from nmt.errors import SourceTooLong, UserError
from nmt.inference import forced_decoding, translator
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.inference.model_folder import save_folder
from nmt.inference.onnx.export import export
from nmt.inference.translation import SCORES_NOT_FINITE
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

pytestmark = pytest.mark.thorough

LONG = "dog " * 60
LINES = ["a dog", "", LONG, "two cats sleep here today", "houses"]
TARGETS = ["two cats", "a dog", "houses", "red houses", "a dog"]
OTHERS = [0, 1, 3, 4]
SHORT = SearchOptions(max_length=9)
NO_MEMORY = "not enough memory for this line of 60 words"


class Failures(list[tuple[int, str]]):
    """The failures of all calls that get this list as ``on_failure``."""

    def __call__(self, row: int, reason: str) -> None:
        self.append((row, reason))


@pytest.fixture
def failures() -> Failures:
    return Failures()


@pytest.fixture(params=["not enough memory", "can't allocate memory"])  # torch on Windows, and on Linux
def small_machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every batch with a line of more than 50 pieces run out of memory."""

    def limit(function: Callable[..., Any], lengths_of: Callable[[Any], list[int]]) -> Callable[..., Any]:
        def limited(*arguments: Any, **options: Any) -> Any:
            if max(lengths_of(arguments), default=0) > 50:
                raise RuntimeError(f"DefaultCPUAllocator: {request.param}: you tried to allocate 9 bytes.")
            return function(*arguments, **options)

        return limited

    searched = limit(translator.search, lambda arguments: [len(ids) for ids in arguments[1]])
    monkeypatch.setattr(translator, "search", searched)
    by_length = limit(forced_decoding.batches_by_length, lambda arguments: list(arguments[0]))
    monkeypatch.setattr(forced_decoding, "batches_by_length", by_length)


@pytest.mark.usefixtures("small_machine")
def test_only_the_oversized_line_has_no_result(failures: Failures) -> None:
    model = tiny_translator("attention=bahdanau")
    translations = model.translate(LINES, SHORT, on_failure=failures)
    decodings = force_decode(model, LINES, TARGETS, on_failure=failures)
    links = forced_links(model, LINES, TARGETS, on_failure=failures)
    assert failures == [(2, NO_MEMORY)] * 3 and links[2] == frozenset()
    for failed in (translations[2], decodings[2]):
        assert (failed.text, failed.tokens, failed.log_prob) == ("", [], float("-inf"))
    for row in OTHERS:
        pair = LINES[row : row + 1], TARGETS[row : row + 1]
        assert translations[row].text == model.texts(pair[0], SHORT)[0]
        assert decodings[row].log_prob == pytest.approx(force_decode(model, *pair)[0].log_prob, abs=1e-4)
        assert [links[row]] == forced_links(model, *pair)


def test_a_line_longer_than_the_attention_holds_is_reported_alone(failures: Failures) -> None:
    model = tiny_translator("attention=low_rank")
    texts = model.texts(LINES, SHORT, on_failure=failures)
    assert [row for row, _ in failures] == [2] and "LowRankAttention holds at most 40" in failures[0][1]
    assert texts[2] == "" and [texts[row] for row in OTHERS] == model.texts([LINES[row] for row in OTHERS], SHORT)
    with pytest.raises(SourceTooLong, match=r"^lines\[2\]: "):
        model.texts(LINES, SHORT)


def test_pair_whose_alignment_needs_more_than_the_free_memory_is_reported(
    monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    pieces = len(TOKENIZER.encode(LONG)) + 1  # with </s>
    monkeypatch.setattr(forced_decoding, "available_memory", lambda: 290 * pieces * forced_decoding.BYTES_PER_SCORE)
    links = forced_links(tiny_translator("attention=bahdanau"), [*LINES, LONG], [*TARGETS, LONG], on_failure=failures)
    assert failures == [(5, NO_MEMORY)] and [bool(pairs) for pairs in links] == [True, False, True, True, True, False]


@pytest.mark.parametrize("function", [force_decode, forced_links])
def test_targets_without_a_source_are_not_dropped(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forced_decoding, "GROUP", 2)
    with pytest.raises(ValueError, match="2 sources, 3 targets"):
        function(tiny_translator("attention=bahdanau"), ["a dog", "houses"], TARGETS[:3])


@pytest.fixture(scope="module")
def overflowing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an exported model whose weights are finite, but whose scores are not."""
    folder = tmp_path_factory.mktemp("overflow")
    trained = random_trained(tiny_config(BAHDANAU), TOKENIZER, scale=20)
    with torch.no_grad():  # features of 1, so that their sum overflows in any order
        trained.model.decoder.combine.weight.zero_()
        trained.model.decoder.combine.bias.fill_(20)
        trained.model.decoder.output.weight.fill_(3e38)
    save_folder(folder, trained)
    export(trained, folder, None, engines=["onnx"])
    return folder


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_lines_without_finite_scores_are_reported(engine: Any, overflowing: Path, failures: Failures) -> None:
    model = Translator.load(overflowing, engine=engine, device="cpu")
    for options in (SearchOptions(), SearchOptions(beam_size=1), SearchOptions(temperature=1.0, n_best=2)):
        translations = model.translate(LINES[:2], options, on_failure=failures)
        assert [(best.text, best.log_prob) for best in translations] == [("", -torch.inf), ("", 0.0)]
        with pytest.raises(UserError, match=r"^lines\[0\]: "):
            model.texts(LINES, options)
    assert failures == [(0, SCORES_NOT_FINITE)] * 3
    failures.clear()
    for function in (force_decode, forced_links) if engine == "torch" else ():
        [result] = function(model, LINES[:1], LINES[:1], on_failure=failures)
        assert getattr(result, "log_prob", result) in (-torch.inf, frozenset())
        with pytest.raises(UserError, match=r"^pairs\[0\]: "):
            function(model, LINES, LINES)
    assert failures == [(0, SCORES_NOT_FINITE)] * 2 * (engine == "torch")
