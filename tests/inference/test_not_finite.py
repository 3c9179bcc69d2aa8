"""A model whose scores overflow never translates a line to nothing without a word, with any engine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from builders import BAHDANAU, random_trained, tiny_config

from nmt.errors import UserError
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.inference.model_folder import save_folder
from nmt.inference.onnx.export import export
from nmt.inference.translation import SCORES_NOT_FINITE
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.thorough

LINES = ["a dog", "", "two cats sleep"]
METHODS = [SearchOptions(), SearchOptions(beam_size=1), SearchOptions(temperature=1.0, n_best=2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an exported model whose weights are finite, but whose scores are not."""
    folder = tmp_path_factory.mktemp("overflow")
    tokenizer = Tokenizer.train(["a small dog sees red houses", "two cats sleep here today"], vocab_size=290)
    trained = random_trained(tiny_config(BAHDANAU), tokenizer, scale=20)
    with torch.no_grad():  # features of 1, so that their sum overflows in any order
        trained.model.decoder.combine.weight.zero_()
        trained.model.decoder.combine.bias.fill_(20)
        trained.model.decoder.output.weight.fill_(3e38)
    save_folder(folder, trained)
    export(trained, folder, None)
    return folder


@pytest.mark.parametrize("options", METHODS, ids=["beam", "greedy", "sample"])
@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_lines_without_finite_scores_are_reported(engine: str, options: SearchOptions, folder: Path) -> None:
    translator = Translator.load(folder, engine=engine, device="cpu")  # type: ignore[arg-type]
    failed: list[tuple[int, str]] = []
    translations = translator.translate(LINES, options, on_failure=lambda row, reason: failed.append((row, reason)))
    assert failed == [(0, SCORES_NOT_FINITE), (2, SCORES_NOT_FINITE)]
    assert [(best.text, best.log_prob) for best in translations] == [("", -torch.inf), ("", 0.0), ("", -torch.inf)]
    with pytest.raises(UserError, match=r"^lines\[0\]: the model's scores are not finite"):
        translator.texts(LINES, options)


def test_given_translations_without_finite_scores_are_reported(folder: Path) -> None:
    translator = Translator.load(folder, engine="torch", device="cpu")
    failed: list[tuple[int, str]] = []
    for function, empty in ((force_decode, -torch.inf), (forced_links, frozenset())):
        results = function(translator, LINES, LINES, on_failure=lambda *failure: failed.append(failure))
        assert [getattr(result, "log_prob", result) for result in results] == [empty] * 3
        with pytest.raises(UserError, match=r"^pairs\[0\]: the model's scores are not finite"):
            function(translator, LINES, LINES)
    assert failed == [(row, SCORES_NOT_FINITE) for row in range(3)] * 2
