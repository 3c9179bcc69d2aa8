"""Invisible characters are removed, and words keep their numbers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.invisible import KINDS, Invisible, remove_invisible
from nmt.data.links import Pair
from nmt.data.sources import DataSettings, pairs_from_python
from nmt.settings.build import build

CONTROLS = "\x00\x07\x1b\x7f"
INVISIBLE = CONTROLS + "\ufeff\u00ad\u200b\u2060\u200e\u202a\u2069"
LINES = st.text(st.sampled_from([*INVISIBLE, *"ab  \t", "\u200c", "\u200d", "\u00a0", "\f", "é", "👩"]), max_size=30)


def words(line: str) -> list[str]:
    return re.findall(r"[^ \t]+", line)


@given(LINES, st.sampled_from(KINDS))
def test_words_keep_their_numbers(line: str, kind: Invisible | None) -> None:
    removed = {None: "", "bom": CONTROLS + "\ufeff", "all": INVISIBLE}[kind]
    changed = remove_invisible(line, kind)
    assert remove_invisible(changed, kind) == changed
    if kind is None or not any(character in line for character in removed):
        assert changed == line
    if not line.translate(dict.fromkeys(map(ord, removed))).strip():
        assert not changed.strip()
        return
    assert len(words(changed)) == len(words(line))
    for before, after in zip(words(line), words(changed), strict=True):
        visible = before.translate(dict.fromkeys(map(ord, removed)))
        assert after == (visible or "\u00a0")


@pytest.mark.parametrize("kind", ["bom", "all"])
def test_controls_that_tokenizers_read_as_spaces_stay(kind: Invisible) -> None:
    for control in map(chr, [*range(32), *range(127, 160)]):
        kept = control.isspace() or control > "\x7f"
        assert remove_invisible(f"a{control}b", kind) == (f"a{control}b" if kept else "ab")
    assert remove_invisible("\x1b[1;31msmall\x1b[0m \x1b[K cats", kind) == "small \u00a0 cats"


@pytest.mark.parametrize(("setting", "target"), [({}, "c\u00add"), ({"remove_invisible": "all"}, "cd")])
def test_every_data_source_removes_them_from_both_sides(setting: dict[str, str], target: str) -> None:
    data = {"_target_": "nmt.data.sources.from_python", "columns": None, **setting}
    parts = pairs_from_python({"train": [("\ufeffa \x00b", "c\u00add", [(1, 0)])]}, build(DataSettings, data))
    assert list(parts["train"]) == [Pair("a b", target, ((1, 0),))]
