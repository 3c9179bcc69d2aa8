"""nmt-prepare: writes what nmt-train reads, counts every pair, and leaves no files when it fails."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from nmt.commands.prepare import prepare
from nmt.errors import UserError
from nmt.system import progress
from nmt.text import prepare as prepare_module
from nmt.text import shards
from nmt.text import survey as survey_module
from nmt.text.prepare import open_prepared
from nmt.text.tokenizer import Tokenizer

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


def own_checksum(settings: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(settings, sort_keys=True).encode())


def test_output_can_be_opened_and_every_pair_is_counted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare([*TRAIN, *VALID, "data.train.src=a.en.gz", "data.max_length=40"])
    out, error = capsys.readouterr()
    assert error == ""
    lines = out.splitlines()
    assert lines[0].startswith("train: 3 of 5 pairs kept: ")
    assert set(lines[1:3]) == {"train: 1 dropped: empty source", "train: 1 dropped: longer than 40 pieces"}
    assert lines[3].startswith("valid: 2 of 2 pairs kept: ")  # only training pairs are dropped
    assert (
        lines[4:]
        == [
            "valid: 1 of 2 sources also in train, 1 with the same target",  # the other one is blank
            *lines[5:7],
            "vocabulary: 290 pieces, shared by both sides",
            "train with: nmt-train data=prepared data.folder=mine",
        ]
    )
    assert lines[5].startswith("train source: ▁ t h e ▁d") and lines[6].startswith("train target: ▁")
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
        (["output=mine", "tokenizer=[]"], "tokenizer: missing"),
        ([*TRAIN, "tokenizer.vocab_size=0"], "tokenizer.vocab_size=0: must be at least 5 (conf/tokenizer/bpe.yaml)"),
        (
            [*TRAIN, "tokenizer.target_model=b.de"],
            "tokenizer.target_model=b.de: a joint vocabulary reads tokenizer.source_model only",
        ),
        ([*TRAIN, "data.test.links=b.de"], "data.test.src=null: must be given"),
        ([*TRAIN, "data.max_ratio=few"], "data.max_ratio=few: must be a number (conf/data/text.yaml)"),
        ([*TRAIN, "data.max_lenght=3"], "did you mean data.max_length"),
        ([*TRAIN, "data.max_length=1"], "0 of 5 pairs kept"),
        ([*TRAIN, "data=txt"], "data=txt: no such choice; did you mean text?"),
        ([*TRAIN, "data._target_=os.walk"], "data._target_=os.walk: package 'os' is not trusted"),
        ([*TRAIN, "trust=null"], "trust=null: must be a list"),
        (["data=prepared", "data.folder=x"], "data=prepared: data.folder=x is already prepared; set data=text"),
        (["data=prepared"], "data=prepared: reads text that is already prepared; set data=text"),
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


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", "null", "{}", "[" * 100_000, '{"format": 2}', '{"lowercase": true, "tokenizer": {}}']
)
def test_damaged_settings_are_reported(files: Path, text: str) -> None:
    prepare([*TRAIN, *VALID, "output=made"])
    (files / "made" / "settings.json").write_text(text)
    with pytest.raises(UserError, match=r"made.*settings\.json.*; prepare the text again with nmt-prepare$"):
        open_prepared(Path("made"))


@pytest.mark.parametrize(
    "change",
    [
        {"lowercase": 1},
        {"lowercase": None},
        {"tokenizer": []},
        {"tokenizer": {}},
        {"tokenizer": {"kind": "words"}},
        {"tokenizer": {"vocab_size": "2000"}},
        {"tokenizer": {"vocab_size": True}},
        {"tokenizer": {"source_model": "${oc.env:HOME}"}},
        {"tokenizer": {"more": 1}},
        {"checksums": None},
        {"checksums": ["source.model"]},
    ],
    ids=str,
)
def test_settings_of_another_kind_are_rejected_even_with_a_right_checksum(files: Path, change: dict[str, Any]) -> None:
    prepare([*TRAIN, *VALID, "output=made"])
    file = Path("made/settings.json")
    settings = json.loads(file.read_text())
    for name, value in change.items():
        settings[name] = {**settings[name], **value} if isinstance(value, dict) and value else value
    del settings["checksum"]
    file.write_text(json.dumps({**settings, "checksum": own_checksum(settings)}))
    with pytest.raises(UserError, match=r"data\.folder=made: its settings\.json is damaged; prepare the text again"):
        open_prepared(Path("made"))


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "no valid format version; prepare the text again with nmt-prepare"),  # before checksums were recorded
        (1, "format 1, but this version reads format 2; prepare the text again with nmt-prepare"),
        (3, "format 3, but this version reads format 2; update the toolkit"),
    ],
)
def test_prepared_text_of_another_format_is_rejected(files: Path, version: int | None, message: str) -> None:
    prepare([*TRAIN, *VALID, "output=made"])
    settings = json.loads(Path("made/settings.json").read_text())
    Path("made/settings.json").write_text(json.dumps({**settings, "format": version}))
    with pytest.raises(UserError) as caught:
        open_prepared(Path("made"))
    assert str(caught.value) == f"made/settings.json: {message}"


def test_a_missing_or_unrecorded_part_is_reported(files: Path) -> None:
    prepare([*TRAIN, "output=made"])
    shutil.copy("made/train.arrow", "made/valid.arrow")
    with pytest.raises(UserError, match=r"data\.folder=made: has no valid\.arrow; prepare the text again and add"):
        open_prepared(Path("made"), needed=("train", "valid"))
    Path("made/train.arrow").unlink()
    with pytest.raises(UserError, match=r"made/train\.arrow: cannot be read as a corpus \(No such file"):
        open_prepared(Path("made"))


def test_ctrl_c_leaves_no_files_and_says_how_to_go_on(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare_module, "write_settings", interrupt)
    before = sorted(files.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        prepare([*TRAIN, *VALID])
    assert capsys.readouterr().err == "stopped; mine was not written; run the same command again\n"
    assert sorted(files.rglob("*")) == before


SHARDED = [*TRAIN, "shard_pairs=2"]


def test_folder_of_someone_else_is_kept(files: Path) -> None:
    chapter = Path("mine.partial/thesis/chapter.txt")
    chapter.parent.mkdir(parents=True)
    chapter.write_text("important")
    with pytest.raises(UserError, match="^mine.partial: holds thesis, which this command has not written; rename it"):
        prepare(SHARDED)
    assert chapter.read_text() == "important"
    shutil.rmtree("mine.partial")
    prepare(SHARDED)
    assert len(open_prepared(Path("mine")).corpora["train"]) == 3


def test_text_that_changes_between_its_readings_is_noticed(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = survey_module.survey

    def survey(pairs: Any) -> Any:
        surveyed = original(pairs)
        for name in ("a.en", "a.de"):
            Path(name).write_text("".join(Path(name).read_text().splitlines(keepends=True)[:3]))
        return surveyed

    monkeypatch.setattr(survey_module, "survey", survey)
    with pytest.raises(UserError, match="^data.train: the text changed while it was read; run the command again"):
        prepare(SHARDED)
    assert not Path("mine").exists()


def test_too_many_shards_are_refused_before_any_work(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MAX_SHARDS", 2)
    with pytest.raises(UserError, match="^shard_pairs=2: gives 3 shards; set shard_pairs=3 or more$"):
        prepare(SHARDED)
    assert not Path("mine.partial").exists()
    prepare([*TRAIN, "shard_pairs=3"])  # as the message advises
    assert len(list(Path("mine").glob("train-*.arrow"))) == 2


def test_changed_text_is_noticed_if_the_sample_does_not_hold_it(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a part that needs no shards is read twice too."""
    monkeypatch.setattr(survey_module, "SAMPLE_PAIRS", 4)
    original = survey_module.survey

    def survey(pairs: Any) -> Any:
        surveyed = original(pairs)
        Path("a.en").write_text(Path("a.en").read_text().replace("red", "blue"))
        return surveyed

    monkeypatch.setattr(survey_module, "survey", survey)
    with pytest.raises(UserError, match="^data.train: the text changed while it was read; run the command again"):
        prepare(TRAIN)
    assert not Path("mine").exists()


ENGLISH = ["two small dogs run through the deep white snow", "an old woman reads a long letter at the window"]
GERMAN = ["Zwei kleine Hunde laufen durch den tiefen weißen Schnee", "Eine alte Frau liest am Fenster einen Brief"]
RUSSIAN = ["Две маленькие собаки бегут по глубокому снегу", "Старая женщина читает у окна длинное письмо"]
OWN = ["tokenizer.joint=false", "tokenizer.source_model=en.model", "tokenizer.target_model=de.model"]


@pytest.fixture
def own_models(files: Path) -> None:
    for name, lines in {"en": ENGLISH, "de": GERMAN, "ru": RUSSIAN}.items():
        Path(f"{name}.txt").write_text("".join(f"{line}\n" for line in lines * 15), encoding="utf-8")
        Path(f"{name}.model").write_bytes(Tokenizer.train(lines, vocab_size=325).to_bytes())


def reading_warnings(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    prepare([*TRAIN, *OWN, *arguments])
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]


@pytest.mark.usefixtures("own_models")
def test_exchanged_models_and_text_in_another_script_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = ["data.train.src=en.txt", "data.train.tgt=de.txt"]
    assert reading_warnings(capsys, *text) == []
    exchanged = ["data.train.src=de.txt", "data.train.tgt=en.txt", "output=b"]
    first, *_ = reading_warnings(capsys, *exchanged)
    assert first == (
        "warning: the tokenizers seem exchanged: exchange tokenizer.source_model and tokenizer.target_model"
    )
    [line] = reading_warnings(capsys, "data.train.src=ru.txt", "data.train.tgt=de.txt", "output=c")
    assert line.startswith("warning: train source: ") and "as in 'Две' (Cyrillic)" in line
    assert line.endswith("; choose another tokenizer.source_model, or remove it to train one on this text")
    valid = ["data.valid.src=en.txt", "data.valid.tgt=ru.txt", "output=d", "tokenizer.target_model=null"]
    [line] = reading_warnings(capsys, *text, *valid)
    assert line.startswith("warning: valid target: ") and "give valid text in the same language" in line
    stored = open_prepared(Path("c")).accounts["train"]
    assert stored.source.unknown_share > 0.8 and stored.target.unknown == 0
    with pytest.raises(UserError, match="the tokenizer cannot read the source, such as 'Две'"):
        reading_warnings(capsys, "data.train.src=ru.txt", "data.train.tgt=de.txt", "output=e", "data.max_length=9")


def test_a_sentence_of_each_side_is_printed_in_pieces(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.en").write_text("".join(f"{line}\n" for line in ["wide \x1b[31m text " + "dog " * 200, *SOURCE[1:]]))
    prepare([*TRAIN, "data.max_length=null"])
    [source, target] = [line for line in capsys.readouterr().out.splitlines() if "▁" in line]
    assert source.startswith("train source: ▁ w") and source.endswith(" …") and len(source) < 110
    assert target.startswith("train target: ▁ D") and not target.endswith("…") and "\x1b" not in source


@pytest.mark.usefixtures("files")
def test_long_work_is_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("FIRST_S", "EVERY_S", "ITEMS"):
        monkeypatch.setattr(progress, name, 1 if name == "ITEMS" else 0.0)
    monkeypatch.setattr(prepare_module, "MANY_PAIRS", 5)
    prepare(TRAIN)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("reading the training text: 1 pair in 0 s")
    assert "tokenizer: learning pieces from 5 pairs …" in lines
    assert re.fullmatch(r"encoding the training text: 4 pairs in .*, 80%, about .* left", lines[-1])
