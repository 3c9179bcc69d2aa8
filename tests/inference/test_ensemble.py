"""An ensemble of a model with itself is the model, and its scores are the means of its models' scores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import MEMORY, forced_log_prob, refusal, save_random, tiny_config
from inference.random_translators import TOKENIZER, searches

from nmt.inference.ensemble import best_pieces
from nmt.inference.onnx.export import ENGINES
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

MEMBERS = ("feeding", "memory")
LINES = ["a dog", "two small cats sleep here today", "", "red", "a small dog sees two red houses here"]
SEARCHES = searches(SearchOptions(beam_size=4, n_best=3, max_length=8))


@pytest.fixture(scope="module")
def folders(vocabulary: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a model, and of two that do not fit."""
    folder = tmp_path_factory.mktemp("ensemble")
    config = tiny_config(MEMORY, size=16)
    save_random(folder / "memory", config, vocabulary, scale=3.0, eos_bias=3.0)
    save_random(folder / "other", config, TOKENIZER)
    config["data"]["lowercase"] = True
    save_random(folder / "lowercase", config, vocabulary)
    return {file.name: file for file in folder.iterdir()}


def flat(translations: list[Translation]) -> list[Translation]:
    return [best for translation in translations for best in translation.n_best]


@pytest.mark.parametrize("method", SEARCHES)
def test_ensemble_of_a_model_with_itself_is_the_model(folders: dict[str, Path], method: str) -> None:
    expected = flat(Translator.load(folders["memory"], engine="torch").translate(LINES, SEARCHES[method]))
    ensemble = Translator.load([folders["memory"]] * 3, engine="torch")
    for best, alone in zip(flat(ensemble.translate(LINES, SEARCHES[method])), expected, strict=True):
        assert best.tokens == alone.tokens
        assert best.log_prob == pytest.approx(alone.log_prob, rel=1e-6)
        np.testing.assert_allclose(best.alignment, alone.alignment, rtol=1e-5)


@pytest.mark.parametrize("k", [1, 6, 99, 1000, 10**9])
@pytest.mark.parametrize("impossible", [0.0, 0.999])
def test_best_pieces_are_the_first_of_all_in_order(k: int, impossible: float) -> None:
    random = np.random.default_rng(0)
    log_probs = random.normal(size=(3, 4, 1003))
    log_probs[random.random(log_probs.shape) < impossible] = -np.inf
    best, ids = best_pieces(log_probs, k)
    np.testing.assert_array_equal(best, np.flip(np.sort(log_probs, axis=2), axis=2)[..., :k])
    np.testing.assert_array_equal(np.take_along_axis(log_probs, ids, axis=2), best)
    assert all(len({*of_hypothesis}) == min(k, 1003) for of_hypothesis in ids.reshape(12, -1).tolist())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "engine"), [*((method, "torch") for method in SEARCHES), *(("beam", engine) for engine in ENGINES)]
)
def test_scores_are_means_and_do_not_depend_on_the_batch(
    exported_model: Callable[[str], Path], method: str, engine: Any
) -> None:
    folders = [*map(exported_model, MEMBERS)]
    members = [Translator.load(folder, engine=engine, threads=1) for folder in folders]
    ensemble = Translator.load(folders, engine=engine, threads=1)
    together = ensemble.translate(LINES, SEARCHES[method], prefixes=["", "two", "", "", "a s"])
    for line, prefix, translation in zip(LINES, ["", "two", "", "", "a s"], together, strict=True):
        [alone] = ensemble.translate([line], SEARCHES[method], prefixes=[prefix])
        assert [best.tokens for best in alone.n_best] == [best.tokens for best in translation.n_best]
        for best in translation.n_best:
            scores = [forced_log_prob(member, line, best.tokens) for member in members]
            assert best.log_prob == pytest.approx(np.mean(scores), rel=1e-4)
            assert best.text.startswith(prefix)


@pytest.mark.parametrize(
    ("names", "options", "start"),
    [
        ([], {}, "model=[]: "),
        (["memory", "other"], {}, "model=FOLDER/other: "),
        (["memory", "lowercase"], {}, "model=FOLDER/lowercase: "),
        (["memory", "memory"], {"shortlist": True, "engine": "onnx"}, "shortlist=true: "),
    ],
)
def test_models_that_do_not_fit_are_refused(
    folders: dict[str, Path], names: list[str], options: dict[str, Any], start: str
) -> None:
    message = refusal(Translator.load, [folders[name] for name in names], **{"engine": "torch", **options})
    assert message.startswith(start.replace("FOLDER", str(folders["other"].parent)))


def test_what_needs_one_model_is_refused(folders: dict[str, Path]) -> None:
    ensemble = Translator.load([folders["memory"]] * 2, engine="torch")
    assert refusal(ensemble.score, [("a", "b")]).startswith("an ensemble ")
