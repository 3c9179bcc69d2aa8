"""nmt-prepare: writes what nmt-train reads, counts every pair, and leaves no files when it fails."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nmt.commands.prepare import prepare
from nmt.errors import UserError
from nmt.text.prepare import open_prepared

SOURCE = ["the dog sees a cat", "", "a red house", "the cat sleeps", "a dog " * 30]
TARGET = ["Der Hund sieht eine Katze", "nichts", "ein rotes Haus", "die Katze schläft", "ein Hund " * 30]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with training files a.en and a.de and validation files b.en and b.de."""
    monkeypatch.chdir(tmp_path)
    for name, lines in {"a.en": SOURCE, "a.de": TARGET, "b.en": SOURCE[:2], "b.de": TARGET[:2]}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path("a.en.gz").write_bytes(gzip.compress(Path("a.en").read_bytes()))
    return tmp_path


TRAIN = ["data.train.src=a.en", "data.train.tgt=a.de", "output=mine", "tokenizer.vocab_size=290"]
VALID = ["data.valid.src=b.en", "data.valid.tgt=b.de"]


def test_output_can_be_opened_and_every_pair_is_counted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare([*TRAIN, *VALID, "data.train.src=a.en.gz", "data.max_length=40"])
    out, error = capsys.readouterr()
    assert error == ""
    lines = out.splitlines()
    assert lines[0].startswith("train: 3 of 5 pairs kept: ")
    assert set(lines[1:3]) == {"train: 1 dropped: empty source", "train: 1 dropped: longer than 40 pieces"}
    assert lines[3].startswith("valid: 2 of 2 pairs kept: ")  # only training pairs are dropped
    assert lines[4:] == [
        "vocabulary: 290 pieces, shared by both sides",
        "train with: nmt-train data=prepared data.folder=mine",
    ]
    prepared = open_prepared(Path("mine"))
    assert prepared.corpora["train"].sources() == [SOURCE[0], SOURCE[2], SOURCE[3]]
    assert prepared.source is prepared.target and len(prepared.source) == 290


def test_two_lower_cased_vocabularies_without_a_validation_set(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare([*TRAIN, "tokenizer=unigram", "tokenizer.vocab_size=279", "tokenizer.joint=false", "data.lowercase=true"])
    lines = capsys.readouterr().out.splitlines()
    assert "vocabulary: 279 source and 279 target pieces" in lines
    assert lines[-1].startswith("valid: not given")
    assert open_prepared(Path("mine")).corpora["train"].targets()[0] == TARGET[0].lower()


def test_given_tokenizer_is_used_unchanged(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare([*TRAIN, *VALID])
    prepare([*TRAIN, *VALID, "tokenizer.source_model=mine/source.model", "output=again"])
    assert Path("again/source.model").read_bytes() == Path("mine/source.model").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "data.train.src=null: must be given"),
        (["data.train.src=a.en", "data.train.tgt=b.de"], "a.en has 5 lines, b.de has 2 lines"),
        (
            ["data.train.src=a.en", "data.train.tgt=nowhere"],
            "data.train.tgt=nowhere: no such file (conf/data/text.yaml)",
        ),
        ([*TRAIN, "data.valid.tgt=b.de"], "data.valid.src=null: must be given"),
        ([*TRAIN, "tokenizer.vocab_size=100000"], "tokenizer.vocab_size=100000: this text yields at most"),
        ([*TRAIN, "tokenizer.vocab_size=0"], "tokenizer.vocab_size=0: must be at least 5 (conf/tokenizer/bpe.yaml)"),
        (
            [*TRAIN, "tokenizer.target_model=b.de"],
            "tokenizer.target_model=b.de: a joint vocabulary reads tokenizer.source_model only",
        ),
        ([*TRAIN, "data.test.links=b.de"], "data.test.src=null: must be given"),
        ([*TRAIN, "data.max_ratio=few"], "data.max_ratio=few: must be a number (conf/data/text.yaml)"),
        ([*TRAIN, "data.max_lenght=3"], "did you mean data.max_length"),
        ([*TRAIN, "data.max_length=1"], "all 5 pairs were dropped"),
        ([*TRAIN, "data=txt"], "data=txt: no such choice; did you mean text?"),
        ([*TRAIN, "data._target_=os.walk"], "data._target_=os.walk: package 'os' is not trusted"),
        ([*TRAIN, "trust=null"], "trust=null: must be a list"),
        (["data=prepared", "data.folder=x"], "x is already prepared"),
        ([*TRAIN, "output=a.en"], "output=a.en: already exists"),
        ([*TRAIN, "output=a.en/mine"], "a.en/mine: cannot write: Not a directory"),
    ],
)
def test_bad_input_gives_one_error_line_and_leaves_no_files(arguments: list[str], message: str, files: Path) -> None:
    before = sorted(files.rglob("*"))
    with pytest.raises(UserError) as caught:
        prepare([*([] if "output=mine" in arguments else ["output=mine"]), *arguments])
    assert message in str(caught.value).splitlines()[0]
    assert sorted(files.rglob("*")) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", '{"lowercase": 1}', '{"lowercase": true, "tokenizer": []}'])
def test_damaged_settings_are_reported(files: Path, text: str) -> None:
    prepare([*TRAIN, *VALID, "output=made"])
    (files / "made" / "settings.json").write_text(text)
    with pytest.raises(UserError, match=r"data\.folder=made: its settings\.json is damaged; prepare the text again"):
        open_prepared(Path("made"))
