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
@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
@pytest.mark.parametrize("granularity", ["word", "piece"])
def test_own_translations_are_drawn_as_pictures(
    suffix: str, start: bytes, granularity: str, words: list[str], call: Call
) -> None:
    settings = ["output=a/b", "limit=3", f"format={suffix}", f"granularity={granularity}"]
    pictures = [Path(line) for line in call(heatmap, *words, *settings).lines]
    assert [file.name for file in pictures] == [f"0001.{suffix}", f"0003.{suffix}"]  # blank lines are not drawn
    assert sorted(Path("a/b").iterdir()) == [Path("a/b/.lock"), *pictures]
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


GOLD = ["0-0 1p1", "", "0-0", "0-0 7-7"]  # the last link points outside its sentence
NAACL = ["1 0 0 S", "1 1 1 P", "3 0 0 S", "4 0 0 S", "4 7 7 S"]


@pytest.mark.parametrize("lines", [GOLD, NAACL, NAACL[:3]])
def test_links_are_needed_for_the_drawn_lines_only(lines: list[str], words: list[str], call: Call) -> None:
    write_lines("links", lines)
    (page,) = call(heatmap, *words, *LINKED, "format=html", "limit=3").lines
    assert Path(page).read_text("utf-8").count('class="gold"') == 3
    if lines not in (NAACL[:3],):  # NAACL lists no sentence without links
        expect_error(
            r"links:\d: .*points outside|links has 3 lines of links for 4 sentences",
            heatmap,
            [*words, *LINKED, "limit=4"],
        )


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "html"])
def test_pictures_of_the_user_are_not_replaced(suffix: str, words: list[str]) -> None:
    mine = Path("o") / ("alignments.html" if suffix == "html" else f"0001.{suffix}")
    mine.parent.mkdir()
    mine.write_text("mine")
    expect_error(
        f"^o: holds {mine.name}, which this command has not written; choose another",
        heatmap,
        [*words, f"format={suffix}", "limit=1"],
    )
    assert mine.read_text() == "mine"


def test_chinese_sentence_is_split_into_pieces(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines("src", ["我喜欢猫 dog"])
    write_lines("tgt", ["Hund"])
    ((weights, source, target),) = drawn_weights([*words, "tgt=tgt"], monkeypatch)
    assert (source, target) == (["我", "喜", "欢", "猫", "dog"], ["Hund"])  # the tokenizer knows no Chinese pieces
    np.testing.assert_allclose(weights.sum(), 1)
    write_lines("links", ["1-0"])
    ((weights, source, _),) = drawn_weights([*words, *LINKED], monkeypatch)
    assert source == ["我喜欢猫", "dog"] and weights.shape == (1, 2)  # gold links count words


def test_word_weights_of_given_pairs_are_force_decoded(
    model: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = drawn_weights([*words, "tgt=tgt"], monkeypatch)
    translator = Translator.load(model)
    for row, (weights, source, target) in zip((0, 2, 3), pictures, strict=True):
        (decoding,) = force_decode(translator, [SOURCE[row]], [TARGET[row]])
        np.testing.assert_allclose(weights, word_weights(decoding), atol=1e-6)
        assert (source, target) == (SOURCE[row].split(), TARGET[row].split())


def test_piece_weights_of_own_translations_are_those_of_the_search(
    model: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ((weights, source, target),) = drawn_weights([*words, "granularity=piece", "limit=1"], monkeypatch)
    translation = Translator.load(model).translate(SOURCE[:1])[0]
    assert (source, target) == (translation.source_tokens, translation.tokens) and source[-1] == "</s>"
    np.testing.assert_allclose(weights, translation.alignment, atol=1e-5)  # Bahdanau weights already sum to 1
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("given", [["tgt=tgt"], []], ids=["given", "translated"])
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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("attention", "options", "problem"),
    [
        ("KernelAttention", {"feature_map": "softmax"}, None),
        ("KernelAttention", {"feature_map": "taylor"}, "has negative weights"),  # only their sums are positive
        ("CovarianceAttention", {}, "has negative weights"),
        ("LuongAttention", {}, "keeps every source state"),
    ],
)
def test_slots_are_drawn_where_the_attention_has_them_and_no_weight_is_negative(
    attention: str,
    options: dict[str, str],
    problem: str | None,
    make_model: Callable[..., Path],
    words: list[str],
    call: Call,
) -> None:
    words = [*words, f"model={make_model(attention, **options)}", "tgt=tgt", "slots=true", "limit=1"]
    if problem is None:
        assert [Path(line).name for line in call(heatmap, *words).lines] == ["0001.png"]
    else:
        expect_error(f"slots=true: .* attention {problem}; use a model with slots", heatmap, words)
        assert not Path("o").exists()
