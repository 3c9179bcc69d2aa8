"""Unicode normalisation belongs to the tokenizer, so that training text and text to translate are treated equally."""

from __future__ import annotations

import shutil
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from sharded import SETTINGS

from nmt.commands.prepare import prepare as prepare_command
from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.text.prepare import open_prepared, prepare
from nmt.text.tokenizer import Tokenizer

TEXT = ["a man in a blue shirt", "zwei Hunde laufen durch tiefen Schnee", "fine 123"]
FORMS = ["ﬁne １２３", "Ｚwei Hunde", "e\u0301te\u0301", "①", "ｶﾞ", "x²"]


def test_normalised_text_has_the_pieces_of_its_normal_form() -> None:
    tokenizer = Tokenizer.train(TEXT * 5, vocab_size=300, normalisation="nfkc")
    plain = Tokenizer.train(TEXT * 5, vocab_size=300)
    assert tokenizer.normalises and not plain.normalises
    for text in [*FORMS, *TEXT]:
        normal = unicodedata.normalize("NFKC", text)
        assert tokenizer.encode(text) == tokenizer.encode(normal)
        assert tokenizer.decode(tokenizer.encode(text)) == normal
        assert plain.decode(plain.encode(text)) == text


def test_changed_pairs_are_counted_and_stored_as_given(tmp_path: Path) -> None:
    pairs = [*[Pair(text, "Mann") for text in FORMS], *[Pair(text, "ﬁx") for text in TEXT[:1]], Pair("man", "Mann")]
    counts = []
    for normalisation in (None, "nfkc"):
        folder = tmp_path / str(normalisation)
        prepare({"train": pairs}, Filters(), replace(SETTINGS, normalisation=normalisation), folder)
        prepared = open_prepared(folder)
        assert prepared.corpora["train"].sources() == [pair.source for pair in pairs]
        counts.append(prepared.accounts["train"].normalised)
    assert counts == [0, len(FORMS) + 1]


def test_the_setting_reaches_the_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.en").write_text("".join(f"{line}\n" for line in [*TEXT, *FORMS]), encoding="utf-8")
    shutil.copy("a.en", "a.de")
    files = ["data.train.src=a.en", "data.train.tgt=a.de"]
    prepare_command([*files, "tokenizer.normalisation=nfkc", "tokenizer.vocab_size=300", "output=out"])
    assert f"train: {len(FORMS)} normalised" in capsys.readouterr().out.splitlines()
    assert open_prepared(Path("out")).source.normalises
