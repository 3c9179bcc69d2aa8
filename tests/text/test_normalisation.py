"""Unicode normalisation belongs to the tokenizer, so that training text and text to translate are treated equally."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

from sharded import SETTINGS

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
        counts.append(prepared.pair_counts["train"].normalised)
    assert counts == [0, len(FORMS) + 1]
