"""The Translator, forced decoding and model folders: scores and alignments agree, for every attention."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attention.blocks import STEMS, read_block
from builders import forced_log_prob, random_trained, self_attention, tiny_config

from nmt.alignment.word_weights import normalise_rows
from nmt.inference.forced_decoding import force_decode, slot_weights
from nmt.inference.model_folder import TrainedModel, load_folder, save_folder
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

TEXT = ["a small dog sees red houses", "ein kleiner Hund sieht rote Häuser", "two cats sleep here today"]
LINES = ["a dog", "two cats sleep here today", "houses", "a small dog sees red houses today"]
ATTENTIONS = {stem: read_block(stem) for stem in STEMS}
ATTENTIONS["multi_head"]["inner"] = read_block("luong")
TRANSFORMERS = {f"transformer {kind}": kind for kind in ("softmax", "linear")}


def trained(name: str, *, feeding: bool = False, layers: int = 1) -> TrainedModel:
    """Return a model with this attention between LSTMs, or a Transformer with memory attention."""
    tokenizer = Tokenizer.train(TEXT, vocab_size=290)
    attention = deepcopy(ATTENTIONS["memory" if name in TRANSFORMERS else name])
    settings: list[dict[str, Any]] = [{"layers": layers}, {"layers": layers, "input_feeding": feeding}]
    if name in TRANSFORMERS:
        sizes = {"layers": 2, "heads": 2, "self_attention": self_attention(TRANSFORMERS[name])}
        settings = [{"_target_": f"nmt.model.Transformer{part}", **sizes} for part in ("Encoder", "Decoder")]
    config = tiny_config(attention, encoder=settings[0], decoder=settings[1])
    longest = 40 if "LowRank" in attention["_target_"] else 12  # the others get longer sources than in training
    trained = random_trained(config, tokenizer, longest_source=longest, scale=2, eos_bias=3)
    trained.model.double()
    return replace(trained, longest_source=12)


@pytest.mark.parametrize(
    ("name", "feeding"),
    [*((name, False) for name in [*ATTENTIONS, *TRANSFORMERS]), ("bahdanau", True), ("memory", True)],
)
def test_score_equals_forced_decoding(name: str, feeding: bool) -> None:
    """The score of single steps, of a batch of targets, and of a translation that is spelled as the tokenizer does."""
    model = trained(name, feeding=feeding, layers=2)
    inner = [number > 3 and piece[0] != "▁" for number, piece in enumerate(model.target.all_pieces)]
    model.model.decoder.output.bias.data[inner] -= 50  # so that the tokenizer spells the text with the same pieces
    translator, tokenizer, spelled = Translator(model, max_tokens=30), model.target, 0
    options = SearchOptions(beam_size=4, n_best=4, length_penalty=0.7, max_length=9)
    *translations, blank = translator.translate([*LINES, ""], options)
    assert blank.text == "" and blank.alignment is None
    for line, best in zip(LINES, translations, strict=True):
        for translation in best.n_best:
            tokens = translation.tokens
            assert translation.log_prob == pytest.approx(forced_log_prob(translator, line, tokens), rel=1e-4)
            assert translation.score == pytest.approx(translation.log_prob / ((5 + len(tokens)) / 6) ** 0.7, abs=1e-6)
            assert sum(translation.token_log_probs) == pytest.approx(translation.log_prob)
            if [*tokenizer.pieces(tokenizer.encode(translation.text)), "</s>"] == tokens:
                [forced] = force_decode(translator, [line], [translation.text])
                assert forced.log_prob == pytest.approx(translation.log_prob, abs=1e-4)
                np.testing.assert_allclose(translation.alignment, forced.alignment, atol=1e-5)
                spelled += 1
    assert spelled
    for line, text, forced in zip(LINES, TEXT * 2, force_decode(translator, LINES, (TEXT * 2)[:4]), strict=False):
        tokens = [*tokenizer.pieces(tokenizer.encode(text)), "</s>"]
        assert forced.log_prob == pytest.approx(forced_log_prob(translator, line, tokens), rel=1e-4)
        if slots := slot_weights(translator, line, text):  # of all heads and layers, whose mean is the alignment
            shares = normalise_rows(slots.read @ slots.write)
            np.testing.assert_allclose(shares, normalise_rows(forced.alignment), atol=1e-4)


@pytest.mark.parametrize(
    ("setting", "line"), [("bom", "a\fsmall\x1b[0m \x7f \ufeffdog"), ("all", "a sm\u00adall\u200b dog\u200e")]
)
def test_invisible_characters_are_removed_as_in_training(tmp_path: Path, setting: str, line: str) -> None:
    model = trained("bahdanau")
    old = Translator(model)
    assert old.change_text(line) == line  # a model of an earlier version
    model.config["data"]["remove_invisible"] = setting
    save_folder(tmp_path, model)
    translator = Translator(load_folder(tmp_path))
    assert translator.encode(line) == translator.encode("a small dog")
    first, second, blank = translator.translate([line, "a small dog", " \ufeff "])
    assert first.log_prob == pytest.approx(second.log_prob) and (blank.text, blank.log_prob) == ("", 0)
    [scored, same] = force_decode(translator, [line, "a small dog"], ["two \ufeffcats", "two cats"])
    assert scored.tokens == same.tokens and scored.log_prob == pytest.approx(same.log_prob)
