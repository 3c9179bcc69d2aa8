"""Pairs in other languages than data.languages are dropped and counted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from builders import expect_error
from small_text import prepared_text

from nmt.config.compose import train_config
from nmt.data import languages
from nmt.data.filters import Filters
from nmt.data.pair import Pair

ENGLISH = "A man in a blue shirt is standing on a ladder cleaning a window."
GERMAN = "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster."
CZECH = "Muž v modré košili stojí na žebříku a myje okno."


@pytest.fixture
def package() -> None:
    pytest.importorskip("py3langid", reason="py3langid is not installed: make extras")


@pytest.mark.usefixtures("package")
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


@pytest.mark.usefixtures("package")
def test_lines_of_any_characters_have_a_language() -> None:
    for line in ("", "\0", "x \ud800", "\U0010ffff" * 3):
        languages.is_foreign(line, "en")


@pytest.mark.thorough
@pytest.mark.usefixtures("package")
def test_processes_count_the_same_pairs(tmp_path: Path) -> None:
    pairs = [Pair(ENGLISH, GERMAN), Pair(ENGLISH, CZECH), Pair(GERMAN, GERMAN)] * 10
    pair_counts = [
        prepared_text(tmp_path / str(workers), pairs, workers=workers, languages=["en", "de"]).pair_counts["train"]
        for workers in (1, 2)
    ]
    assert pair_counts[0] == pair_counts[1]
    assert pair_counts[0].dropped == {"target not in language de": 10, "source not in language en": 10}
    assert pair_counts[0].kept == 10


@pytest.mark.usefixtures("package")
def test_unknown_languages_are_reported_before_any_work() -> None:
    expect_error(
        r"data\.languages=\[en,xx\]: py3langid does not know xx; give ISO 639 codes such as en",
        train_config,
        ["data.languages=[en,xx]"],
    )
    expect_error("must be a list of 2", train_config, ["data.languages=[en]"])
    train_config(["data.languages=[en,de]"])


def test_missing_package_is_reported_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    languages._identifier.cache_clear()
    expect_error(
        r"data\.languages=\[en,de\]: the package py3langid is not installed; install",
        train_config,
        ["data.languages=[en,de]"],
    )
