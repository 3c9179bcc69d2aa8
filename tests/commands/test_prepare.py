"""nmt-prepare: writes what nmt-train reads, counts every pair, and leaves no files when it fails."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from builders import refusal, write_lines
from commands.texts import Call

from nmt.commands.prepare import prepare
from nmt.text import prepare as prepare_module
from nmt.text.prepare import open_prepared

SOURCE = ["the dog sees a cat", "", "a red house", "the cat sleeps", "a dog " * 30]
TARGET = ["Der Hund sieht eine Katze", "nichts", "ein rotes Haus", "die Katze schläft", "ein Hund " * 30]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with training files a.en and a.de and validation files b.en and b.de."""
    monkeypatch.chdir(tmp_path)
    for name, lines in {"a.en": SOURCE, "a.de": TARGET, "b.en": SOURCE[:2], "b.de": TARGET[:2]}.items():
        write_lines(name, lines)
    return tmp_path


TRAIN = ["data.train.src=a.en", "data.train.tgt=a.de", "output=mine", "tokenizer.vocab_size=290"]
VALID = ["data.valid.src=b.en", "data.valid.tgt=b.de"]


def test_output_can_be_opened_and_every_pair_is_counted(files: Path, call: Call) -> None:
    Path("a.en.gz").write_bytes(gzip.compress(Path("a.en").read_bytes()))
    lines, error = call(prepare, *TRAIN, *VALID, "data.train.src=a.en.gz", "data.max_length=40")
    assert error.startswith("warning: valid: ")  # a pair with an empty side
    assert lines[0].startswith("train: 3 of 5 pairs kept: ")
    assert set(lines[1:3]) == {"train: 1 dropped: empty source", "train: 1 dropped: longer than 40 pieces"}
    assert lines[3].startswith("valid: 2 of 2 pairs kept: ")  # only training pairs are dropped
    prepared = open_prepared(Path("mine"))
    assert prepared.corpora["train"].sources() == [SOURCE[0], SOURCE[2], SOURCE[3]]
    assert prepared.source is prepared.target and len(prepared.source) == 290


@pytest.mark.parametrize("words", [TRAIN, ["data=table", "data.train=a.tsv"]])
def test_two_lower_cased_vocabularies_without_a_validation_set(words: list[str], files: Path) -> None:
    write_lines("a.tsv", (f"{source or 'a cat'}\t{target}" for source, target in zip(SOURCE, TARGET, strict=True)))
    size = ["tokenizer=unigram", "tokenizer.vocab_size=[279,280]"]
    prepare([*words, *size, "data.lowercase=true", "output=mine"])
    prepared = open_prepared(Path("mine"))
    assert (len(prepared.source), len(prepared.target)) == (279, 280) and prepared.source is not prepared.target
    assert prepared.corpora["train"].targets()[0] == TARGET[0].lower()


def test_given_tokenizer_is_used_unchanged(files: Path) -> None:
    prepare([*TRAIN, *VALID])
    prepare([*TRAIN, *VALID, "tokenizer.model=mine/source.model", "output=again"])
    assert Path("again/source.model").read_bytes() == Path("mine/source.model").read_bytes()


def test_ctrl_c_leaves_no_files(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "write_settings", Mock(side_effect=KeyboardInterrupt))
    before = sorted(files.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        prepare([*TRAIN, *VALID])
    assert sorted(files.rglob("*")) == before


def test_a_full_disk_leaves_no_files(files: Path, full_disk: Callable[[int], None]) -> None:
    for name in ("a.en", "a.de"):
        write_lines(name, [f"{'the dog sees a cat ' * 9}{number}" for number in range(1500)])
    before = sorted(files.rglob("*"))
    full_disk(100_000)
    refusal(prepare, TRAIN)
    assert sorted(files.rglob("*")) == before
