"""Laws of pictures: one colour per weight everywhere, bars that state the scale, and labels that do not overlap."""

from __future__ import annotations

import itertools
import re
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from nmt.alignment.figures import MAX_LABEL_LENGTH, UNIT, save_figure, scale_of, short_label
from nmt.alignment.heatmap import MAX_LABELS, draw_heatmap, draw_slots, mix_slots, slot_colours
from nmt.alignment.page import Example, alignment_page, alignment_table
from nmt.errors import UserError

pytestmark = pytest.mark.thorough


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_a_weight_has_one_colour_in_pictures_pages_and_notebooks(weights: list[float]) -> None:
    matrix, source = np.array([weights]), [f"s{k}" for k in range(len(weights))]
    image = draw_heatmap(matrix, source, ["t"]).axes[0].images[0]
    colours = np.round(255 * image.cmap(image.norm(matrix))).astype(np.uint8)[0, :, :3]
    expected = [UNIT.colour(weight)[0] for weight in weights]
    assert [f"#{bytes(colour).hex()}" for colour in colours] == expected
    example = Example(1, matrix, source, ["t"])
    for page in alignment_page([example], title=""), alignment_table(example):
        assert re.findall(r"<td[^>]*background:(#\w{6})", page) == expected


LETTERS = (
    "abcWÅß" + "الكلب" + "שלום" + "我喜欢猫" + "กำ" + "\u0301\u0323\u0489" + "😀\ufe0f\u200d" + "\x07\u200b\u202e\n"
)
tokens = st.one_of(
    st.text(LETTERS, min_size=1, max_size=12),
    st.sampled_from(["</s>", "▁dog", "<0xE2>", "Donaudampfschiff" * 9, "W" * 50, "猫" * 45, "﷽"]),
    st.text(min_size=1, max_size=5),
)
sides = st.lists(tokens, min_size=1, max_size=10)


def assert_labels_apart(figure: Figure, source: list[str], target: list[str]) -> None:
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = []
    for labels, tokens in (axes.get_xticklabels(), source), (axes.get_yticklabels(), target):
        texts = [text for text in labels if text.get_text()]
        assert [text.get_text() for text in texts] == [*map(short_label, tokens)]
        boxes.append(itertools.pairwise(text.get_window_extent() for text in texts))
    assert all(left.x1 <= right.x0 for left, right in boxes[0])
    assert all(upper.y0 >= lower.y1 for upper, lower in boxes[1])


@pytest.mark.filterwarnings("ignore:no installed font has", "ignore:Glyph")
@given(sides, sides)
@settings(max_examples=6, deadline=None)
def test_labels_do_not_overlap_and_nothing_is_cut_off(source: list[str], target: list[str]) -> None:
    weights = np.full((len(target), len(source)), 1 / len(source))
    figure = draw_heatmap(weights, source, target, title="T" * 200, gold=[(0, 0)])
    assert_labels_apart(figure, source, target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        save_figure(figure, path)
        pixels = imread(path)[..., :3]
    for edge in (pixels[:3], pixels[-3:], pixels[:, :3], pixels[:, -3:]):
        assert np.all(edge == 1)


def test_labels_of_long_sentences_do_not_overlap() -> None:
    source, target = [f"Größe{k}a\u0301" for k in range(MAX_LABELS)], ["Ålj"] * 60
    assert_labels_apart(draw_heatmap(np.zeros((60, MAX_LABELS)), source, target), source, target)


@given(st.one_of(st.text(), tokens))
def test_labels_are_short_lines(token: str) -> None:
    text = short_label(token)
    assert len(text) <= MAX_LABEL_LENGTH and bool(text) == bool(token)
    assert not re.search("[\t\r\n\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_labels_keep_ordinary_words() -> None:
    for word in ("größer", "</s>", "▁dog", "<0xE2>", "שָׁלוֹם", "हिन्दी", "น้ำ", "don't"):
        assert short_label(word) == word


def test_wrong_arguments_are_errors_and_leave_no_file(tmp_path: Path) -> None:
    for source, target in ([], ["t"]), (["a"], []):
        with pytest.raises(UserError):
            draw_heatmap(np.zeros((len(target), len(source))), source, target)
    with pytest.raises(UserError) as caught:
        save_figure(draw_heatmap(np.ones((1, 2)), ["a", "b"], ["t"]), tmp_path / "a.gif")
    assert caught.value.key == str(tmp_path / "a.gif") and list(tmp_path.iterdir()) == []


def test_page_can_be_read_without_colours_mouse_and_other_files() -> None:
    weights = np.array([[0.25, 0.745, 0.004], [0.0, 0.0, np.nan]])
    page = alignment_page([Example(7, weights, ["<a>", "b&c", "c"], ["الكلب", "y" * 99], gold=[(1, 0)])], title="T <1>")
    assert re.findall(r'<td[^>]*title="([^"]*)"[^>]*>([^<]*)</td>', page) == [
        *(("0.25", ".25"), ("0.745", ".74"), ("0.004", "")),
        *(("0", ""), ("0", ""), ("nan", "nan")),
    ]
    assert '<td class="gold" title="0.745" style="background:#' in page
    assert page.count('tabindex="0"') == 3 + 2 + 1  # words, and the table, which scrolls
    assert f'title="{"y" * 99}">{"y" * 39}…</div>' in page
    assert "<a>" not in page and "&lt;a&gt;" in page and "b&amp;c" in page
    assert "src=" not in page and "http" not in page and '<section id="s7">' in page
    assert "<h1>" in page and "<h1>" not in alignment_page([], title="T", heading=False)


CONTROLS = ["a\x00b", "\x0b\x1b", "\x07", "c\ud800", "\ufffe\uffff", "<&--\t😀\x85"]


@pytest.mark.filterwarnings("ignore:no installed font has")
def test_heatmap_accepts_any_text_and_leaves_one_file_with_equal_bytes(tmp_path: Path) -> None:
    source, target, matrix = [*CONTROLS, "$x_", "\\"], ["猫", *CONTROLS], np.ones((7, 8))
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path, contents = tmp_path / suffix / f"picture{suffix}", set[bytes]()
        path.parent.mkdir()
        for _ in range(2):
            save_figure(draw_heatmap(matrix, source, target, title="50% $ a\x08b", gold=[(0, 1)]), path)
            contents.add(path.read_bytes())
        [content] = contents
        assert content.startswith(start) and [*path.parent.iterdir()] == [path]
    path = tmp_path / ".svg" / "picture.svg"
    assert "a\ufffdb" in path.read_text("utf-8") and ElementTree.parse(path).getroot().tag.endswith("svg")


def test_page_replaces_control_characters_visibly() -> None:
    page = alignment_page([Example(1, np.ones((6, 6)), CONTROLS, CONTROLS)], title="a\x08b", note="\x01")
    assert not set(page) & set("".join(CONTROLS[:5]) + "\x08\x01") - set("abc")
    assert "<h1>a\ufffdb</h1>" in page and "\ud800" not in page.encode("utf-8").decode()


def draw_axes(matrix: np.ndarray, **options: Any) -> tuple[Axes, Axes]:
    """Draw a heatmap of ``matrix``; return the axes of the picture and of the bar."""
    target, source = ([f"{side}{k}" for k in range(size)] for side, size in zip("ts", matrix.shape, strict=True))
    picture, bar = draw_heatmap(matrix, source, target, **options).axes
    return picture, bar


@pytest.mark.parametrize(
    ("weights", "signed", "limits"),
    [
        ([0.15, 0.05], False, (0, 1)),
        ([np.nan, 1.0002], False, (0, 1)),
        ([-4.0, 2.0], True, (-4, 4)),
        ([0.1, 2.5], False, (0, 2.5)),
        ([0.0], True, (-1, 1)),
    ],
)
def test_colours_and_bar_have_the_same_limits(weights: list[float], signed: bool, limits: tuple[float, float]) -> None:
    picture, bar = draw_axes(np.array([weights]), signed=signed)
    scale = scale_of(np.array([weights]), signed=signed)
    assert picture.images[0].get_clim() == bar.get_ylim() == limits == (scale.low, scale.limit)
    ticks = [float(text.get_text().replace("−", "-")) for text in bar.get_yticklabels()]
    assert (ticks[0], ticks[-1], len(ticks)) == (*limits, 5)


def test_heatmap_outlines_gold_links() -> None:
    picture, _ = draw_axes(np.ones((2, 3)), gold=[(0, 1)], title="demo, Luong")
    assert picture.patches[0].get_xy() == (-0.5, 0.5) and picture.get_legend() is not None  # type: ignore[attr-defined]
    assert draw_axes(np.ones((2, 3)))[0].get_legend() is None


def test_heatmap_numbers_a_side_with_too_many_tokens() -> None:
    picture, _ = draw_axes(np.ones((250, 251)))
    assert [label.get_text() for label in picture.get_yticklabels()] == [f"t{k}" for k in range(250)]
    numbers = [label.get_text() for label in picture.get_xticklabels()]
    assert len(numbers) < 30 and "100" in numbers


def test_page_of_signed_weights_has_one_hue_per_sign() -> None:
    page = alignment_page([Example(1, np.array([[-40.0, 10.0]]), ["a", "b"], ["d"])], title="T", signed=True)
    assert '<td title="-40" style="background:#67001f;color:#fff">-40</td>' in page


def test_equal_weights_stand_below_in_the_colours_of_the_picture() -> None:
    matrix, equal = np.array([[0.1, 0.9]]), np.array([0.25, 0.75])
    picture, strip, _ = draw_heatmap(matrix, ["a", "b"], ["t"], equal, gold=[(0, 0)]).axes
    assert strip.images[0].get_array().tolist() == [[0.25, 0.75]]
    assert strip.images[0].cmap is picture.images[0].cmap
    assert strip.images[0].get_clim() == picture.images[0].get_clim()
    for page in (
        alignment_page([Example(1, matrix, ["a", "b"], ["t"], equal)], title=""),
        alignment_table(Example(1, matrix, ["a", "b"], ["t"], equal)),
    ):
        body, foot = page.split("<tfoot>")
        assert re.findall(r'<td[^>]*title="([^"]*)"', body) == ["0.1", "0.9"]  # which the script of the page reads
        assert re.findall(r'<td[^>]*title="([^"]*)"', foot) == ["0.25", "0.75"]


@pytest.mark.parametrize("empty", [0, 9])
@pytest.mark.parametrize("slots", [1, 4, 16])
def test_the_bar_counts_the_slots_that_hold_something_and_ends_at_the_largest_weight(slots: int, empty: int) -> None:
    write, read = np.random.default_rng(1).random((slots, 3)), np.ones((2, slots + 2 * empty))
    write = np.insert(write, [slots // 2, slots] * empty, 0, axis=0)  # as in the memories of two layers
    _, bar = draw_slots(write, read, ["a", "b", "c"], ["x", "y"]).axes
    assert [text.get_text() for text in bar.get_xticklabels()] == [*map(str, sorted({1, slots}))]
    assert bar.get_xlim() == (0.5, slots + 0.5) and bar.get_ylim() == (0, mix_slots(write, read)[1])
    colours = np.asarray(bar.images[0].get_array())
    np.testing.assert_allclose(colours[0], slot_colours(slots))
    np.testing.assert_allclose(colours[-1], 1)


def test_cells_of_slots_mix_the_colours_of_their_slots() -> None:
    write = np.array([[1.0, 0, 0], [0, 0.5, 0.5]])
    read = np.array([[1.0, 0], [0, 2.0]])  # rows are shares, whatever their sum
    cells = draw_slots(write, read, ["a", "b", "c"], ["x", "y"]).axes[0].images[0].get_array()
    first, second = slot_colours(2)
    white = np.ones(3)
    expected = [[first, white, white], [white, (white + second) / 2, (white + second) / 2]]
    np.testing.assert_allclose(cells, np.array(expected), atol=1e-6)
