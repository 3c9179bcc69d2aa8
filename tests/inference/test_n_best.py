"""n-best lists: translations differ in their text, samples may be equal, and no text looks like a separator."""

from __future__ import annotations

import pytest
from builders import random_model, tiny_config, trained_model

from nmt.inference.translation import Translation, output_lines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.search.search import search
from nmt.text.tokenizer import Tokenizer

LINES = ["a b", "b a a", "a", "b b b a", "a a a a a"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A model whose few pieces spell equal texts in many ways: a, b, ab, ▁, ▁a, …"""
    tokenizer = Tokenizer.train(["a b ab aab abb bab ba bb aa"], vocab_size=268)
    config = tiny_config({"_target_": "nmt.attention.LuongAttention"})
    model = random_model(config, vocabulary=len(tokenizer), scale=3.0, eos_bias=4.0)
    with_few_pieces = model.decoder.output.bias.data
    with_few_pieces[4:260] = -50  # no bytes, which are rarely valid text
    return Translator(trained_model(config, tokenizer, model))


def naive_texts(translator: Translator, line: str, options: SearchOptions) -> list[str]:
    """Return the different texts of all endings of the beam, best first."""
    texts: list[str] = []
    engine = translator.runtime.engine(trace=False)
    every = SearchOptions(beam_size=options.beam_size, n_best=options.beam_size, max_length=options.max_length)
    [hypotheses] = search(engine, [translator.encode(line)], every)
    for hypothesis in hypotheses:
        text = translator.runtime.target.decode(hypothesis.tokens)
        if text not in texts:
            texts.append(text)
    return texts


@pytest.mark.parametrize("n_best", [2, 4, 12])
def test_translations_of_a_line_differ(translator: Translator, n_best: int) -> None:
    options = SearchOptions(beam_size=12, n_best=n_best, max_length=6)
    repeated = 0
    for line, translation in zip(LINES, translator.translate(LINES, options), strict=True):
        texts = [best.text for best in translation.n_best]
        expected = naive_texts(translator, line, options)
        repeated += len(expected) < 12
        assert texts == expected[:n_best]
        assert translation.text == texts[0]
        assert [best.score for best in translation.n_best] == sorted(
            (b.score for b in translation.n_best), reverse=True
        )
    assert repeated  # otherwise the model does not spell a text twice, and the test proves nothing


def test_samples_are_draws_and_may_repeat(translator: Translator) -> None:
    options = SearchOptions(temperature=0.01, n_best=6, max_length=6)
    assert [len(translation.n_best) for translation in translator.translate(LINES, options)] == [6] * len(LINES)


@pytest.mark.parametrize("text", ["a ||| b", "|||", "a |||| b", "|||||||", "x|||y", "a || b | c", "ends in ||"])
def test_output_has_three_columns(text: str) -> None:
    best = Translation(text, score=-1.5)
    for line in output_lines(7, Translation(text, n_best=[best, best]), n_best=2, scores=False):
        row, shown, score = line.split(" ||| ")
        assert (row, shown.replace("&#124;", "|"), score) == ("7", text, "-1.500000")
        assert "|||" not in shown
