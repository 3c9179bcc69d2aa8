"""Every step: its texts need no alignments and no other lines, and it changes nothing where it has nothing to do."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Any

import pytest
from inference.random_translators import random_translator, searches

from nmt.inference.translation import Translation
from nmt.search.options import SearchOptions

LINES = ["two dogs. x y!", "", "in New York ☃ , two x. ein Garten?", " ", "a b c d. Dr. Smith runs.", "東京 x。x y。"]
BEAM = SearchOptions(beam_size=4, n_best=4, max_length=7)
SEARCHES = {**searches(BEAM), "mbr": replace(BEAM, mbr=4, n_best=3)}
FEATURES: dict[str, dict[str, Any]] = {
    "sentences": {"sentences": "en"},
    "terms": {"terms": {"two": "zwei", "x": "abc"}, "keep_placeholders": True},
    "unknown words": {"replace_unknown": True},
    "all": {"sentences": "en", "terms": {"two": "zwei"}, "replace_unknown": True},
}


def texts(translations: list[Translation]) -> list[list[str]]:
    return [[best.text for best in translation.n_best] for translation in translations]


@pytest.mark.parametrize(
    ("feature", "search"), [*((feature, "beam") for feature in FEATURES), *(("all", search) for search in SEARCHES)]
)
def test_texts_depend_on_neither_alignments_nor_other_lines(feature: str, search: str) -> None:
    translator = random_translator(kind="spm-default", unknown_bias=4 * ("replace_unknown" in FEATURES[feature]))
    options = replace(SEARCHES[search], **FEATURES[feature])
    translations = translator.translate(LINES, options)
    without = translator.translate(LINES, options, alignments=False)
    assert all(best.alignment is None and not best.spans for line in without for best in line.n_best)
    groups = [*translator.translate_groups([LINES[:1], [], LINES[1:4], LINES[4:]], options)]
    assert [len(group) for group in groups] == [1, 0, 3, 2]
    alone = [translator.translate([line], options)[0] for line in LINES]
    for others in (without, sum(groups, []), alone):
        assert texts(others) == texts(translations)


@pytest.mark.parametrize(
    ("search", "language"), [("beam", None), *((search, "en") for search in [*SEARCHES, "sampled mbr"])]
)
def test_steps_change_nothing_where_they_have_nothing_to_do(search: str, language: str | None) -> None:
    """A glossary without a term of the line, unknown words without any, and markup without a tag."""
    translator = random_translator(kind="spm-default", unknown_bias=-100)
    sampled = SearchOptions(temperature=1.5, mbr=6, n_best=2, max_length=7)
    options = replace(SEARCHES.get(search, sampled), sentences=language)
    expected = texts(translator.translate(LINES, options))
    for changes in ({"terms": {"zebra": "Zebra"}}, {"replace_unknown": True}):
        assert texts(translator.translate(LINES, replace(options, **changes))) == expected
    pages = texts(translator.translate(LINES, options, markup=True))
    assert [[html.unescape(text) for text in line] for line in pages] == expected
