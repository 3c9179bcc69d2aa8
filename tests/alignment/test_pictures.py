"""Laws of pictures: one colour per weight everywhere, bars that state the scale, and labels that do not overlap."""

from __future__ import annotations

import errno
import itertools
import re
import tempfile
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from nmt.alignment.figures import (
    MAX_LABEL_LENGTH,
    UNIT,
    Scale,
    is_visible,
    scale_of,
    short_label,
    slot_colours,
    strongest,
)
from nmt.alignment.heatmap import MAX_LABELS, draw_heatmap, save_heatmap, save_slots
from nmt.alignment.page import Example, alignment_page, alignment_table
from nmt.errors import UserError

pytestmark = pytest.mark.thorough

SHARES = [0.0, 0.01, 0.25, 0.5, 0.75, 1.0]
finite = st.floats(-1e3, 1e3)


def drawn_colours(figure: Figure, panel: int = 0) -> list[str]:
    """Return the colours of the cells of one panel, row by row, as ``#rrggbb``."""
    image = figure.axes[panel].images[0]
    array = image.get_array()
    assert array is not None
    colours = np.round(255 * image.cmap(image.norm(array))).astype(int).reshape(-1, 4)
    return ["#" + "".join(f"{part:02x}" for part in colour[:3]) for colour in colours]


def page_colours(page: str) -> list[str]:
    return re.findall(r"<td[^>]*background:(#\w{6})", page)


def drawn_everywhere(weights: list[float]) -> list[list[str]]:
    """Return the colours of a row of weights in a picture, a page and a notebook."""
    matrix, source = np.array([weights]), [f"s{k}" for k in range(len(weights))]
    example = Example(1, matrix, source, ["t"])
    picture = drawn_colours(draw_heatmap(matrix, source, ["t"]))
    return [picture, page_colours(alignment_page([example], title="")), page_colours(alignment_table(example))]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_a_weight_has_one_colour_in_pictures_pages_and_notebooks(weights: list[float]) -> None:
    expected = [UNIT.colour(weight)[0] for weight in weights]
    assert drawn_everywhere(weights) == [expected] * 3


@given(st.lists(finite, min_size=1, max_size=9), st.lists(finite, min_size=1, max_size=9))
def test_signed_scales_are_symmetric_and_common(first: list[float], second: list[float]) -> None:
    matrices = [np.array([first]), np.array([second])]
    scale = scale_of(*matrices, signed=True)
    assert scale.low == -scale.limit and scale.limit == (max(map(abs, first + second)) or 1)


LETTERS = (
    "abcWÅß" + "الكلب" + "שלום" + "我喜欢猫" + "กำ" + "\u0301\u0323\u0489" + "😀\ufe0f\u200d" + "\x07\u200b\u202e\n"
)
tokens = st.one_of(
    st.text(LETTERS, min_size=1, max_size=12),
    st.sampled_from(["</s>", "▁dog", "<0xE2>", "Donaudampfschiff" * 9, "W" * 50, "猫" * 45, "﷽"]),
    st.text(min_size=1, max_size=5),
)
sides = st.lists(tokens, min_size=1, max_size=10)


def assert_labels_apart(figure: Figure, panel: int, source: list[str], target: list[str]) -> None:
    figure.draw_without_rendering()
    axes = figure.axes[panel]
    columns = [text for text in axes.get_xticklabels() if text.get_text()]
    rows = [text for text in axes.get_yticklabels() if text.get_text()]
    assert [text.get_text() for text in columns] == [short_label(token) for token in source]
    assert [text.get_text() for text in rows] == [short_label(token) for token in target]
    boxes = [text.get_window_extent() for text in columns]
    assert all(left.x1 <= right.x0 for left, right in itertools.pairwise(boxes))
    boxes = [text.get_window_extent() for text in rows]
    assert all(upper.y0 >= lower.y1 for upper, lower in itertools.pairwise(boxes))


@pytest.mark.filterwarnings("ignore:no installed font has", "ignore:Glyph")
@given(sides, sides)
@settings(max_examples=12, deadline=None)
def test_labels_do_not_overlap_and_nothing_is_cut_off(source: list[str], target: list[str]) -> None:
    weights = np.full((len(target), len(source)), 1 / len(source))
    assert_labels_apart(draw_heatmap(weights, source, target, title="T" * 200), 0, source, target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        save_heatmap(weights, source, target, path, title="T" * 200, gold=[(0, 0)])
        pixels = imread(path)[..., :3]
    for edge in (pixels[:3], pixels[-3:], pixels[:, :3], pixels[:, -3:]):
        assert np.all(edge == 1)


@pytest.mark.parametrize("size", [60, MAX_LABELS])
def test_labels_of_long_sentences_do_not_overlap(size: int) -> None:
    source, target = [f"Größe{k}a\u0301" for k in range(size)], ["Ålj"] * 2
    assert_labels_apart(draw_heatmap(np.zeros((2, size)), source, target), 0, source, target)
    assert_labels_apart(draw_heatmap(np.zeros((size, 2)), target, source), 0, target, source)


@given(st.one_of(st.text(), tokens))
def test_labels_are_short_visible_lines(token: str) -> None:
    text = short_label(token)
    assert len(text) <= MAX_LABEL_LENGTH and not re.search("[\t\r\n\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert not token or any(is_visible(character) for character in text)


def test_labels_keep_ordinary_words() -> None:
    for word in ("größer", "</s>", "▁dog", "<0xE2>", "שָׁלוֹם", "हिन्दी", "น้ำ", "don't"):
        assert short_label(word) == word
    assert short_label("\u200b\u202e") == "U+200B U+202E"


def test_a_picture_of_more_cells_than_pixels_shows_the_strongest() -> None:
    weights = np.zeros((3, 10_000))
    weights[1, 7777], weights[2, 5000] = 0.9, -2
    small = strongest(weights, 100)
    assert small.shape == (3, 100)
    np.testing.assert_array_equal(small[:, [77, 50]], [[0, 0], [0.9, 0], [0, -2]])
    assert np.count_nonzero(small) == 2
    assert strongest(weights[:, :100], 100).shape == (3, 100)


def test_equal_pictures_are_equal_files(tmp_path: Path) -> None:
    for suffix in ("png", "svg", "pdf"):
        paths = [tmp_path / name / f"a.{suffix}" for name in ("first", "second")]
        for path in paths:
            path.parent.mkdir(exist_ok=True)
            save_heatmap(np.ones((1, 2)), ["a", "b"], ["t"], path, title="title")
        assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes().startswith(b"%PDF")


def test_wrong_arguments_are_errors_and_leave_no_file(tmp_path: Path) -> None:
    path, pair = tmp_path / "a.png", (["a", "b"], ["t"])
    for empty in ([], ["t"]), (["a"], []):
        with pytest.raises(UserError, match=r"a\.png: the source or the translation is empty"):
            save_heatmap(np.zeros((len(empty[1]), len(empty[0]))), *empty, path)
    for wrong in (["a"], ["t"]), (["a", "b"], []):
        with pytest.raises(ValueError, match=r"weights \(1, 2\)"):
            save_heatmap(np.ones((1, 2)), *wrong, path)
    for i, j in (2, 0), (0, 1), (-1, 0):
        with pytest.raises(UserError, match=rf"links: {i}-{j} points outside the sentences of 2 and 1 word"):
            save_heatmap(np.ones((1, 2)), *pair, path, gold=[(i, j)])
    with pytest.raises(UserError, match=r"a\.gif: unsupported format; use \.png, \.svg or \.pdf"):
        save_heatmap(np.ones((1, 2)), *pair, path.with_suffix(".gif"))
    assert list(tmp_path.iterdir()) == []


def test_page_can_be_read_without_colours_mouse_and_other_files() -> None:
    weights = np.array([[0.25, 0.745, 0.004], [0.0, 0.0, np.nan]])
    page = alignment_page([Example(7, weights, ["<a>", "b&c", "c"], ["الكلب", "y" * 99], [(1, 0)])], title="T <1>")
    assert re.findall(r'<td[^>]*title="([^"]*)"[^>]*>([^<]*)</td>', page) == [
        *(("0.25", ".25"), ("0.745", ".74"), ("0.004", "")),
        *(("0", ""), ("0", ""), ("nan", "nan")),
    ]
    colour, ink = UNIT.colour(0.25)
    assert f'<td title="0.25" style="background:{colour};color:{ink}">.25</td>' in page
    assert '<td class="gold" title="0.745" style="background:#' in page
    assert page.count('tabindex="0"') == 3 + 2 + 1  # words, and the table, which scrolls
    assert page.count('scope="col"') == 3 and page.count('scope="row"') == 2
    assert page.count('dir="auto"') == 2 + 3 + 2
    assert f'title="{"y" * 99}">{"y" * 39}…</div>' in page
    for tick in ("0", "0.25", "0.5", "0.75", "1"):
        assert f">{tick}</b>" in page
    assert "<a>" not in page and "&lt;a&gt;" in page and "b&amp;c" in page
    assert "src=" not in page and "http" not in page
    assert '<th class="corner">source →<br>target ↓</th>' in page and '<section id="s7"><h2>7</h2>' in page
    plain = alignment_page([Example(1, weights, ["a", "b", "c"], ["x", "y"])], title="T", heading=False)
    assert "<h1>" not in plain and "<title>T</title>" in plain


@pytest.mark.parametrize("weight", SHARES)
def test_text_can_be_read_on_its_colour(weight: float) -> None:
    """Contrast of at least 4.5, as WCAG 2 asks for text."""
    for scale in (UNIT, Scale(1, signed=True)):
        for signed in (weight, -weight):
            colour, ink = scale.colour(signed)
            linear = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
            linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in linear]
            luminance = float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
            contrast = (luminance + 0.05) / 0.05 if ink == "#000" else 1.05 / (luminance + 0.05)
            assert contrast >= 4.5, (signed, colour, ink, contrast)


CONTROLS = ["a\x00b", "\x0b\x1b", "\x07", "c\ud800", "\ufffe\uffff", "<&--\t😀\x85"]


@pytest.mark.filterwarnings("ignore:no installed font has")
def test_heatmap_accepts_any_text_and_leaves_one_file(tmp_path: Path) -> None:
    source, target, matrix = [*CONTROLS, "$x_", "\\"], ["猫", *CONTROLS], np.ones((7, 8))
    for suffix in (".png", ".svg", ".pdf"):
        path = tmp_path / suffix / f"picture{suffix}"
        path.parent.mkdir()
        save_heatmap(matrix, source, target, path, title="50% $ a\x08b", gold=[(0, 1)])
        assert path.stat().st_size > 1000 and [*path.parent.iterdir()] == [path]
    path = tmp_path / ".svg" / "picture.svg"
    assert "a\ufffdb" in path.read_text("utf-8") and ElementTree.parse(path).getroot().tag.endswith("svg")


def test_page_replaces_control_characters_visibly() -> None:
    page = alignment_page(
        [Example(1, np.ones((6, 6)), CONTROLS, CONTROLS)], title="a\x08b", note="\x01", attention="\x02"
    )
    assert not set(page) & set("".join(CONTROLS[:5]) + "\x08\x01\x02") - set("abc")
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
        ([0.0, 0.0], False, (0, 1)),
        ([np.nan, 1.0002], False, (0, 1)),
        ([-4.0, 2.0], True, (-4, 4)),
        ([0.1, 2.5], False, (0, 2.5)),
        ([0.0, 0.0], True, (-1, 1)),
    ],
)
def test_colours_and_bar_have_the_same_limits(weights: list[float], signed: bool, limits: tuple[float, float]) -> None:
    picture, bar = draw_axes(np.array([weights]), signed=signed)
    assert picture.images[0].get_clim() == bar.get_ylim() == limits
    ticks = [float(text.get_text().replace("−", "-")) for text in bar.get_yticklabels()]
    assert (ticks[0], ticks[-1], len(ticks)) == (*limits, 5)


def test_heatmap_names_its_axes_colours_and_gold_links() -> None:
    picture, bar = draw_axes(np.ones((2, 3)), gold=[(0, 1)], title="demo, Luong")
    assert (picture.get_xlabel(), picture.get_ylabel(), bar.get_ylabel()) == ("source", "target", "attention weight")
    assert picture.get_title(loc="left") == "demo, Luong"
    legend = picture.get_legend()
    assert legend is not None and [text.get_text() for text in legend.get_texts()] == ["gold link"]
    assert draw_axes(np.ones((2, 3)))[0].get_legend() is None


def test_heatmap_numbers_a_side_with_too_many_tokens() -> None:
    picture, _ = draw_axes(np.ones((250, 251)))
    assert [label.get_text() for label in picture.get_yticklabels()] == [f"t{k}" for k in range(250)]
    numbers = [label.get_text() for label in picture.get_xticklabels()]
    assert len(numbers) < 30 and "100" in numbers


def test_failed_heatmap_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Figure, file: BinaryIO, **_: object) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(UserError, match=r"picture\.png: cannot write: No space left"):
        save_heatmap(np.zeros((1, 1)), ["a"], ["b"], tmp_path / "picture.png")
    assert list(tmp_path.iterdir()) == []


def test_page_of_signed_weights_has_one_hue_per_sign() -> None:
    page = alignment_page([Example(1, np.array([[-40.0, 10.0]]), ["a", "b"], ["d"])], title="T", signed=True)
    assert '<td title="-40" style="background:#67001f;color:#fff">-40</td>' in page
    assert "Blue weights are positive, red ones negative." in page


def test_cells_of_slots_mix_the_colours_of_their_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[np.ndarray] = []
    imshow = Axes.imshow
    monkeypatch.setattr(
        Axes, "imshow", lambda axes, image, **rest: (cells.append(image), imshow(axes, image, **rest))[1]
    )
    write = np.array([[1.0, 0, 0], [0, 0.5, 0.5]])
    read = np.array([[1.0, 0], [0, 2.0]])  # rows are shares, whatever their sum
    save_slots(write, read, ["a", "b", "c"], ["x", "y"], tmp_path / "a.png")
    first, second = slot_colours(2)
    white = np.ones(3)
    expected = [[first, white, white], [white, (white + second) / 2, (white + second) / 2]]
    np.testing.assert_allclose(cells[0], np.array(expected), atol=1e-6)
    assert imread(tmp_path / "a.png").ndim == 3
