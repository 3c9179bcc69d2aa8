"""The Python interface: each method agrees with the command or function that it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import BAHDANAU, expect_error, save_random, tiny_config

import nmt
from nmt.alignment.aer import alignment_error_rate
from nmt.data.links import Links
from nmt.errors import UserError
from nmt.inference.model_folder import TrainedModel
from nmt.inference.scores import corpus_scores
from nmt.text.tokenizer import Tokenizer

SENTENCES = ["the dog sees a cat", "ein Hund sieht eine Katze"] * 20
PAIRS = [("the dog sees a cat", "ein Hund sieht eine Katze"), ("a cat", "eine Katze")]


def save_model(folder: Path, attention: dict[str, object], *, lowercase: bool = False) -> TrainedModel:
    torch.set_num_threads(1)
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=290)
    config = tiny_config(attention)
    config["data"]["lowercase"] = lowercase
    return save_random(folder, config, tokenizer, longest_source=20, seed=1, scale=3.0, eos_bias=-1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model."""
    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(folder, BAHDANAU)
    return folder


def test_evaluation_is_that_of_its_parts(folder: Path) -> None:
    translator = nmt.Translator.load(folder, engine="torch")
    sources, references = (list(side) for side in zip(*PAIRS, strict=True))
    golds = [Links(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))] * 2
    evaluation = translator.evaluate(sources, references, links=golds)
    expected = corpus_scores(evaluation.translations, references, ter=True)
    assert (evaluation.bleu, evaluation.chrf, evaluation.ter) == (expected.bleu, expected.chrf, expected.ter)
    assert evaluation.translations == translator.texts(sources)
    assert evaluation.aer == alignment_error_rate(translator.align(PAIRS), golds)
    assert set(evaluation.signatures) == {"bleu", "chrf", "ter", "aer"}
    expect_error("references: 1 for 2 sources; give one per source", translator.evaluate, sources, references[:1])


@pytest.mark.parametrize("lowercase", [True, False])
def test_case_counts_as_the_model_was_trained(tmp_path: Path, lowercase: bool) -> None:
    save_model(tmp_path / "model", BAHDANAU, lowercase=lowercase)
    translator = nmt.Translator.load(tmp_path / "model")
    evaluation = translator.evaluate(["a cat"], ["EINE Katze"])
    assert ("case:lc" in evaluation.signatures["bleu"]) == lowercase
    assert "case:lc" in translator.evaluate(["a cat"], ["EINE"], lowercase=True).signatures["bleu"]


def test_tokenizer_of_scores_is_given_or_that_of_the_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    translator = nmt.Translator.load(folder)
    for tokenizer, expected in ((None, "zh"), ("char", "char"), ("none", "none")):
        evaluation = translator.evaluate(
            ["a cat", "the dog"], ["今天天气很好。", "我们去看电影吧。"], tokenizer=tokenizer
        )
        assert f"|tok:{expected}|" in evaluation.signatures["bleu"]
        assert ("evaluation.tokenizer=zh: chosen because" in capsys.readouterr().err) == (tokenizer is None)
    expect_error(
        r"^evaluation\.tokenizer=thai: unknown to sacrebleu", translator.evaluate, ["a cat"], ["eine"], tokenizer="thai"
    )
    wrong: Any = "eine Katze"
    with pytest.raises(TypeError, match=r"^references='eine Katze': "):
        translator.evaluate(["a cat"], wrong)


@pytest.mark.filterwarnings("ignore:target text")  # random pieces spell invalid characters
def test_heatmap_has_a_row_per_target_word_and_shows_itself(folder: Path, tmp_path: Path) -> None:
    translator = nmt.Translator.load(folder, engine="torch")
    heatmap = translator.heatmap(*PAIRS[0], links={(0, 0), (4, 3)})
    assert heatmap.weights.shape == (5, 5) and np.all(heatmap.weights >= 0)
    assert heatmap.gold == translator.heatmap(*PAIRS[0], links="0-0 4p3").gold == {(0, 0), (4, 3)}
    html = heatmap._repr_html_()
    assert html.count("<td") == 30 and "Katze" in html and "<script" not in html
    assert repr(heatmap) == "Heatmap('Bahdanau attention, given translation', 5 × 5)"
    assert heatmap.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert heatmap.save(tmp_path / "a.pdf", title=False).read_bytes().startswith(b"%PDF")
    assert "given translation" in heatmap.save(tmp_path / "a.svg").read_text("utf-8")
    assert "given translation" not in heatmap.save(tmp_path / "b.svg", title=False).read_text("utf-8")
    page = heatmap.save(tmp_path / "a.html").read_text("utf-8")
    assert page.startswith("<!doctype html>") and "given translation" in page and page.count("<td") == 30
    assert html.count('class="gold"') == page.count('class="gold"') == 2
    own = translator.heatmap("the dog sees a cat")
    assert own.target == translator.texts(["the dog sees a cat"])[0].split()


@pytest.mark.parametrize(
    ("target", "settings", "key"),
    [
        (None, {"links": "0-0"}, "links"),
        (PAIRS[0][1], {"links": "0-0", "granularity": "piece"}, "links"),
        (PAIRS[0][1], {"links": "9-0"}, r"links\[0\]"),
        (PAIRS[0][1], {"links": 3}, r"links\[0\]=3"),
        (PAIRS[0][1], {"granularity": "letter"}, "granularity='letter'"),
    ],
)
def test_wrong_settings_of_a_heatmap_are_rejected(
    folder: Path, target: str | None, settings: dict[str, Any], key: str
) -> None:
    with pytest.raises((UserError, TypeError), match=f"^{key}[=:]"):
        nmt.Translator.load(folder, engine="torch").heatmap(PAIRS[0][0], target, **settings)


def test_a_model_without_attention_aligns_nothing(tmp_path: Path) -> None:
    save_model(tmp_path / "model", {"_target_": "nmt.attention.NoAttention"})
    translator = nmt.Translator.load(tmp_path / "model")
    assert np.isfinite(translator.score(PAIRS)[0].log_prob)
    expect_error("align", translator.align, PAIRS)
    expect_error("heatmap", translator.heatmap, "a cat")
    expect_error("markup", translator.texts, ["a <b>cat</b>"], markup=True)


@pytest.mark.parametrize("pairs", [["ab"], [("a",)], [("a", 3)], [("a", "b", "c")]])
def test_wrong_pairs_are_rejected(folder: Path, pairs: list[object]) -> None:
    with pytest.raises(TypeError, match=r"^(pairs|targets)\[0\]="):
        nmt.Translator.load(folder, engine="torch").score(pairs)  # type: ignore[arg-type]
