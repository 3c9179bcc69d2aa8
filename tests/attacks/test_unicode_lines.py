"""Random Unicode text through every engine: one line out per line in, in order, whatever the other lines are."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from attack_table import Trials
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.inference.engines import EngineName
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

pytestmark = pytest.mark.thorough

# All characters, also lone surrogates and line breaks, which a Python caller can give; and words of the model.
LINE = st.one_of(
    st.text(max_size=12),
    st.text(st.characters(exclude_categories=["L", "N"]), max_size=6),
    st.lists(st.sampled_from(["ban", "gin", "kor", "des", "\u2581", "\r", "\u2028", "\0"]), max_size=5).map(" ".join),
)
GREEDY = SearchOptions(beam_size=1, max_length=6)


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(engine, marks=pytest.mark.attack(f"Unicode lines, {engine}"))
        for engine in ("torch", "onnx", "onnx-int8")
    ],
)
@pytest.mark.filterwarnings("ignore:source text")  # random characters cannot be read
@pytest.mark.parametrize("examples", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_line_has_its_translation(engine: EngineName, examples: int, folder: Path, trials: Trials) -> None:
    translator = Translator.load(folder / "runs" / "finished", engine=engine, device="cpu")

    @settings(max_examples=examples)
    @given(st.lists(LINE, max_size=6), st.randoms())
    def check(lines: list[str], random: Random) -> None:
        trials.add()
        together = translator.translate(lines, GREEDY, alignments=False)
        assert len(together) == len(lines)
        order = random.sample(range(len(lines)), len(lines))
        reordered = translator.translate([lines[row] for row in order], GREEDY, alignments=False)
        for row, translation in zip(order, reordered, strict=True):
            [alone] = translator.translate([lines[row]], GREEDY, alignments=False)
            assert alone.tokens == translation.tokens == together[row].tokens
            assert alone.text == translation.text and "\n" not in alone.text
            assert lines[row].strip() or alone.text == ""  # a blank line stays blank

    check()
