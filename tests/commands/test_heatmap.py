"""nmt-heatmap: draws given pairs and the model's own translations, as pictures or as one page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import call_before, expect_error, write_lines
from commands.texts import SOURCE, TARGET, Call

import nmt.alignment.heatmap
from nmt.commands.heatmap import heatmap
from nmt.inference.forced_decoding import force_decode, word_weights
from nmt.inference.translator import Translator


@pytest.fixture
def words(model: Path, files: Path) -> list[str]:
    """The arguments that name the model and the source, and write into the folder o."""
    return [f"model={model}", "src=src", "output=o"]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of each picture that is drawn."""
    pictures: list[tuple[Any, ...]] = []
    for name in ("draw_heatmap", "draw_slots"):
        call_before(monkeypatch, nmt.alignment.heatmap, name, lambda *given, **_: pictures.append(given))
    return pictures


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("suffix", "granularity", "start"),
    [("png", "word", b"\x89PNG"), ("svg", "piece", b"<?xml")],
)
def test_own_translations_are_drawn_as_pictures(
    suffix: str, granularity: str, start: bytes, words: list[str], call: Call
) -> None:
    settings = ["output=a/b", "limit=3", f"format={suffix}", f"granularity={granularity}"]
    pictures = [Path(line) for line in call(heatmap, *words, *settings).lines]
    assert pictures == [Path(f"a/b/0001.{suffix}"), Path(f"a/b/0003.{suffix}")]  # blank lines are not drawn
    assert sorted(Path("a/b").glob("[!.]*")) == pictures
    assert all(file.read_bytes().startswith(start) for file in pictures)


def test_pictures_of_the_user_are_not_replaced(words: list[str]) -> None:
    mine = Path("o/0001.png")
    mine.parent.mkdir()
    mine.write_text("mine")
    expect_error("o", heatmap, [*words, "limit=1"])
    assert mine.read_text() == "mine"


def test_pairs_beyond_the_limit_are_counted(words: list[str], call: Call) -> None:
    cut, whole = (call(heatmap, *words, "format=html", f"limit={limit}").error for limit in (3, len(SOURCE)))
    assert f"{len(SOURCE)}" in cut.partition("limit=3")[2] and "limit=" not in whole


def test_word_weights_of_given_pairs_are_force_decoded(
    model: Path, words: list[str], drawn: list[tuple[Any, ...]]
) -> None:
    heatmap([*words, "tgt=tgt"])
    decodings = force_decode(Translator.load(model), SOURCE, TARGET)
    for row, (weights, source, target, _) in zip((0, 2, 3), drawn, strict=True):
        np.testing.assert_allclose(weights, word_weights(decodings[row]), atol=1e-6)
        assert (source, target) == (SOURCE[row].split(), TARGET[row].split())


@pytest.mark.filterwarnings("ignore:no installed font has")
def test_chinese_sentence_is_split_into_pieces_without_links(words: list[str], drawn: list[tuple[Any, ...]]) -> None:
    for name, line in {"src": "我喜欢猫 dog", "tgt": "Hund", "links": "1-0"}.items():
        write_lines(name, [line])
    for links in ("null", "links"):  # gold links count words
        heatmap([*words, "tgt=tgt", f"links={links}"])
    assert [source for _, source, *_ in drawn] == [[*"我喜欢猫", "dog"], ["我喜欢猫", "dog"]]
    assert [weights.shape for weights, *_ in drawn] == [(1, 5), (1, 2)]


@pytest.mark.parametrize("given", [["tgt=tgt"], []], ids=str)
def test_slots_are_drawn_for_each_pair(
    given: list[str], nested: Path, words: list[str], drawn: list[tuple[Any, ...]]
) -> None:
    heatmap([*words, f"model={nested}", "granularity=slot", "limit=1", *given])
    ((write, read, source, target),) = drawn
    assert (read.shape, write.shape) == ((len(target), 6), (6, len(source)))
    if given:
        (pair,) = force_decode(Translator.load(nested, engine="torch"), SOURCE[:1], TARGET[:1])
        np.testing.assert_allclose(read @ write, pair.alignment, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("attention", "options"),
    [("KernelAttention", {"feature_map": "taylor"}), ("CovarianceAttention", {})],  # the first has positive sums only
)
def test_attentions_with_negative_weights_have_no_pictures_of_slots(
    attention: str, options: dict[str, str], make_model: Callable[..., Path], words: list[str]
) -> None:
    model = make_model(attention, **options)
    expect_error("granularity", heatmap, [*words, f"model={model}", "tgt=tgt", "granularity=slot", "limit=1"])
    assert not Path("o").exists()
