"""nmt-distill: targets are chosen as by a naive filter, and a stopped command continues."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from builders import write_lines
from commands.processes import start
from commands.texts import Call
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from nmt.commands import distill as module
from nmt.commands.distill import TEACHER, Distillation, distill
from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.translation import Translation, n_best_lists, output_lines

RANDOM = random.Random(1)
SOURCE = [" ".join(RANDOM.choices(["the", "small", "dog"], k=RANDOM.randint(0, 4))) for _ in range(300)]
TARGET = [f"target {number}" for number in range(300)]
CODE = """
from nmt.commands import distill as module
module.GROUP = 2
from nmt.commands.programs import distill
distill()
"""
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
    with pytest.raises(UserError, match=r"^translations: line 1 must be a score, a tab and a translation"):
        Distillation(min_score=min_score).target("b", [line])


@given(st.lists(st.lists(st.text("ab|& #124;", max_size=9), min_size=1, max_size=3), max_size=4))
def test_n_best_lists_are_read_as_they_are_written(lists: list[list[str]]) -> None:
    best = [Translation(texts[0], n_best=[Translation(text, score=-1.5) for text in texts]) for texts in lists]
    lines = output_lines(best, 7, n_best=3, scores=True)
    assert [*n_best_lists(lines)] == [[f"-1.500000\t{text}" for text in texts] for texts in lists]


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
    printed = call(distill, *(f"{name}={path}" for name, path in paths.items()), *settings)
    sides = ((paths["output"] / name).read_text("utf-8").splitlines() for name in ("train.src", "train.tgt"))
    assert [*zip(*sides, strict=True)] == pairs
    assert f"{paths['output']}: {len(pairs)} pair{'s' * (len(pairs) != 1)}" in printed.lines


def test_text_of_which_no_pair_is_left_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("src", "tgt", "good"):
        write_lines(name, ["a b c", "d e f"] if name == "src" else [f"{name} one", f"{name} two"])
    with pytest.raises(UserError, match=r"^src=src: "):
        distill(["src=src", "tgt=tgt", "translations=good", "output=new", "min_chrf=90", "rejected=drop"])
    assert sorted(os.listdir()) == ["good", "src", "tgt"]


@pytest.fixture
def words(tmp_path: Path, exported: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Settings of a call, in a folder with the files src and tgt and the output out.txt of nmt-translate."""
    monkeypatch.chdir(tmp_path)
    write_lines("src", SOURCE)
    write_lines("tgt", TARGET)
    translate([f"model={exported}", "input=src", "output=out.txt", "engine=onnx", "threads=1"])
    return [f"model={exported}", "src=src", "tgt=tgt", "output=new", "engine=onnx", "threads=1"]


def read(name: str) -> list[str]:
    return Path("new", name).read_text("utf-8").splitlines()


@pytest.mark.thorough
def test_targets_are_those_of_nmt_translate(words: list[str], call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP", 37)
    call(distill, *words, "workers=2")
    teacher = Path("out.txt").read_text("utf-8").splitlines()
    expected = [line or reference for line, reference in zip(teacher, TARGET, strict=True)]
    assert (read("train.src"), read("train.tgt")) == (SOURCE, expected) and 0 < teacher.count("") < 300
    assert sorted(os.listdir()) == ["new", "out.txt", "src", "tgt"]


@pytest.mark.thorough
def test_stopped_call_continues(words: list[str]) -> None:
    with start(CODE, words) as process:
        while not (shards := list(Path("new.shards").glob("*.shard"))):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130 and shards
    assert sorted(os.listdir()) == ["new.shards", "out.txt", "src", "tgt"]
    with start(CODE, words) as process:
        process.communicate(timeout=60)
    teacher = Path("out.txt").read_text("utf-8").splitlines()
    assert read("train.tgt") == [line or reference for line, reference in zip(teacher, TARGET, strict=True)]
