"""nmt-prepare: writes what nmt-train reads, counts every pair, and leaves no files when it fails."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from builders import expect_error, write_lines
from commands.texts import Call

from nmt.commands.prepare import prepare
from nmt.text import prepare as prepare_module
from nmt.text.prepare import open_prepared
from nmt.text.tokenizer import Tokenizer

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


@pytest.fixture
def made(files: Path) -> Path:
    """A prepared folder."""
    prepare([*TRAIN, *VALID, "output=made"])
    return Path("made")


def test_output_can_be_opened_and_every_pair_is_counted(files: Path, call: Call) -> None:
    Path("a.en.gz").write_bytes(gzip.compress(Path("a.en").read_bytes()))
    lines, error = call(prepare, *TRAIN, *VALID, "data.train.src=a.en.gz", "data.max_length=40")
    assert error == "warning: valid: 1 pair with an empty side; remove them\n"
    assert lines[0].startswith("train: 3 of 5 pairs kept: ")
    assert set(lines[1:3]) == {"train: 1 dropped: empty source", "train: 1 dropped: longer than 40 pieces"}
    assert lines[3].startswith("valid: 2 of 2 pairs kept: ")  # only training pairs are dropped
    overlap, *_, vocabulary, last = lines[4:]
    # The other one is blank.
    assert overlap == "valid: 1 of 2 sources also in the training text, 1 with the same target"
    assert vocabulary == "vocabulary: 290 pieces, shared by both sides"
    assert last == "train with: nmt-train data=prepared data.folder=mine"
    assert lines[5].startswith("train source: ▁ t h e ▁d") and lines[6].startswith("train target: ▁")
    prepared = open_prepared(Path("mine"))
    assert prepared.corpora["train"].sources() == [SOURCE[0], SOURCE[2], SOURCE[3]]
    assert prepared.source is prepared.target and len(prepared.source) == 290


def test_two_lower_cased_vocabularies_without_a_validation_set(files: Path, call: Call) -> None:
    words = ["tokenizer=unigram", "tokenizer.vocab_size=279", "tokenizer.joint=false", "data.lowercase=true"]
    lines, _ = call(prepare, *TRAIN, *words)
    assert "vocabulary: 279 source and 279 target pieces" in lines
    assert lines[-1] == "valid: not given, but nmt-train needs it; add data.valid.src=FILE data.valid.tgt=FILE"
    write_lines("pairs.tsv", ["a cat\teine Katze"])
    table = call(prepare, "data=table", "data.train=pairs.tsv", "tokenizer.vocab_size=279", "output=table").lines
    assert table[-1] == "valid: not given, but nmt-train needs it; add data.valid=FILE"
    assert open_prepared(Path("mine")).corpora["train"].targets()[0] == TARGET[0].lower()


def test_given_tokenizer_is_used_unchanged(made: Path) -> None:
    prepare([*TRAIN, *VALID, "tokenizer.source_model=made/source.model", "output=again"])
    assert Path("again/source.model").read_bytes() == (made / "source.model").read_bytes()


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"format": 2}', '{"lowercase": true, "tokenizer": {}}'])
def test_damaged_settings_are_reported(made: Path, text: str) -> None:
    (made / "settings.json").write_text(text)
    expect_error(r"made.*settings\.json.*; prepare the text again with nmt-prepare$", open_prepared, made)


def test_a_missing_or_unrecorded_part_is_reported(made: Path) -> None:
    shutil.copy(made / "train.arrow", made / "test.arrow")
    expect_error(
        r"data\.folder=made: has no test\.arrow; prepare the text again and add",
        open_prepared,
        made,
        needed=("train", "test"),
    )
    (made / "train.arrow").unlink()
    expect_error(r"made/train\.arrow: cannot be read as prepared text \(No such file", open_prepared, made)


def test_ctrl_c_leaves_no_files_and_says_how_to_go_on(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "write_settings", Mock(side_effect=KeyboardInterrupt))
    before = sorted(files.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        prepare([*TRAIN, *VALID])
    assert capsys.readouterr().err == "stopped; mine was not written; run the same command again\n"
    assert sorted(files.rglob("*")) == before


def cut_short(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[:3])


def test_text_that_changes_between_its_readings_is_noticed(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = prepare_module.scan_pairs

    def scan(pairs: Any) -> Any:
        scanned = original(pairs)
        for name in ("a.en", "a.de"):
            Path(name).write_text(cut_short(Path(name).read_text()))
        return scanned

    monkeypatch.setattr(prepare_module, "SAMPLE_PAIRS", 4)
    monkeypatch.setattr(prepare_module, "scan_pairs", scan)
    expect_error("^data.train: the text changed while it was read; run the command again", prepare, TRAIN)
    assert not Path("mine").exists()


ENGLISH = ["two small dogs run through the deep white snow", "an old woman reads a long letter at the window"]
GERMAN = ["Zwei kleine Hunde laufen durch den tiefen weißen Schnee", "Eine alte Frau liest am Fenster einen Brief"]
RUSSIAN = ["Две маленькие собаки бегут по глубокому снегу", "Старая женщина читает у окна длинное письмо"]
OWN = ["tokenizer.joint=false", "tokenizer.source_model=en.model", "tokenizer.target_model=de.model"]


@pytest.fixture
def own_models(files: Path) -> None:
    for name, lines in {"en": ENGLISH, "de": GERMAN, "ru": RUSSIAN}.items():
        write_lines(f"{name}.txt", lines * 15)
        Path(f"{name}.model").write_bytes(Tokenizer.train(lines, vocab_size=325).to_bytes())


@pytest.mark.usefixtures("own_models")
def test_text_in_another_script_is_named(call: Call) -> None:
    def reading_warnings(source: str, target: str, *words: str) -> list[str]:
        text = [f"data.train.src={source}.txt", f"data.train.tgt={target}.txt"]
        error = call(prepare, *TRAIN, *OWN, *text, *words).error
        return [line for line in error.splitlines() if line.startswith("warning: ")]

    assert reading_warnings("en", "de") == []
    [line] = reading_warnings("ru", "de", "output=c")
    assert line.startswith("warning: train source: ") and "as in 'Две'" in line
    assert line.endswith("; choose another tokenizer.source_model, or remove it to train one on this text")
    valid = ["data.valid.src=en.txt", "data.valid.tgt=ru.txt", "output=d", "tokenizer.target_model=null"]
    [line] = reading_warnings("en", "de", *valid)
    assert line.startswith("warning: valid target: ") and "give valid text in the same language" in line
    stored = open_prepared(Path("c")).pair_counts["train"]
    assert stored.source.unknown_share > 0.8 and stored.target.unknown == 0
    expect_error(
        "the tokenizer cannot read the source, such as 'Две'",
        reading_warnings,
        "ru",
        "de",
        "output=e",
        "data.max_length=9",
    )
