"""Pairs in other languages than data.languages are dropped and counted."""

from __future__ import annotations

import sys

import pytest
from builders import expect_error

from nmt.config.compose import train_config
from nmt.data import filters
from nmt.data.filters import Filters
from nmt.data.links import Pair

ENGLISH = "A man in a blue shirt is standing on a ladder cleaning a window."
GERMAN = "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster."
CZECH = "Muž v modré košili stojí na žebříku a myje okno."


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ((ENGLISH, GERMAN), None),
        ((GERMAN, ENGLISH), "source not in language en"),
        ((GERMAN, GERMAN), "source not in language en"),
        ((ENGLISH, ENGLISH), "target not in language de"),
        ((ENGLISH, CZECH), "target not in language de"),
        ((ENGLISH.upper(), GERMAN.lower()), None),
        (("Berlin", "Tom"), None),
        (("123", "?!"), None),
    ],
)
def test_sides_in_other_languages_are_dropped(pair: tuple[str, str], reason: str | None) -> None:
    assert Filters(languages=("en", "de")).reason(Pair(*pair), 9, 9) == reason
    assert Filters().reason(Pair(*pair), 9, 9) is None


def test_unknown_languages_are_reported_before_any_work() -> None:
    for wrong in ("data.languages=[en,xx]", "data.languages=[en]"):
        expect_error("data.languages", train_config, [wrong])
    train_config(["data.languages=[en,de]"])


def test_missing_package_is_reported_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    filters._identifier.cache_clear()
    expect_error("data.languages", train_config, ["data.languages=[en,de]"])
