"""n-best lists: translations differ in their text, samples may be equal, and no text looks like a separator."""

from __future__ import annotations

from dataclasses import replace
from math import log, nan
from statistics import mean
from typing import Any

import pytest
from builders import LUONG, random_trained, tiny_config
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import sentence_chrf

from nmt.inference.translation import ScoreColumn, Translation, output_lines, written_translations
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.search.search import search
from nmt.text.tokenizer import Tokenizer

ENDLESS = st.just(float("-inf"))
LINES = ["a b", "b a a", "a", "b b b a", "a a a a a"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A model whose few pieces spell equal texts in many ways: a, b, ab, ▁, ▁a, …"""
    tokenizer = Tokenizer.train(["a b ab aab abb bab ba bb aa"], vocab_size=268)
    trained = random_trained(tiny_config(LUONG), tokenizer, scale=3.0, eos_bias=4.0)
    with_few_pieces = trained.model.decoder.output.bias.data
    with_few_pieces[4:260] = -50  # no bytes, which are rarely valid text
    return Translator(trained)


def naive_texts(translator: Translator, line: str, options: SearchOptions) -> list[str]:
    """Return the different texts of all endings of the beam, best first."""
    texts: list[str] = []
    engine = translator.loaded_model.engine(trace=False)
    every = SearchOptions(beam_size=options.beam_size, n_best=options.beam_size, max_length=options.max_length)
    [hypotheses] = search(engine, [translator.encode(line)], every)
    for hypothesis in hypotheses:
        text = translator.loaded_model.target.decode(hypothesis.tokens)
        if text and text not in texts:
            texts.append(text)
    return texts


@pytest.mark.parametrize("n_best", [2, 4, 12])
def test_translations_of_a_line_differ(translator: Translator, n_best: int) -> None:
    options = SearchOptions(beam_size=12, n_best=n_best, max_length=6)
    repeated = 0
    for line, translation in zip(LINES, translator.translate(LINES, options), strict=True):
        texts = [best.text for best in translation.n_best]
        expected = naive_texts(translator, line, options)
        repeated += len(expected) < 11
        assert texts == expected[:n_best]
        assert translation.text == texts[0]
        assert [best.score for best in translation.n_best] == sorted(
            (b.score for b in translation.n_best), reverse=True
        )
    assert repeated  # otherwise the model does not spell a text twice, and the test proves nothing


def test_samples_are_draws_and_may_repeat(translator: Translator) -> None:
    options = SearchOptions(temperature=0.01, n_best=6, max_length=6)
    assert [len(translation.n_best) for translation in translator.translate(LINES, options)] == [6] * len(LINES)


@pytest.mark.parametrize("method", [{"beam_size": 8}, {"temperature": 1.0}])
def test_mbr_chooses_the_text_with_the_highest_mean_chrf(translator: Translator, method: dict[str, Any]) -> None:
    candidates = SearchOptions(n_best=8, max_length=6, **method)
    chosen = replace(candidates, n_best=3, mbr=8)
    changed = 0
    for every, few in zip(translator.translate(LINES, candidates), translator.translate(LINES, chosen), strict=True):
        texts = [best.text for best in every.n_best]
        means = {
            text: mean(sentence_chrf(text, [other]).score for other in texts[:at] + texts[at + 1 :])
            for at, text in enumerate(texts)
        }
        best = sorted(means.values(), reverse=True)[:3]
        assert [means[translation.text] for translation in few.n_best] == pytest.approx(best)
        changed += few.text != every.text
    assert changed


@pytest.mark.parametrize("scores", [False, True, "confidence"])
@pytest.mark.parametrize("n_best", [1, 2])
@given(
    texts=st.lists(st.text(st.sampled_from("a .|-;#&\t0")), min_size=1, max_size=3), score=st.floats(-1e3, 0) | ENDLESS
)
def test_written_translations_are_read_back(n_best: int, scores: ScoreColumn, texts: list[str], score: float) -> None:
    best = [Translation(text, score=score, log_prob=score) for text in texts]
    lines = output_lines([replace(one, n_best=[one] * n_best) for one in best], 7, n_best=n_best, scores=scores)
    assert [*written_translations(lines, "")] == [[text] * n_best for text in texts]


def test_the_confidence_of_a_word_is_the_mean_probability_of_its_tokens() -> None:
    probabilities = [0.5, 0.8, 0.2, nan, 0.9]  # the last one is that of </s>
    best = Translation(
        "New York is big",
        tokens=["▁New▁York", "▁is", "▁b", "▁big", "</s>"],
        spans=[(0, 8), (9, 11), (-1, -1), (12, 15)],
        token_log_probs=[log(probability) for probability in probabilities],
    )
    assert best.word_confidences == pytest.approx([0.5, 0.5, 0.8, nan], nan_ok=True)
    halves = replace(best, text="New is", spans=[(-1, -1), (4, 5), (4, 6), (-1, -1)])
    assert halves.word_confidences == pytest.approx([nan, (0.8 * 0.2) ** 0.5], nan_ok=True)
    assert replace(best, spans=[]).word_confidences == []
