"""nmt-distill: the targets are what nmt-translate writes, also after a stop, and students can train on them."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from builders import write_lines
from commands.processes import start
from commands.texts import Call

from nmt.commands import distill as module
from nmt.commands.distill import distill
from nmt.commands.translate import translate
from nmt.errors import UserError

pytestmark = pytest.mark.thorough

RANDOM = random.Random(1)
SOURCE = [" ".join(RANDOM.choices(["ban", "gin", "kor"], k=RANDOM.randint(0, 4))) for _ in range(300)]
TARGET = [f"target {number}" for number in range(300)]
CODE = """
from nmt.commands import distill as module
module.GROUP = 2
from nmt.commands.programs import distill
distill()
"""


@pytest.fixture
def words(tmp_path: Path, golden_run: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Settings of a call, in a folder with the files src and tgt and the output out.txt of nmt-translate."""
    monkeypatch.chdir(tmp_path)
    write_lines("src", SOURCE)
    write_lines("tgt", TARGET)
    translate([f"model={golden_run}", "input=src", "output=out.txt", "engine=onnx", "threads=1"])
    return [f"model={golden_run}", "src=src", "tgt=tgt", "output=new", "engine=onnx", "threads=1"]


def read(name: str) -> list[str]:
    return Path("new", name).read_text("utf-8").splitlines()


def test_targets_are_those_of_nmt_translate(words: list[str], call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP", 37)
    printed = call(distill, *words, "workers=2")
    teacher = Path("out.txt").read_text("utf-8").splitlines()
    expected = [line or reference for line, reference in zip(teacher, TARGET, strict=True)]
    assert (read("train.src"), read("train.tgt")) == (SOURCE, expected)
    blank = teacher.count("")
    assert 0 < blank < 300
    assert printed.lines == [
        f"{300 - blank} of 300 pairs: translation of the teacher",
        f"{blank} references kept: empty translation",
        "new: 300 pairs",
        "train with: nmt-train data=text data.train.src=new/train.src data.train.tgt=new/train.tgt"
        " data.valid.src=FILE data.valid.tgt=FILE",
    ]
    assert sorted(os.listdir()) == ["new", "out.txt", "src", "tgt"] and sorted(os.listdir("new")) == [
        "train.src",
        "train.tgt",
    ]


def test_the_nearest_of_several_translations_is_the_target(
    words: list[str], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP", 37)
    translate([words[0], "input=src", "output=lists.txt", "engine=onnx", "threads=1", "search.n_best=3"])
    lists: list[list[str]] = [[] for _ in SOURCE]
    for line in Path("lists.txt").read_text("utf-8").splitlines():
        row, text, _ = line.split(" ||| ")
        lists[int(row)].append(text)
    assert len({len(texts) for texts in lists}) > 1
    references = [texts[-1] or "target" for texts in lists]  # chrF does not count spaces
    write_lines("tgt", references)
    call(distill, *words, "search.n_best=3", "workers=2")
    assert [text.replace(" ", "") for text in read("train.tgt")] == [text.replace(" ", "") for text in references]


@pytest.mark.parametrize("original", [False, True])
def test_finished_translations_are_filtered(words: list[str], original: bool, call: Call) -> None:
    write_lines("good", [text.upper() if number % 3 else "other" for number, text in enumerate(TARGET)])
    settings = ["translations=good", "rejected=drop", "min_chrf=50", "lowercase=true", f"add_original={original}"]
    printed = call(distill, *words[1:4], *settings)
    fate = "100 translations dropped" if original else "100 dropped"
    assert printed.lines[:2] == ["200 of 300 pairs: translation of the teacher", f"{fate}: chrF below 50"]
    assert f"new: {500 if original else 200} pairs" in printed.lines
    kept = [pair for number, pair in enumerate(zip(SOURCE, TARGET, strict=True)) if number % 3]
    pairs = list(zip(read("train.src"), read("train.tgt"), strict=True))
    assert [pair for pair in pairs if pair[1].isupper()] == [(source, text.upper()) for source, text in kept]
    assert [pair for pair in pairs if not pair[1].isupper()] == list(zip(SOURCE, TARGET, strict=True)) * original


def test_a_rejected_pair_is_written_once_with_its_reference(tmp_path: Path, call: Call) -> None:
    """One line of two is rejected, so its reference is written as the original pair, and not twice."""
    paths = {name: str(tmp_path / name) for name in ("src", "tgt", "good")}
    for name, lines in {"src": ["a", "b"], "tgt": ["one", "two"], "good": ["One", ""]}.items():
        write_lines(paths[name], lines)
    words = [f"src={paths['src']}", f"tgt={paths['tgt']}", f"translations={paths['good']}"]
    call(distill, *words, f"output={tmp_path / 'new'}", "add_original=true")
    sides = ((tmp_path / "new" / name).read_text("utf-8").splitlines() for name in ("train.src", "train.tgt"))
    assert [*zip(*sides, strict=True)] == [("a", "One"), ("a", "one"), ("b", "two")]


def test_text_of_which_no_pair_is_left_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("src", "tgt", "good"):
        write_lines(name, ["a b c", "d e f"] if name == "src" else [f"{name} one", f"{name} two"])
    words = ["src=src", "tgt=tgt", "translations=good", "output=new", "min_chrf=90", "rejected=drop"]
    with pytest.raises(UserError) as problem:
        distill(words)
    counts = "0 of 2 pairs: translation of the teacher; 2 dropped: chrF below 90"
    assert str(problem.value) == f"src=src: no pair is left ({counts}); reject less, or remove rejected=drop"
    assert sorted(os.listdir()) == ["good", "src", "tgt"]


@pytest.mark.parametrize("exchanged", [False, True])
def test_exchanged_files_are_named(exchanged: bool, tmp_path: Path, call: Call) -> None:
    """The translations are German, so they resemble the sources if the files are exchanged."""
    texts = {"src": [f"{line} dog" for line in SOURCE[:60]], "tgt": [f"{line} {line} Hund" for line in TARGET[:60]]}
    for name, lines in {**texts, "translations": [line.replace("Hund", "Katze") for line in texts["tgt"]]}.items():
        write_lines(tmp_path / name, lines)
    sides = ["tgt", "src"] if exchanged else ["src", "tgt"]
    words = [f"src={tmp_path / sides[0]}", f"tgt={tmp_path / sides[1]}", f"translations={tmp_path / 'translations'}"]
    error = call(distill, *words, f"output={tmp_path / 'new'}").error
    assert ("src= and tgt= are exchanged" in error) is exchanged and ("warning" in error) is exchanged


def test_stopped_call_continues(words: list[str]) -> None:
    with start(CODE, words) as process:
        while not (shards := list(Path("new.shards").glob("*.shard"))):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        messages = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130 and "run the same command again to continue" in messages and shards
    assert sorted(os.listdir()) == ["new.shards", "out.txt", "src", "tgt"]
    with start(CODE, words) as process:
        messages = process.communicate(timeout=60)[1].decode()
    assert "new.shards: " in messages and "continuing" in messages
    teacher = Path("out.txt").read_text("utf-8").splitlines()
    assert read("train.tgt") == [line or reference for line, reference in zip(teacher, TARGET, strict=True)]
