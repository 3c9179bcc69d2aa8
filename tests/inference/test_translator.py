"""Search over the real model keeps the laws, for every attention, with input feeding on and off."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from builders import random_model, tiny_config

from nmt.config import config_dir, train_config
from nmt.errors import UserError
from nmt.inference import forced
from nmt.inference.forced import force, forced_links
from nmt.inference.model_folder import FORMAT, TrainedModel, choose_device, load_folder, save_folder
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

TEXT = ["a small dog sees red houses", "ein kleiner Hund sieht rote Häuser", "two cats sleep here today"]
LINES = ["a dog", "two cats sleep here today", "houses", "a small dog sees red houses today"]
ATTENTIONS = {
    path.stem: train_config([f"attention={path.stem}"])["attention"]
    for path in sorted((config_dir() / "attention").glob("*.yaml"))
}


def trained(attention: dict[str, Any], *, feeding: bool = False, layers: int = 1) -> TrainedModel:
    tokenizer = Tokenizer.train(TEXT, vocab_size=290)
    config = tiny_config(attention, encoder={"layers": layers}, decoder={"layers": layers, "input_feeding": feeding})
    longest = 40 if "LowRank" in attention["_target_"] else 12  # the others meet longer sources than they know
    model = random_model(config, longest_source=longest, scale=2, eos_bias=3)
    return TrainedModel(model.double(), tokenizer, tokenizer, config, 12)


@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_score_is_that_of_forced_decoding(name: str, feeding: bool) -> None:
    translator = Translator(trained(ATTENTIONS[name], feeding=feeding, layers=2))
    options = SearchOptions(beam_size=4, n_best=4, length_penalty=0.7, max_length=9)
    for line, best in zip(LINES, translator.translate(LINES, options), strict=True):
        for one in best.n_best:
            if (
                one.tokens[-1] != "</s>"
                or translator.trained.target.pieces(translator.trained.target.encode(one.text)) != one.tokens[:-1]
            ):
                continue  # cut short, or pieces that the tokenizer itself would choose otherwise
            given = force(translator, [line], [one.text])[0]
            assert given.log_prob == pytest.approx(one.log_prob, abs=1e-4)
            assert one.score == pytest.approx(one.log_prob / ((5 + len(one.tokens)) / 6) ** 0.7, abs=1e-6)
            np.testing.assert_allclose(one.alignment, given.alignment, atol=1e-5)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_neighbours_change_no_forced_translation(name: str) -> None:
    translator = Translator(trained(ATTENTIONS[name]))
    for source, target, one in zip(LINES, LINES[::-1], force(translator, LINES, LINES[::-1]), strict=True):
        [alone] = force(translator, [source], [target])
        assert one.log_prob == pytest.approx(alone.log_prob, abs=1e-4)
        assert (one.source_tokens, one.tokens) == (alone.source_tokens, alone.tokens)
        np.testing.assert_allclose(one.alignment, alone.alignment, atol=1e-6)


def test_links_are_where_each_word_looks_and_hold_no_more_than_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator(trained(ATTENTIONS["bahdanau"]))
    weights = [forced.word_weights(one) for one in force(translator, LINES, LINES[::-1])]
    alive: list[weakref.ref[np.ndarray]] = []

    def looked_at(one: forced.Forced) -> np.ndarray:
        alive.append(weakref.ref(one.alignment))
        assert [reference() is None for reference in alive] == [True] * (len(alive) - 1) + [False]
        return forced_weights(one)

    forced_weights = forced.word_weights
    monkeypatch.setattr(forced, "batches_by_length", lambda lengths, max_tokens: [[3], [0], [2], [1]])
    monkeypatch.setattr(forced, "word_weights", looked_at)
    expected = [{(int(row.argmax()), j) for j, row in enumerate(one)} for one in weights]
    assert forced_links(translator, LINES, LINES[::-1]) == expected


@pytest.mark.parametrize("name", sorted(set(ATTENTIONS) - {"none"}))
def test_coverage_is_that_of_the_alignment(name: str) -> None:
    translator = Translator(trained(ATTENTIONS[name]))
    options = SearchOptions(beam_size=4, n_best=4, length_penalty=0.7, coverage_penalty=0.4, max_length=9)
    for best in translator.translate(LINES, options):
        for one in best.n_best:
            assert one.alignment is not None
            shares = np.abs(one.alignment) / np.abs(one.alignment).sum(0)
            covered = 0.4 * np.log(shares.sum(1).clip(1e-9, 1)).sum()
            plain = one.log_prob / ((5 + len(one.tokens)) / 6) ** 0.7
            assert one.score == pytest.approx(plain + covered, rel=1e-4)
    assert translator.texts(LINES, options) == [one.text for one in translator.translate(LINES, options)]


def test_coverage_needs_an_attention() -> None:
    with pytest.raises(UserError, match="no attention and covers nothing"):
        Translator(trained(ATTENTIONS["none"])).texts(LINES, SearchOptions(coverage_penalty=0.1))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_neighbours_change_nothing(name: str) -> None:
    translator = Translator(trained(ATTENTIONS[name]), max_tokens=30)
    together = translator.translate([*LINES, ""], SearchOptions(max_length=9))
    assert together[-1].text == "" and together[-1].alignment is None
    for line, one in zip(LINES, together, strict=False):
        alone = translator.translate([line], SearchOptions(max_length=9))[0]
        assert alone.tokens == one.tokens
        assert alone.log_prob == pytest.approx(one.log_prob)
        np.testing.assert_allclose(alone.alignment, one.alignment, atol=1e-6)


def test_one_string_is_no_list_of_lines() -> None:
    with pytest.raises(TypeError, match="'a dog': one string; give a list of lines"):
        Translator(trained(ATTENTIONS["none"])).translate("a dog")


def test_lines_may_be_any_iterable_of_strings() -> None:
    translator = Translator(trained(ATTENTIONS["none"]))
    expected = translator.texts(LINES)
    assert translator.texts(tuple(LINES)) == translator.texts(line for line in LINES) == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a dog", None, 3], r"lines\[1\]=None: NoneType, no string"),
        (b"a dog", r"lines\[0\]=97: int, no string"),
        ([b"a dog"], r"lines\[0\]=b'a dog': bytes, no string"),
    ],
)
def test_what_is_no_line_is_named(lines: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        Translator(trained(ATTENTIONS["none"])).texts(lines)


@pytest.mark.parametrize("options", [{"beam_size": 3}, {}, 5, "greedy"])
def test_options_of_another_type_are_named(options: Any) -> None:
    with pytest.raises(TypeError, match=rf"^options=.*: {type(options).__name__}; give SearchOptions\("):
        Translator(trained(ATTENTIONS["none"])).texts(LINES, options)


def test_an_engine_that_is_none_is_named(tmp_path: Path) -> None:
    save_folder(tmp_path, trained(ATTENTIONS["memory"]))
    with pytest.raises(UserError, match=r"^engine=onxx: must be auto \| torch \| onnx \| onnx-int8$"):
        Translator.load(tmp_path, engine="onxx")  # type: ignore[arg-type]


def test_without_graphs_the_fastest_engine_is_torch(tmp_path: Path) -> None:
    save_folder(tmp_path, trained(ATTENTIONS["memory"]))
    assert isinstance(Translator.load(tmp_path, engine="auto").runtime, TrainedModel)


def test_a_folder_gives_back_the_model(tmp_path: Path) -> None:
    model = trained(ATTENTIONS["memory"])
    save_folder(tmp_path, model)
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]
    again = load_folder(tmp_path)
    assert again.longest_source == 12
    assert again.target is again.source
    expected = Translator(model).texts(LINES)
    again.model.double()
    assert Translator(again).texts(LINES) == expected


def store(folder: Path, stored: Any) -> None:
    torch.save(stored, folder / "model.pt")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "has no model.pt"),
        (b"nonsense", "cannot be read as a model"),
        (b"\x80\x02.", "cannot be read as a model .*; it may be truncated"),  # a pickle of nothing: IndexError
        ({"format": FORMAT + 1, "weights": {}}, "newer than this version"),
        ({"weights": {}}, "not a model of this toolkit"),
        ([1], "not a model of this toolkit"),
        ({"format": FORMAT, "weights": {}}, "do not fit each other"),
    ],
    ids=str,
)
def test_what_is_no_model_is_refused(tmp_path: Path, contents: Any, message: str) -> None:
    if isinstance(contents, bytes):
        (tmp_path / "model.pt").write_bytes(contents)
    elif contents is not None:
        store(tmp_path, contents)
    with pytest.raises(UserError, match=message):
        load_folder(tmp_path)


def test_a_truncated_model_is_refused(tmp_path: Path) -> None:
    save_folder(tmp_path, trained(ATTENTIONS["memory"]))
    whole = (tmp_path / "model.pt").read_bytes()
    (tmp_path / "model.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="cannot be read as a model"):
        load_folder(tmp_path)


def test_weights_that_are_not_those_that_were_written_are_refused(tmp_path: Path) -> None:
    save_folder(tmp_path, trained(ATTENTIONS["memory"]))
    whole = bytearray((tmp_path / "model.pt").read_bytes())
    with ZipFile(tmp_path / "model.pt") as parts:
        largest = max(parts.infolist(), key=lambda part: part.file_size)
    middle = largest.header_offset + largest.file_size // 2  # torch would load these zeros as weights
    whole[middle : middle + 64] = bytes(64)
    (tmp_path / "model.pt").write_bytes(whole)
    with pytest.raises(
        UserError, match=r"cannot be read as a model \(.* is not what was written\); it may be truncated"
    ):
        load_folder(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda config: config.pop("data"),
        lambda config: config.update(data={}),
        lambda config: config.update(data=3),
        lambda config: config["attention"].update(heads=0),
        lambda config: config["encoder"].update(hidden_size="8"),
    ],
)
def test_a_damaged_configuration_is_one_line(tmp_path: Path, damage: Callable[[dict[str, Any]], Any]) -> None:
    inner = {"_target_": "nmt.attention.LuongAttention"}
    model = trained({"_target_": "nmt.attention.MultiHeadAttention", "inner": inner, "heads": 2})
    damage(model.config)
    save_folder(tmp_path, model)
    with pytest.raises(UserError, match="model.pt: its parts do not fit each other"):
        load_folder(tmp_path)


class Payload:
    """Pickled code: what a malicious checkpoint would carry."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('the code ran')",))


def test_a_model_that_carries_code_is_refused(tmp_path: Path) -> None:
    store(tmp_path, {"format": 1, "weights": {}, "config": Payload()})
    with pytest.raises(UserError, match="cannot be read as a model"):
        load_folder(tmp_path)


def test_a_model_with_a_strange_class_is_refused_unless_trusted(tmp_path: Path) -> None:
    model = trained(ATTENTIONS["memory"])
    model.config["attention"] = {"_target_": "antigravity.Attention"}
    save_folder(tmp_path, model)
    with pytest.raises(UserError, match=r"'antigravity' is not trusted.*trust=\[antigravity\]"):
        load_folder(tmp_path)


def test_an_absent_device_is_named() -> None:
    with pytest.raises(UserError, match="device=nonsense"):
        choose_device("nonsense")
