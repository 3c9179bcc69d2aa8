"""The Translator, forced decoding and model folders: scores and alignments agree, for every attention."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import random_trained, self_attention, tiny_config

from nmt.config.compose import train_config
from nmt.config.overrides import config_dir
from nmt.errors import UserError
from nmt.inference import forced_decoding
from nmt.inference.forced_decoding import ForcedDecoding, force_decode, forced_links
from nmt.inference.model_folder import FORMAT, TrainedModel, choose_device, load_folder, save_folder
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

TEXT = ["a small dog sees red houses", "ein kleiner Hund sieht rote Häuser", "two cats sleep here today"]
LINES = ["a dog", "two cats sleep here today", "houses", "a small dog sees red houses today"]
ATTENTIONS = {
    path.stem: train_config([f"attention={path.stem}"]).attention
    for path in sorted((config_dir() / "attention").glob("*.yaml"))
}
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
    translator = Translator(trained(name, feeding=feeding, layers=2))
    options = SearchOptions(beam_size=4, n_best=4, length_penalty=0.7, max_length=9)
    for line, best in zip(LINES, translator.translate(LINES, options), strict=True):
        for translation in best.n_best:
            tokenizer, tokens = translator.trained.target, translation.tokens
            if tokens[-1] != "</s>" or tokenizer.pieces(tokenizer.encode(translation.text)) != tokens[:-1]:
                continue  # cut at the maximum length, or the tokenizer splits the text into other pieces
            forced = force_decode(translator, [line], [translation.text])[0]
            assert forced.log_prob == pytest.approx(translation.log_prob, abs=1e-4)
            assert translation.score == pytest.approx(translation.log_prob / ((5 + len(tokens)) / 6) ** 0.7, abs=1e-6)
            assert sum(translation.token_log_probs) == pytest.approx(translation.log_prob)
            np.testing.assert_allclose(translation.alignment, forced.alignment, atol=1e-5)


def test_forced_links_hold_the_alignments_of_one_batch_only(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator(trained("bahdanau"))
    weights = [forced_decoding.word_weights(decoding) for decoding in force_decode(translator, LINES, LINES[::-1])]
    alive: list[weakref.ref[np.ndarray]] = []

    def checked_weights(decoding: ForcedDecoding) -> np.ndarray:
        alive.append(weakref.ref(decoding.alignment))
        assert [reference() is None for reference in alive] == [True] * (len(alive) - 1) + [False]
        return word_weights(decoding)

    word_weights = forced_decoding.word_weights
    monkeypatch.setattr(forced_decoding, "batches_by_length", lambda lengths, max_tokens: [[3], [0], [2], [1]])
    monkeypatch.setattr(forced_decoding, "word_weights", checked_weights)
    expected = [{(int(row.argmax()), j) for j, row in enumerate(matrix)} for matrix in weights]
    assert forced_links(translator, LINES, LINES[::-1]) == expected


@pytest.mark.parametrize("name", [*ATTENTIONS, *TRANSFORMERS])
def test_translation_and_forced_decoding_do_not_depend_on_the_batch(name: str) -> None:
    translator = Translator(trained(name), max_tokens=30)
    options = SearchOptions(max_length=9)
    *translated, blank = translator.translate([*LINES, ""], options)
    assert blank.text == "" and blank.alignment is None
    forced = force_decode(translator, LINES, LINES[::-1])
    for source, target, *together in zip(LINES, LINES[::-1], translated, forced, strict=True):
        alone = [*translator.translate([source], options), *force_decode(translator, [source], [target])]
        for batched, single in zip(together, alone, strict=True):
            assert (single.source_tokens, single.tokens) == (batched.source_tokens, batched.tokens)
            assert single.log_prob == pytest.approx(batched.log_prob)
            np.testing.assert_allclose(single.alignment, batched.alignment, atol=1e-6)


def test_any_iterable_of_strings_is_accepted() -> None:
    translator = Translator(trained("none"))
    expected = translator.texts(LINES)
    assert translator.texts(tuple(LINES)) == translator.texts(line for line in LINES) == expected


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["a dog", None, 3], None, r"lines\[1\]=None: NoneType, not a string; give text"),
        ("a dog", None, r"lines='a dog': one string; give a list of lines"),
        (b"a dog", None, r"lines=b'a dog': bytes; give a list of lines"),
        ([b"a dog"], None, r"lines\[0\]=b'a dog': bytes, not a string; give text"),
        (LINES, {"beam_size": 3}, r"options=\{'beam_size': 3\}: dict; give SearchOptions\(.*"),
        (LINES, {}, r"options=\{\}: dict; give SearchOptions\(.*"),
    ],
)
def test_arguments_of_another_type_are_rejected(lines: Any, options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        Translator(trained("none")).texts(lines, options)


def test_unknown_engine_and_no_folder_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^engine=onxx: must be auto \| torch \| onnx \| onnx-int8$"):
        Translator.load(tmp_path, engine="onxx")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^model='runs/demo': not a loaded model; use Translator.load\(FOLDER\)$"):
        Translator("runs/demo")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^model=None: NoneType; give a list of folders$"):
        Translator.load(None)  # type: ignore[arg-type]


def unfinished(folder: Path) -> None:
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "last.ckpt").touch()


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda folder: None, "has no model.pt"),
        (unfinished, r"has no model\.pt; finish .* nmt-train name=mine resume=true, or name"),
        (lambda folder: os.mkfifo(folder / "model.pt"), r"has no model\.pt"),
        (lambda folder: (folder / "model.pt").write_bytes(b"nonsense"), "cannot be read as a model"),
        *(
            (lambda folder, stored=stored: torch.save(stored, folder / "model.pt"), message)
            for stored, message in (
                (
                    {"format": FORMAT + 1, "weights": {}},
                    "format 2, but this version reads format 1; update the toolkit",
                ),
                ({"weights": {}}, "not a model of this toolkit"),
                ({"format": FORMAT, "weights": {}}, "do not match"),
            )
        ),
    ],
)
def test_folder_without_a_model_is_refused(tmp_path: Path, write: Callable[[Path], object], message: str) -> None:
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine")
    with pytest.raises(UserError, match=rf"mine(/model\.pt)?: .*{message}"):
        Translator.load(tmp_path / "mine")


def test_a_class_of_an_untrusted_package_is_refused(tmp_path: Path) -> None:
    model = trained("memory")
    model.config["attention"] = {"_target_": "antigravity.Attention"}
    save_folder(tmp_path, model)
    with pytest.raises(UserError, match=r"'antigravity' is not trusted.*trust=\[antigravity\]"):
        load_folder(tmp_path)


def test_an_unavailable_device_is_rejected() -> None:
    with pytest.raises(UserError, match="device=nonsense"):
        choose_device("nonsense")


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
    model.config["data"]["remove_invisible"] = "everything"
    save_folder(tmp_path, model)
    with pytest.raises(UserError, match="must be null, bom or all"):
        load_folder(tmp_path)
