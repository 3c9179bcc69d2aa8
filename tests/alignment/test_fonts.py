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

from nmt.alignment import fonts
from nmt.alignment.fonts import font_families
from nmt.alignment.heatmap import save_heatmap

pytestmark = pytest.mark.thorough

BUNDLED = Path(matplotlib.get_data_path()) / "fonts" / "ttf"  # the fonts that come with matplotlib


def characters(path: str | Path) -> set[int]:
    return set(FT2Font(str(path)).get_charmap())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files of the installed fonts, which tests change; at first the list is empty."""
    paths: list[str] = []
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: paths)
    monkeypatch.setattr(fonts, "_warned", set())
    for function in (fonts._installed, fonts._choose):
        function.cache_clear()
    yield paths
    for function in (fonts._installed, fonts._choose):
        function.cache_clear()


def test_default_font_is_enough_for_its_characters(installed: list[str]) -> None:
    assert font_families(["größer", "Привет", "▁dog", "</s>", "\u200d\ufe0f\x07"]) == ["DejaVu Sans"]


def test_missing_characters_come_from_an_installed_font(installed: list[str], tmp_path: Path) -> None:
    stix = BUNDLED / "STIXGeneral.ttf"
    code = min(characters(stix) - characters(findfont("DejaVu Sans")) - set(range(0xE000, 0xF900)))
    installed += [str(BUNDLED / "cmr10.ttf"), str(stix)]
    assert font_families([chr(code)]) == ["DejaVu Sans", "STIXGeneral"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # also matplotlib's "Glyph missing"
        save_heatmap(np.ones((1, 1)), [chr(code)], ["a"], tmp_path / "picture.png", title=chr(code))


def test_missing_characters_cause_one_warning_that_names_a_package(installed: list[str], tmp_path: Path) -> None:
    cases = {"猫": "fonts-noto-cjk", "แมว": "fonts-thai-tlwg", "अंग्रेज़ी": "fonts-noto-core", "🐈": "fonts-symbola"}
    for text, package in cases.items():
        for again in (False, True):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                save_heatmap(np.ones((1, 1)), [text], ["a"], tmp_path / "picture.png")
            messages = [str(warning.message) for warning in caught]
            assert len(messages) == (not again)
            assert again or f"such as {package} on Debian" in messages[0] and text[0] in messages[0]


def test_bitmap_and_damaged_fonts_are_not_used(installed: list[str], tmp_path: Path) -> None:
    (tmp_path / "damaged.ttf").write_bytes(b"\x00\x01\x00\x00" + bytes(40))
    installed.append(str(tmp_path / "damaged.ttf"))
    assert fonts._installed() == []
