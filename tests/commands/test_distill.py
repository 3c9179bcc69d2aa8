"""nmt-distill: targets are chosen as by a naive filter, and translated as by nmt-translate."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from builders import expect_error, write_lines
from commands.texts import Call
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from nmt.commands import distill as module
from nmt.commands.distill import TEACHER, Distillation, distill
from nmt.commands.translate import translate

RANDOM = random.Random(1)
SOURCE = [" ".join(RANDOM.choices(["the", "small", "dog"], k=RANDOM.randint(0, 4))) for _ in range(300)]
TARGET = [f"target {number}" for number in range(300)]
TEXTS = st.lists(st.sampled_from(["ein Hund", "Hund", "EIN HUND", ""]), max_size=2).map(" ".join)
SCORES = st.sampled_from(["-0.500000", "-2.000000", "-inf", "nan", "0"])


def chrf(text: str, reference: str, *, lowercase: bool) -> float:
    sides = [side.lower() if lowercase else side for side in (text, reference)]
    return float(CHRF().sentence_score(sides[0], [sides[1]]).score)


@given(
    st.lists(st.tuples(TEXTS, st.lists(st.tuples(SCORES, TEXTS), min_size=1, max_size=3)), max_size=6),
    st.none() | st.sampled_from([-2.0, -1.0]),
    st.none() | st.sampled_from([0.0, 30.0, 100.0]),
    st.booleans(),
    st.booleans(),
)
def test_targets_equal_those_of_a_naive_filter(
    rows: list[tuple[str, list[tuple[str, str]]]],
    min_score: float | None,
    min_chrf: float | None,
    drops: bool,
    lowercase: bool,
) -> None:
    distillation = Distillation(min_score=min_score, min_chrf=min_chrf, drops=drops, lowercase=lowercase)
    accepted = 0
    for reference, translations in rows:
        score, text = translations[0]
        for other in translations[1:]:
            if chrf(other[1], reference, lowercase=lowercase) > chrf(text, reference, lowercase=lowercase):
                score, text = other
        good = bool(text.strip())
        good = good and (min_score is None or float(score) >= min_score)
        good = good and (min_chrf is None or chrf(text, reference, lowercase=lowercase) >= min_chrf)
        expected = text if good else None if drops else reference
        assert distillation.target(reference, ["\t".join(columns) for columns in translations]) == expected
        accepted += good
    assert distillation.counts[TEACHER] == accepted and distillation.counts.total() == len(rows)


@pytest.mark.parametrize(
    ("line", "min_score"), [("a", -1.0), ("a\tb", None), ("1\t2\tb", None), ("x\tb", -1.0), ("\tb", None)]
)
def test_lines_of_other_columns_are_refused(line: str, min_score: float | None) -> None:
    expect_error("translations", Distillation(min_score=min_score).target, "b", [line])


@pytest.mark.parametrize(
    ("settings", "pairs"),
    [
        ([], [("a", "One"), ("b", "two"), ("c", "other")]),
        (["rejected=drop"], [("a", "One"), ("c", "other")]),
        (["min_chrf=50", "lowercase=true", "rejected=drop"], [("a", "One")]),
        (["min_chrf=50", "lowercase=true"], [("a", "One"), ("b", "two"), ("c", "three")]),
        (["add_original=true"], [("a", "One"), ("a", "one"), ("b", "two"), ("c", "other"), ("c", "three")]),
    ],
)
def test_finished_translations_are_filtered(
    settings: list[str], pairs: list[tuple[str, str]], tmp_path: Path, call: Call
) -> None:
    paths = {name: tmp_path / name for name in ("src", "tgt", "translations", "output")}
    for name, lines in (("src", "a b c"), ("tgt", "one two three"), ("translations", "One  other")):
        write_lines(paths[name], lines.split(" "))
    call(distill, *(f"{name}={path}" for name, path in paths.items()), *settings)
    sides = ((paths["output"] / name).read_text("utf-8").splitlines() for name in ("train.src", "train.tgt"))
    assert [*zip(*sides, strict=True)] == pairs


@pytest.mark.thorough
def test_targets_are_those_of_nmt_translate(
    exported: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "GROUP", 37)
    write_lines("src", SOURCE)
    write_lines("tgt", TARGET)
    words = [f"model={exported}", "engine=onnx", "threads=1"]
    teacher = call(translate, *words, "input=src").lines
    call(distill, *words, "src=src", "tgt=tgt", "output=new", "workers=2")
    expected = [line or reference for line, reference in zip(teacher, TARGET, strict=True)]
    assert [Path("new", f"train.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt")] == [
        SOURCE,
        expected,
    ]
    assert 0 < teacher.count("") < 300 and sorted(os.listdir()) == ["new", "src", "tgt"]
