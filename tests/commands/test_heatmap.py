"""nmt-heatmap: draws given pairs and the model's own translations, as pictures or as one page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders import expect_error, write_lines
from commands.texts import SOURCE, TARGET, Call

from nmt.commands.heatmap import heatmap
from nmt.inference.forced_decoding import force_decode, word_weights
from nmt.inference.translator import Translator

LINKED = ["src=src", "tgt=tgt", "links=links", "output=o"]


@pytest.fixture
def words(model: Path, files: Path) -> list[str]:
    """The arguments that name the model and the source, and write into the folder o."""
    write_lines("links", ["0-0 1p1", "", "0-0", "0-0"])
    return [f"model={model}", "src=src", "output=o"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("suffix", "granularity", "start"),
    [("png", "word", b"\x89PNG"), ("svg", "piece", b"<?xml"), ("pdf", "word", b"%PDF")],
)
def test_own_translations_are_drawn_as_pictures(
    suffix: str, granularity: str, start: bytes, words: list[str], call: Call
) -> None:
    settings = ["output=a/b", "limit=3", f"format={suffix}", f"granularity={granularity}"]
    pictures = [Path(line) for line in call(heatmap, *words, *settings).lines]
    assert pictures == [Path(f"a/b/0001.{suffix}"), Path(f"a/b/0003.{suffix}")]  # blank lines are not drawn
    assert sorted(Path("a/b").glob("[!.]*")) == pictures
    assert all(file.read_bytes().startswith(start) for file in pictures)


def drawn_weights(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[np.ndarray, list[str], list[str]]]:
    """Run the command and return the weights of each picture with the labels of its columns and rows."""
    pictures: list[tuple[np.ndarray, list[str], list[str]]] = []

    def record(weights: np.ndarray, source: list[str], target: list[str], *_: object, **__: object) -> None:
        pictures.append((weights, source, target))

    monkeypatch.setattr("nmt.alignment.heatmap.save_heatmap", record)
    heatmap(arguments)
    return pictures


@pytest.mark.parametrize("suffix", ["png", "html"])
def test_pictures_of_the_user_are_not_replaced(suffix: str, words: list[str]) -> None:
    mine = Path("o") / ("alignments.html" if suffix == "html" else f"0001.{suffix}")
    mine.parent.mkdir()
    mine.write_text("mine")
    expect_error("o", heatmap, [*words, f"format={suffix}", "limit=1"])
    assert mine.read_text() == "mine"


def test_word_weights_of_given_pairs_are_force_decoded(
    model: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = drawn_weights([*words, "tgt=tgt"], monkeypatch)
    decodings = force_decode(Translator.load(model), SOURCE, TARGET)
    for row, (weights, source, target) in zip((0, 2, 3), pictures, strict=True):
        np.testing.assert_allclose(weights, word_weights(decodings[row]), atol=1e-6)
        assert (source, target) == (SOURCE[row].split(), TARGET[row].split())


def test_chinese_sentence_is_split_into_pieces_without_links(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines("src", ["我喜欢猫 dog"])
    write_lines("tgt", ["Hund"])
    write_lines("links", ["1-0"])
    for links, expected in (["links=null"], [*"我喜欢猫", "dog"]), ([], ["我喜欢猫", "dog"]):
        ((weights, source, _),) = drawn_weights([*words, *LINKED, *links], monkeypatch)
        assert source == expected and weights.shape == (1, len(expected))  # gold links count words


@pytest.mark.parametrize("given", [["tgt=tgt"], []], ids=str)
def test_slots_are_drawn_for_each_pair(
    given: list[str], nested: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[np.ndarray, np.ndarray, list[str], list[str]]] = []
    monkeypatch.setattr("nmt.alignment.heatmap.save_slots", lambda *pair, title: drawn.append(pair[:4]))
    heatmap([*words, f"model={nested}", "slots=true", "limit=1", *given])
    ((write, read, source, target),) = drawn
    assert (read.shape, write.shape) == ((len(target), 6), (6, len(source)))
    if given:
        (pair,) = force_decode(Translator.load(nested, engine="torch"), SOURCE[:1], TARGET[:1])
        np.testing.assert_allclose(read @ write, pair.alignment, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        ("KernelAttention", {"feature_map": "taylor"}),  # only the sums of its weights are positive
        ("CovarianceAttention", {}),
        ("LuongAttention", {}),
    ],
)
def test_attentions_without_slots_or_with_negative_weights_are_refused(
    attention: str, options: dict[str, str], make_model: Callable[..., Path], words: list[str]
) -> None:
    words = [*words, f"model={make_model(attention, **options)}", "tgt=tgt", "slots=true", "limit=1"]
    expect_error("slots", heatmap, words)
    assert not Path("o").exists()
