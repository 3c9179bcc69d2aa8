"""Links, error rates and word weights against worked examples and naive counts; heatmaps and pages."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.alignment.aer import alignment_error_rate, alignment_scores, better_reading
from nmt.alignment.heatmap import save_heatmap
from nmt.alignment.page import Example, alignment_page
from nmt.alignment.word_weights import (
    argmax_links,
    fit_word_weights,
    linked_pieces,
    merge_pieces,
    normalise_rows,
    word_weights,
)
from nmt.data.links import Links, format_pharaoh, parse_links
from nmt.data.words import PieceWords
from nmt.errors import UserError


def test_parsed_links_are_formatted_in_source_order() -> None:
    (links,) = parse_links(["2-0 0-1 10-3"], "links")
    assert format_pharaoh(links.sure) == "0-1 2-0 10-3"


def test_scores_of_a_worked_example() -> None:
    """|A|=3, |S|=2, |A∩S|=1, |A∩P|=2: precision 2/3, recall 1/2, AER 1 − 3/5."""
    (gold,) = parse_links(["0-0 1-1 2p1"], "gold")
    assert alignment_scores([{(0, 0), (2, 1), (2, 2)}], [gold]) == pytest.approx((2 / 3, 1 / 2, 0.4))


def test_scores_without_links() -> None:
    nothing, gold = Links(frozenset(), frozenset()), Links(frozenset({(0, 0)}), frozenset({(0, 0)}))
    assert alignment_scores([set()], [nothing]) == (1, 1, 0)
    assert alignment_scores([set()], [gold]) == (1, 0, 1)
    assert alignment_scores([{(0, 0)}], [nothing]) == (0, 1, 1)


def test_repeated_links_count_once() -> None:
    golds = parse_links(["0-0 1-1 2p1"], "gold")
    assert alignment_scores([[(0, 0), (2, 2), (2, 2)]], golds) == alignment_scores([{(0, 0), (2, 2)}], golds)


@pytest.mark.parametrize("shift", [0, 1, -1])
@pytest.mark.parametrize("swapped", [False, True])
def test_reading_that_fits_gold_links_better_is_found(swapped: bool, shift: int) -> None:
    draw = random.Random(5)
    golds = [frozenset((draw.randrange(9), draw.randrange(9)) for _ in range(9)) for _ in range(9)]
    written = [{(i - shift, j - shift) for i, j in gold} for gold in golds]
    if swapped:
        written = [{(j, i) for i, j in links} for links in written]
    reading = better_reading(written, [Links(gold, gold) for gold in golds])
    assert reading == ((swapped, shift) if swapped or shift else None)


def test_random_links_have_no_better_reading() -> None:
    draw = random.Random(6)
    sides: list[list[frozenset[tuple[int, int]]]] = [
        [frozenset((draw.randrange(9), draw.randrange(9)) for _ in range(9)) for _ in range(9)] for _ in range(2)
    ]
    assert better_reading(sides[0], [Links(gold, gold) for gold in sides[1]]) is None


def test_error_rate_against_a_naive_count() -> None:
    draw = random.Random(4)
    cells = [(i, j) for i in range(4) for j in range(4)]
    for _ in range(50):
        hypotheses, golds, hits, size, count, sure_hits, all_sure = [], [], 0, 0, 0, 0, 0
        for _ in range(3):
            links, sure, possible = (set(draw.sample(cells, draw.randint(0, 8))) for _ in range(3))
            hypotheses.append(links)
            golds.append(Links(frozenset(sure), frozenset(sure | possible)))
            for link in links:
                hits += (link in sure) + (link in sure | possible)
                sure_hits += link in sure
            size += len(links) + len(sure)
            count += len(links)
            all_sure += len(sure)
        expected = 1 - hits / size if size else 0.0
        assert alignment_error_rate(hypotheses, golds) == pytest.approx(expected)
        scores = alignment_scores(hypotheses, golds)
        assert scores.precision == pytest.approx((hits - sure_hits) / count if count else 1)
        assert scores.recall == pytest.approx(sure_hits / all_sure if all_sure else 1)


def test_normalise_rows_keeps_zero_rows_and_drops_signs() -> None:
    np.testing.assert_allclose(normalise_rows(np.array([[1.0, -3.0], [0.0, 0.0]])), [[0.25, 0.75], [0, 0]])


def test_word_weights_of_a_worked_example() -> None:
    """Source pieces a|b b, target pieces x x|y: sum over source pieces, mean over target pieces."""
    alignment = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    weights = merge_pieces(alignment, [0, 1, 1], [0, 0, 1])
    np.testing.assert_allclose(weights, [[0.25, 0.75], [1.0, 0.0]])
    assert argmax_links(weights) == {(1, 0), (0, 1)}


class Translation(NamedTuple):
    alignment: np.ndarray
    source_words: list[int]
    target_words: list[int]


def test_fit_word_weights_pads_lost_words_and_refuses_other_text() -> None:
    # Source a b </s>, target x y </s>, all words of one piece.
    raw = np.array([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0], [0.0, 0.0, 1.0]])
    translation = Translation(raw, [0, 1], [0, 1])
    np.testing.assert_allclose(word_weights(translation), [[0.6, 0.4], [0.3, 0.7]])
    padded = [[0.6, 0.4, 0], [0.3, 0.7, 0], [0, 0, 0]]
    np.testing.assert_allclose(fit_word_weights(translation, ["a", "b", "c"], ["x", "y", "z"]), padded)
    with pytest.raises(ValueError, match="source: 1 word, the alignment has 2; give the text that was aligned"):
        fit_word_weights(translation, ["ab"], ["x", "y"])
    with pytest.raises(ValueError, match="target: 1 word, the alignment has 2"):
        fit_word_weights(translation, ["a", "b"], ["xy"])


def test_pieces_of_several_words_and_of_none() -> None:
    """Source pieces "a b", c and one of no word; target pieces x and "x y"."""
    alignment = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2]])
    weights = merge_pieces(alignment, PieceWords([0, 2, -1], [1, 2, -1]), PieceWords([0, 0], [0, 1]))
    np.testing.assert_allclose(weights, [[0.2, 0.2, 0.45], [0.1, 0.1, 0.6]])
    linked = np.array([[0, 1, 0], [0, 0, 0]])
    pieces = linked_pieces(linked, PieceWords([0, 2, -1], [1, 2, -1]), PieceWords([0, 0], [0, 1]))
    np.testing.assert_array_equal(pieces, [[1, 0, 0], [1, 0, 0]])


def test_word_without_weight_has_no_link() -> None:
    assert argmax_links(np.zeros((2, 3))) == frozenset()
    assert argmax_links(merge_pieces(np.zeros((0, 2)), [0, 1], [])) == frozenset()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:no installed font has")
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
@pytest.mark.parametrize("signed", [False, True])
def test_heatmap_accepts_any_text(tmp_path: Path, suffix: str, signed: bool) -> None:
    path = tmp_path / f"picture{suffix}"
    matrix = np.array([[0.1, -0.9], [1.0, 0.0], [0.0, 0.0]])
    save_heatmap(matrix, ["$x_", "猫"], ["ä", "</s>", "\\"], path, title="50% $", signed=signed, gold=[(0, 1)])
    assert path.stat().st_size > 1000
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


CONTROLS = ["a\x00b", "\x0b\x1b", "\x07", "c\ud800", "\ufffe\uffff", "<&--\t😀\x85"]


def test_svg_heatmap_of_control_characters_is_valid_xml(tmp_path: Path) -> None:
    save_heatmap(np.ones((6, 6)), CONTROLS, CONTROLS, tmp_path / "picture.svg", title="a\x08b")
    assert "a\ufffdb" in (tmp_path / "picture.svg").read_text("utf-8")
    assert ElementTree.parse(tmp_path / "picture.svg").getroot().tag.endswith("svg")


def test_page_replaces_control_characters_visibly() -> None:
    page = alignment_page(
        [Example(1, np.ones((6, 6)), CONTROLS, CONTROLS)], title="a\x08b", note="\x01", attention="\x02"
    )
    assert not set(page) & set("".join(CONTROLS[:5]) + "\x08\x01\x02") - set("abc")
    assert "<h1>a\ufffdb</h1>" in page and "\ud800" not in page.encode("utf-8").decode()


def draw_axes(matrix: np.ndarray, path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Axes:
    """Save a heatmap of ``matrix`` and return its axes."""
    figures: list[Figure] = []
    save = Figure.savefig

    def record(self: Figure, *args: Any, **settings: Any) -> None:
        figures.append(self)
        save(self, *args, **settings)

    monkeypatch.setattr(Figure, "savefig", record)
    target, source = ([f"{side}{k}" for k in range(size)] for side, size in zip("ts", matrix.shape, strict=True))
    save_heatmap(matrix, source, target, path, **options)
    return figures[0].axes[0]


@pytest.mark.parametrize(
    ("weights", "signed", "limits"),
    [
        ([0.15, 0.05], False, (0, 1)),
        ([0.0, 0.0], False, (0, 1)),
        ([np.nan, 1.0002], False, (0, 1)),
        ([-4.0, 2.0], True, (-4, 4)),
        ([0.1, 2.5], False, (0, 2.5)),
        ([0.0, 0.0], True, (-1, 1)),
    ],
)
def test_colours_and_bar_have_the_same_limits(
    weights: list[float], signed: bool, limits: tuple[float, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = draw_axes(np.array([weights]), tmp_path / "picture.png", monkeypatch, signed=signed)
    assert axes.images[0].get_clim() == limits
    figure = axes.get_figure()
    assert figure is not None and figure.axes[1].get_ylim() == limits
    ticks = [float(text.get_text().replace("−", "-")) for text in figure.axes[1].get_yticklabels()]
    assert (ticks[0], ticks[-1], len(ticks)) == (*limits, 5)


def test_heatmap_names_its_axes_colours_and_gold_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = draw_axes(np.ones((2, 3)), tmp_path / "picture.png", monkeypatch, gold=[(0, 1)], title="demo, Luong")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("source", "target")
    assert axes.get_title(loc="left") == "demo, Luong"
    legend = axes.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["gold link"]
    figure = axes.get_figure()
    assert figure is not None and figure.axes[1].get_ylabel() == "attention weight"
    assert draw_axes(np.ones((2, 3)), tmp_path / "plain.png", monkeypatch).get_legend() is None


@pytest.mark.thorough
def test_heatmap_numbers_a_side_with_too_many_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes = draw_axes(np.ones((250, 251)), tmp_path / "picture.svg", monkeypatch)
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"t{k}" for k in range(250)]
    source_labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(source_labels) < 30 and "100" in source_labels


@pytest.mark.filterwarnings("error")
def test_heatmap_shortens_very_long_tokens(tmp_path: Path) -> None:
    for length in (41, 40_000):
        save_heatmap(np.ones((1, 2)), ["a", "b" * length], ["c" * length], tmp_path / f"{length}.png")
    assert (tmp_path / "41.png").read_bytes() == (tmp_path / "40000.png").read_bytes()


def test_unsupported_heatmap_format_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.png, \.svg or \.pdf"):
        save_heatmap(np.zeros((1, 1)), ["a"], ["b"], tmp_path / "picture.gif")


def test_failed_heatmap_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Figure, file: BinaryIO, **_: object) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(UserError, match=r"picture\.png: cannot write: No space left"):
        save_heatmap(np.zeros((1, 1)), ["a"], ["b"], tmp_path / "picture.png")
    assert list(tmp_path.iterdir()) == []


def test_page_is_self_contained_and_escaped() -> None:
    page = alignment_page([Example(7, np.array([[0.25, 0.75]]), ["<a>", "b&c"], ["d"], [(1, 0)])], title="T <1>")
    assert "<a>" not in page and "&lt;a&gt;" in page and "b&amp;c" in page
    assert "src=" not in page and "http" not in page
    assert '<th class="corner">source →<br>target ↓</th>' in page
    assert '<section id="s7"><h2>7</h2>' in page
    assert '<td title="0.25" style="background:#9ecae1;color:#000">.25</td>' in page
    assert '<td class="gold" title="0.75" style="background:#1460a8;color:#fff">.75</td>' in page


def test_page_of_signed_weights_has_one_hue_per_sign() -> None:
    page = alignment_page([Example(1, np.array([[-40.0, 10.0]]), ["a", "b"], ["d"])], title="T", signed=True)
    assert '<td title="-40" style="background:#67001f;color:#fff">-40</td>' in page
    assert '<td title="10" style="background:#9ecae1;color:#000">10</td>' in page
    assert "Blue weights are positive, red ones negative." in page
