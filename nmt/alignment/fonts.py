"""Fonts for heatmaps: matplotlib's default font lacks many scripts and draws boxes for their characters."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable
from functools import cache, lru_cache

import numpy as np

from nmt.alignment.characters import is_visible

DEFAULT = "DejaVu Sans"  # comes with matplotlib
CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH")
_warned: set[str] = set()  # packages


def font_families(texts: Iterable[str]) -> list[str]:
    """Return the default font, then those installed fonts that have the characters which it lacks.

    Characters that no font has are drawn as boxes. A warning names them and a package that has them, once per package.
    """
    families, boxes = _choose(frozenset(character for text in texts for character in text if is_visible(character)))
    for package in {_package(character) for character in boxes} - _warned:
        _warned.add(package)
        characters = " ".join(character for character in boxes if _package(character) == package)
        warnings.warn(
            f"no installed font has {characters:.40}: the picture shows boxes;"
            f" install a font for them, such as {package} on Debian and Ubuntu",
            stacklevel=2,
        )
    return families


@lru_cache(maxsize=256)
def _choose(characters: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the families for these characters, and the characters that no font has."""
    from matplotlib.font_manager import findfont, fontManager

    families = [DEFAULT]
    missing = {ord(character) for character in characters} - set(_charmap(findfont(DEFAULT)).tolist())
    while missing:
        wanted = np.array(sorted(missing))
        counts = {path: int(np.isin(wanted, _charmap(path)).sum()) for path in _installed()}
        best = max(counts, key=lambda path: counts[path], default=None)  # the first of several
        if best is None or counts[best] == 0:
            break
        if best not in {entry.fname for entry in fontManager.ttflist}:
            fontManager.addfont(best)  # matplotlib's list can be older than the font
        families.append(_family(best))
        missing -= set(_charmap(best).tolist())
    return families, [chr(code) for code in sorted(missing)]


@cache
def _installed() -> list[str]:
    """Return the files of all upright sans fonts, then of all others. Bitmap fonts, such as colour emoji, are left out.

    matplotlib draws outlines only.
    """
    from matplotlib.font_manager import findSystemFonts
    from matplotlib.ft2font import FT2Font

    ranked = []
    for path in findSystemFonts():
        try:
            font = FT2Font(path)
        except (RuntimeError, OSError):  # damaged
            continue
        if font.scalable:
            plain = font.style_name in ("Regular", "Book", "Normal", "Roman")
            ranked.append((not plain, "Sans" not in font.family_name, path))
    return [path for *_, path in sorted(ranked)]


@cache
def _charmap(path: str) -> np.ndarray:
    """Return the characters of a font. 350 fonts take 2 MB in NumPy, and 25 MB as Python sets."""
    from matplotlib.ft2font import FT2Font

    return np.fromiter(FT2Font(path).get_charmap(), dtype=np.int64)


def _family(path: str) -> str:
    from matplotlib.ft2font import FT2Font

    return FT2Font(path).family_name


def _package(character: str) -> str:
    """Return a Debian package with a font that has the character."""
    name = unicodedata.name(character, "")
    if name.startswith(CJK):
        return "fonts-noto-cjk"
    if name.startswith("THAI"):
        return "fonts-thai-tlwg"
    if unicodedata.category(character) == "So" or character >= "\U0001f000":
        return "fonts-symbola"
    return "fonts-noto-core"
