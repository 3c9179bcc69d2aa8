"""Fonts of heatmaps: a character that the default font lacks comes from an installed font, or causes one warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text
from matplotlib.textpath import TextPath

from nmt.alignment import figures
from nmt.alignment.figures import fonts_for
from nmt.alignment.heatmap import draw_heatmap, save_heatmap
from nmt.training.report import save_curve

pytestmark = pytest.mark.thorough

BUNDLED = Path(matplotlib.get_data_path()) / "fonts" / "ttf"  # the fonts that come with matplotlib


def characters(path: str | Path) -> set[int]:
    return set(FT2Font(str(path)).get_charmap())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files of the installed fonts, which tests change; at first the list is empty."""
    paths: list[str] = []
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: paths)
    figures._installed.cache_clear()
    yield paths
    figures._installed.cache_clear()


def families(texts: list[str]) -> list[str]:
    with fonts_for(texts):
        return matplotlib.rcParams["font.family"]


def test_default_font_is_enough_for_its_characters(installed: list[str]) -> None:
    assert families(["größer", "Привет", "▁dog", "</s>", "\u200d\ufe0f\x07"]) == ["DejaVu Sans"]


def test_hebrew_is_drawn_from_right_to_left_and_arabic_letters_are_joined() -> None:
    """The default font has both scripts. The oldest Matplotlib that we allow has to arrange them."""

    def drawn(text: str) -> np.ndarray:
        return TextPath((0, 0), text, size=10).vertices

    alef, bet = drawn("א"), drawn("ב")
    np.testing.assert_allclose(drawn("אב")[: len(bet)], bet)
    assert len(drawn("אב")) == len(alef) + len(bet)
    assert len(drawn("سلام")) != sum(len(drawn(letter)) for letter in "سلام")


def test_missing_characters_come_from_an_installed_font(installed: list[str], tmp_path: Path) -> None:
    stix = BUNDLED / "STIXGeneral.ttf"
    code = min(characters(stix) - characters(findfont("DejaVu Sans")) - set(range(0xE000, 0xF900)))
    installed += [str(BUNDLED / "cmr10.ttf"), str(stix)]
    assert families([chr(code)]) == ["DejaVu Sans", "STIXGeneral"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # also matplotlib's "Glyph missing"
        save_heatmap(np.ones((1, 1)), [chr(code)], ["a"], tmp_path / "picture.png", title=chr(code))


def test_titles_and_labels_are_drawn_in_the_font_that_has_its_characters(installed: list[str]) -> None:
    stix = BUNDLED / "STIXGeneral.ttf"
    token = chr(min(characters(stix) - characters(findfont("DejaVu Sans")) - set(range(0xE000, 0xF900))))
    installed.append(str(stix))
    figure = draw_heatmap(np.ones((1, 1)), [token], [token], title=token)
    texts = [text for text in figure.findobj(Text) if text.get_text() == token and text.get_visible()]
    assert len(texts) == 3
    assert all("STIXGeneral" in text.get_fontfamily() for text in texts)


def test_curve_of_a_run_with_a_foreign_name_warns_too(installed: list[str], tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(
        "step,epoch,train_loss,valid_loss,valid_accuracy,valid_bleu,valid_chrf,lr\n4,0,,5.2,0.1,3.5,5.6,\n"
    )
    with pytest.warns(UserWarning, match="no installed font has 猫"):
        save_curve(tmp_path / "metrics.csv", tmp_path / "curve.png", title="猫")


def test_bitmap_and_damaged_fonts_are_not_used(installed: list[str], tmp_path: Path) -> None:
    (tmp_path / "damaged.ttf").write_bytes(b"\x00\x01\x00\x00" + bytes(40))
    installed.append(str(tmp_path / "damaged.ttf"))
    assert figures._installed() == {}
