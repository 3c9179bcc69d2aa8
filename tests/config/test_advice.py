"""Tested settings for little text of one's own, and the line that advises them."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from builders import call_before, write_parts

from nmt.commands.train import train
from nmt.config.advice import EXPERIMENTS, advice
from nmt.config.compose import train_config
from nmt.data.sources import PreparedData
from nmt.model.build import build_model
from nmt.settings.build import plain
from nmt.training.task import TranslationTask

SENTENCES = [(f"a {n}", f"b {n}") for n in range(9)]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments that name text of one's own, in a new working directory."""
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_text("a\tb\n")
    return ["data=text", *write_parts(Path(), dict.fromkeys(("train", "valid"), SENTENCES))]


TABLE = ["data=table", "data.train=a.tsv", "data.valid=a.tsv"]
PREPARED = ["data=prepared", "data.folder=mine"]


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("text", [[], TABLE, PREPARED], ids=["text", "table", "prepared"])
def test_experiments_leave_text_and_name_to_the_user(name: str, text: list[str], files: list[str]) -> None:
    text = text or files
    config = train_config([f"+experiment={name}", *text, "name=mine"])
    assert config == train_config(["name=mine", *text, f"experiment={name}"])
    assert (plain(config.data), config.name) == (plain(train_config(text).data), "mine")
    build_model(config, source_vocabulary=20, target_vocabulary=20, longest_source=9)


@pytest.mark.parametrize(
    ("pairs", "words", "expected"),
    [
        *((pairs, [], name) for pairs, name in ((9, "little"), (2_999, "little"), (3_000, "medium"))),
        *((pairs, [], name) for pairs, name in ((19_999, "medium"), (20_000, None))),
        *(
            (9, [word], "little")
            for word in ("attention=luong", "tokenizer.vocab_size=400", "name=x", "training.patience=null")
        ),
        *((9, [word], None) for word in ("+experiment=little", "experiment=mine", "--config-dir=.", "init_from=x")),
        *((9, [word], None) for word in ("encoder.hidden_size=64", "decoder=gru", "embeddings.size=32")),
        *((9, [word], None) for word in ("training.max_epochs=40", "batches.max_tokens=400", "schedule=linear")),
    ],
)
def test_few_pairs_are_advised_unless_settings_are_given(pairs: int, words: list[str], expected: str | None) -> None:
    assert advised(advice(PreparedData("", "mine"), words, pairs)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, "little") for text in ([], TABLE, ["data=python"])),
        *(([f"data={generated}"], None) for generated in ("generated", "copy")),
    ],
)
def test_generated_text_is_not_advised(text: list[str], expected: str | None, files: list[str]) -> None:
    assert advised(advice(train_config(text or files).data, text, 9)) == expected


def advised(printed: str | None) -> str | None:
    """Return the experiment that a warning about the text names."""
    found = re.search(r"\bdata: .*; add \+experiment=(\w+)$", printed or "", re.MULTILINE)
    return found and found[1]


TINY = ["attention=none", "tokenizer.vocab_size=276", "threads=1", "device=cpu", "export=false"]


@pytest.mark.thorough
def test_resumed_run_is_not_advised(
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call_before(monkeypatch, TranslationTask, "training_step", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    for words, expected in ([], "little"), (["resume=true"], None):
        with pytest.raises(KeyboardInterrupt):
            train([*files, *TINY, *words])
        assert advised(capsys.readouterr().err) == expected
