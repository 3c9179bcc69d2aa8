"""nmt-distill: targets are chosen as by a naive filter, and translated as by nmt-translate."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import expect_error, write_lines
from commands.texts import Call, Printed
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from nmt.commands import distill as module
from nmt.commands.distill import TEACHER, Distillation, distill
from nmt.commands.translate import translate

TEXTS = st.lists(st.sampled_from(["ein Hund", "Hund", "EIN HUND", ""]), max_size=2).map(" ".join)


@given(
    st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3)), max_size=6),
    st.none() | st.sampled_from([0.0, 30.0, 100.0]),
    st.booleans(),
    st.booleans(),
)
def test_targets_equal_those_of_a_naive_filter(
    rows: list[tuple[str, list[str]]], min_chrf: float | None, drops: bool, lowercase: bool
) -> None:
    def chrf(text: str, reference: str) -> float:
        sides = [side.lower() if lowercase else side for side in (text, reference)]
        return float(CHRF().sentence_score(sides[0], [sides[1]]).score)

    distillation = Distillation(min_chrf=min_chrf, drops=drops, lowercase=lowercase)
    accepted = 0
    for reference, texts in rows:
        best = texts[0]
        for text in texts[1:]:
            best = text if chrf(text, reference) > chrf(best, reference) else best
        good = bool(best.strip()) and (min_chrf is None or chrf(best, reference) >= min_chrf)
        expected = best if good else None if drops else reference
        assert distillation.target(reference, texts) == expected
        accepted += good
    assert distillation.counts[TEACHER] == accepted and distillation.counts.total() == len(rows)


@pytest.mark.parametrize(
    ("settings", "pairs"),
    [
        ("", ["a One", "b two", "c other"]),
        ("rejected=drop", ["a One", "c other"]),
        ("min_chrf=30 rejected=drop", ["a One"]),
        ("min_chrf=30", ["a One", "b two", "c three"]),
        ("add_original=true", ["a One", "a one", "b two", "c other", "c three"]),
    ],
)
def test_finished_translations_are_filtered(settings: str, pairs: list[str], files: Path, call: Call) -> None:
    for name, lines in (("src", "a b c"), ("tgt", "one two three"), ("out", "One  other")):
        write_lines(name, lines.split(" "))
    call(distill, "src=src", "tgt=tgt", "translations=out", "output=o", *settings.split())
    sides = (Path("o", name).read_text("utf-8").splitlines() for name in ("train.src", "train.tgt"))
    assert [*map(" ".join, zip(*sides, strict=True))] == pairs


def test_of_a_finished_list_the_nearest_translation_is_taken(files: Path, call: Call) -> None:
    write_lines("out", [f"{row} ||| {text} ||| -1.000000" for row, text in ((0, "x"), (0, "on"), (1, "two"), (1, ""))])
    write_lines("src", "ab")
    write_lines("tgt", ["one", "two"])
    call(distill, "src=src", "tgt=tgt", "translations=out", "output=o")
    assert Path("o", "train.tgt").read_text("utf-8") == "on\ntwo\n"


@pytest.mark.parametrize("score", ["", "-0.500000\t"])
@pytest.mark.parametrize("line", ["12\t13", "0.123456\t7", "1 ||| 2 ||| 3"])
def test_a_translation_may_have_the_columns_of_its_source(line: str, score: str, files: Path, call: Call) -> None:
    for name in ("src", "tgt"):
        write_lines(name, ["one", line])
    write_lines("out", [score + "one", score + line])
    call(distill, "src=src", "tgt=tgt", "translations=out", "output=o")
    assert Path("o", "train.tgt").read_text("utf-8") == f"one\n{line}\n"


@pytest.mark.parametrize(
    "lines",
    [
        ["0 ||| ein Hund ||| -0.1"],
        ["0 ||| ein Hund ||| F0= -1.2 ||| -0.100000"],
        ["-12.3\tein Hund"],
        ["ein Hund\t-1.200000"],
        ["ein Hund", "-1.200000\tein Hund"],
        ["-1.200000\tein Hund", "ein Hund"],
        ["0 ||| ein Hund ||| -1.000000", "2 ||| ein Hund ||| -1.000000"],
    ],
    ids=str,
)
def test_other_columns_are_refused(lines: list[str], files: Path) -> None:
    for name, text in (("src", ["a dog"] * len(lines)), ("tgt", ["ein Hund"] * len(lines)), ("out", lines)):
        write_lines(name, text)
    expect_error("out", distill, ["src=src", "tgt=tgt", "translations=out", "output=o"])


def test_an_error_names_no_file_that_is_deleted(files: Path, printed: Callable[[], Printed]) -> None:
    for name, lines in (("src", "ab"), ("tgt", "ab"), ("out", "a")):
        write_lines(name, lines)
    expect_error("translations", distill, ["src=src", "tgt=tgt", "translations=out", "output=o"])
    assert printed().error == "" and not {"o", "o.shards"} & {*os.listdir()}


@pytest.mark.thorough
def test_targets_are_those_of_nmt_translate(
    exported: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "GROUP", 37)
    draw = random.Random(1)
    source = [" ".join(draw.choices(["the", "small", "dog"], k=draw.randint(0, 4))) for _ in range(300)]
    target = [f"target {number}" for number in range(300)]
    write_lines("src", source)
    write_lines("tgt", target)
    words = [f"model={exported}", "engine=onnx", "threads=1"]
    teacher = call(translate, *words, "input=src").lines
    call(distill, *words, "src=src", "tgt=tgt", "output=new/", "workers=2")
    expected = [line or reference for line, reference in zip(teacher, target, strict=True)]
    assert [Path("new", f"train.{side}").read_text("utf-8").splitlines() for side in ("src", "tgt")] == [
        source,
        expected,
    ]
    assert 0 < teacher.count("") < 300 and sorted(os.listdir()) == ["new", "src", "tgt"]
