"""Fonts of figures: a character that the default font lacks comes from an installed font, or causes one warning."""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.text import Text

from nmt.alignment.figures import DEFAULT_FONT, save_figure
from nmt.alignment.heatmap import draw_heatmap
from nmt.training.metrics import draw_curves

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the fonts that come with matplotlib are installed."""
    folder = matplotlib.get_data_path()
    monkeypatch.setattr(fontManager, "ttflist", [font for font in fontManager.ttflist if font.fname.startswith(folder)])


def test_missing_characters_come_from_an_installed_font(tmp_path: Path) -> None:
    stix = next(font.fname for font in fontManager.ttflist if font.name == "STIXGeneral")
    known = {*get_font(findfont(DEFAULT_FONT)).get_charmap()}
    token = chr(min({*get_font(stix).get_charmap()} - known - {*range(0xE000, 0xF900)}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # also matplotlib's "Glyph missing"
        figure = draw_heatmap(np.ones((1, 1)), [token], [token], title=token)
        save_figure(figure, tmp_path / "picture.png")
    texts = [text for text in figure.findobj(Text) if text.get_text() == token and text.get_visible()]
    assert len(texts) == 3
    for text in texts:
        families = text.get_fontfamily()
        assert families[0] == DEFAULT_FONT
        assert any(get_font(findfont(family)).get_char_index(ord(token)) for family in families[1:])


def test_characters_of_the_default_font_and_invisible_ones_need_no_other(tmp_path: Path) -> None:
    figure = draw_heatmap(np.ones((1, 2)), ["größer", "Привет"], ["</s>\u200d\x07"])
    (axes, _) = figure.axes
    assert {tuple(text.get_fontfamily()) for text in axes.get_xticklabels()} == {(DEFAULT_FONT,)}


def test_curve_of_a_run_with_a_foreign_name_warns_too() -> None:
    with pytest.warns(UserWarning, match="猫"):
        draw_curves({"猫": [{"train_loss": [(4, 5.2)]}]})
