"""The report of a finished run, also where the tokenizer counts words differently or sentences are long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import BAHDANAU, random_trained, tiny_config
from tokenizer_kinds import train_sentencepiece

from nmt.data.pair import Pair
from nmt.inference.scores import EvaluationSettings
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.corpus import Corpus, write_corpus
from nmt.text.tokenizer import Tokenizer
from nmt.training.report import test_report as report_of_test_set


def normalising_tokenizer() -> Tokenizer:
    """Return a tokenizer that normalises: a zero-width space becomes a space, a control character is removed."""
    lines = ["a dog sees a cat", "ein Hund sieht eine Katze"] * 9
    return train_sentencepiece(lines, model_type="unigram", vocab_size=40)


def report_on(
    pairs: list[Pair],
    tokenizer: Tokenizer,
    folder: Path,
    attention: dict[str, object] = BAHDANAU,
    *,
    lowercase: bool = False,
) -> dict[str, Any]:
    """Write the report of an untrained model on ``pairs`` into ``folder``, and return its numbers."""
    write_corpus(folder / "test.arrow", pairs, tokenizer, tokenizer)
    translator = Translator(random_trained(tiny_config(attention), tokenizer, longest_source=20, seed=1))
    translator.lowercase = lowercase
    search = SearchOptions(beam_size=1, max_length=4)
    return report_of_test_set(translator, Corpus.open(folder / "test.arrow"), folder, search, EvaluationSettings())


def test_alignment_page_counts_the_words_of_the_text_and_not_of_its_normal_form(tmp_path: Path) -> None:
    tokenizer = normalising_tokenizer()
    pairs = [Pair("a\u200bdog sees", "ein\u200bHund sieht"), Pair("a \x01 cat", "eine \u200e Katze")]
    assert [set(tokenizer.words(pair.target)) for pair in pairs] == [{0, 1}, {0, 2}]
    report_on(pairs, tokenizer, tmp_path)
    page = (tmp_path / "alignments.html").read_text("utf-8")
    assert page.count("<section") == 2 and page.count("<td") == 2 * 2 + 3 * 3


LONG = [  # in pieces and words; in words that the tokenizer removes; on the source side only
    Pair("a cat " * 60, "eine Katze " * 60),
    Pair("a" + " \x01" * 100, "eine"),
    Pair("a cat " * 60, "eine Katze"),
]


@pytest.mark.filterwarnings("ignore:source text. a line has 300 tokens")
def test_long_sentences_are_aligned_but_not_drawn(tmp_path: Path) -> None:
    report_on([LONG[0], Pair("a dog", "ein Hund"), *LONG[1:]], normalising_tokenizer(), tmp_path)
    page = (tmp_path / "alignments.html").read_text("utf-8")
    assert page.count("<section") == 1 and page.count("<td") == 2 * 2
    assert [file.name for file in (tmp_path / "heatmaps").iterdir()] == ["test-2.png"]
    lines = (tmp_path / "test.references.links.txt").read_text().splitlines()
    assert [len(line.split()) for line in lines] == [120, 2, 1, 2]


@pytest.mark.filterwarnings("ignore:source text. a line has 300 tokens")
def test_nothing_is_drawn_if_every_sentence_is_too_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_on(LONG, normalising_tokenizer(), tmp_path)
    messages = capsys.readouterr().err.splitlines()
    removed = "warning: test.source.txt:2: the tokenizer removes the word '\\x01'"
    assert [message for message in messages if message.startswith(removed)]
    assert messages[-1] == "every test sentence is longer than 100 words or pieces: no alignments are drawn"
    assert {file.name for file in tmp_path.iterdir()} == {
        "test.arrow",
        "test.source.txt",
        "test.references.txt",
        "test.translations.txt",
        "test.translations.links.txt",
        "test.references.links.txt",
    }


def test_sentences_too_long_for_the_attention_are_reported_and_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low_rank: dict[str, object] = {"_target_": "nmt.attention.LowRankAttention", "slots": 3}  # for up to 20 pieces
    pairs = [LONG[0], Pair("a dog", "ein Hund"), Pair("a cat " * 12, "eine Katze")]
    report_on(pairs, normalising_tokenizer(), tmp_path, low_rank)
    messages = capsys.readouterr().err.splitlines()
    assert "warning: 2 of 3 translations are blank; check the file or the model" in messages
    warnings = [message for message in messages if message.startswith("warning: test sentence ")]
    expected = [(row, missing) for missing in ("translation", "alignment") for row in (1, 3)]
    for warning, (row, missing) in zip(warnings, expected, strict=True):
        assert warning.startswith(f"warning: test sentence {row}: source of ")
        assert warning.endswith(f"; it has no {missing}")
    translations = (tmp_path / "test.translations.txt").read_text().split("\n")
    assert (translations[0], translations[2], len(translations)) == ("", "", 4)
    assert [file.name for file in (tmp_path / "heatmaps").iterdir()] == ["test-2.png"]


def test_texts_with_line_breaks_have_one_line_each(tmp_path: Path) -> None:
    pairs = [Pair("a\ndog", "ein\r\nHund"), Pair("a\u2028dog", "ein\rHund")]
    report_on(pairs, normalising_tokenizer(), tmp_path)
    texts = [(tmp_path / f"test.{name}.txt").read_bytes().decode() for name in ("source", "references")]
    assert texts == ["a dog\na\u2028dog\n", "ein Hund\nein Hund\n"]
    assert (tmp_path / "test.translations.txt").read_bytes().count(b"\n") == 2


def test_line_breaks_in_a_test_text_do_not_change_word_numbers(tmp_path: Path) -> None:
    report_on([Pair("a\n\ndog sees", "ein\rHund sieht", ((0, 0), (1, 1)))], normalising_tokenizer(), tmp_path)
    texts = [(tmp_path / f"test.{name}.txt").read_text("utf-8") for name in ("source", "references")]
    assert texts == ["a\u00a0dog sees\n", "ein\u00a0Hund sieht\n"]
    links = (tmp_path / "test.references.links.txt").read_text().split()
    assert {link.partition("-")[2] for link in links} == {"0", "1"}


@pytest.mark.parametrize(("lowercase", "case"), [(True, "lc"), (False, "mixed")])
def test_signatures_say_whether_case_counts(lowercase: bool, case: str, tmp_path: Path) -> None:
    pairs = [Pair("a cat", "eine Katze")]
    signatures = report_on(pairs, normalising_tokenizer(), tmp_path, lowercase=lowercase)["signatures"]
    assert all(f"case:{case}|" in signatures[metric] for metric in ("bleu", "chrf"))


def test_test_set_without_a_gold_link_has_no_error_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_on([Pair("a dog", "ein Hund", ()), Pair("a cat", "eine Katze", ())], normalising_tokenizer(), tmp_path)
    assert not (tmp_path / "test.gold.links.txt").exists()
    assert "warning: data.test: no gold links in 2 pairs, so there is no AER; give links" in capsys.readouterr().err
