"""Sentences of a line are translated one by one: nothing of the text is lost, and the line is what they make."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from inference.random_translators import random_translator, searches

from nmt.data.words import count_words
from nmt.errors import UserError
from nmt.inference import sentences
from nmt.inference.memories import encode_line, translate_encoded
from nmt.inference.sentences import SplitText
from nmt.inference.translation import Translation, alignment_lines
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.sentences import splitter

PARTS = ["two dogs.", "Dr. Smith went to New York!", "ein Garten x?", "x y", "a b c d.", "東京 x。", "(g) runs."]
GAPS = [" ", "  ", "\t", " \u3000", "\n\n", "\u00a0"]
LINES = [
    " ".join(PARTS[:2]),
    PARTS[0],
    "",
    " ",
    "two dogs.  Dr. Smith runs.\tx y. ",
    "東京 x。x y。",
    "a b.\n\n x y.\n",
]
BEAM = SearchOptions(beam_size=4, n_best=4, max_length=7, sentences="en")
KINDS = ["spm-default", "bpe-nmt_nfkc", "characters", "words"]
SEARCHES = {
    **searches(BEAM),
    "mbr": replace(BEAM, mbr=4, n_best=3),
}


@pytest.mark.parametrize(
    ("gap", "first", "second", "expected"),
    [
        (" ", "你好。", "很好。", "你好。很好。"),
        (" ", "สวัสดี", "สบายดี", "สวัสดี สบายดี"),
        ("", "Yes.", "No.", "Yes. No."),
        ("\u3000", "Yes!", "No.", "Yes! No."),
        ("\n", "你好。", "很好。", "你好。\n很好。"),
        (" ", "네.", "아니요.", "네. 아니요."),
    ],
)
def test_blanks_are_those_of_the_target_language(gap: str, first: str, second: str, expected: str) -> None:
    split = SplitText(f"x.{gap}y.", [(0, 2), (2 + len(gap), 4 + len(gap))])
    joined = split.join([Translation(first), Translation(second)])
    assert isinstance(joined, Translation) and joined.text == expected


@pytest.mark.parametrize(
    ("search", "kind"),
    [
        *((search, "ours") for search in [*SEARCHES, "terms"]),
        *(pytest.param("beam", kind, marks=pytest.mark.thorough) for kind in KINDS),
    ],
)
def test_line_is_made_of_its_sentences(search: str, kind: str) -> None:
    """Compare with the sentences, each translated alone as a line, and joined by hand."""
    translator = random_translator(kind=kind)
    options = SEARCHES.get(search, replace(BEAM, terms={"two": "zwei", "x": "abc", "runs": "läuft"}))
    lines = [*LINES, *(f"{first}{gap}{second}" for (first, second), gap in zip(pairwise(PARTS), GAPS, strict=True))]
    for line, joined in zip(lines, translator.translate(lines, options), strict=True):
        split = SplitText(line, splitter("en")(line, ()))
        parts = translator.translate(split.parts, replace(options, sentences=None))
        if len(parts) == 1:
            assert repr(joined) == repr(parts[0]) and joined.tokens == parts[0].tokens
            continue
        gaps = [line[stop:start] or " " for (_, stop), (start, _) in pairwise(split.spans)]
        texts = []
        for rank, best in enumerate(joined.n_best):
            chosen = [part.n_best[min(rank, len(part.n_best) - 1)] for part in parts]
            texts.append("".join(map("".join, zip(["", *gaps], (part.text for part in chosen), strict=True))))
            assert best.score == pytest.approx(sum(part.score for part in chosen))
            assert best.log_prob == pytest.approx(sum(part.log_prob for part in chosen))
            probabilities = [math.exp(value) for part in chosen for value in part.token_log_probs]
            assert best.confidence == pytest.approx(np.exp(np.nanmean(np.log(probabilities))), rel=1e-4)
            check_links(line, split, gaps, best, chosen)
        assert [best.text for best in joined.n_best] == texts and joined.text == texts[0]


def check_links(line: str, split: SplitText, gaps: list[str], best: Translation, parts: list[Translation]) -> None:
    """Check that the links of a line are those of its sentences, shifted by the words before them."""
    assert best.alignment is not None and best.alignment.shape == (len(best.tokens), len(best.source_tokens))
    expected = set()
    before = ""
    for (start, _), gap, part in zip(split.spans, ["", *gaps], parts, strict=True):
        before += gap
        shifts = [count_words(f"{text}|") - 1 for text in (line[:start], before)]
        for link in alignment_lines([replace(part, n_best=[])])[0].split():
            i, j = map(int, link.split("-"))
            expected.add(f"{i + shifts[0]}-{j + shifts[1]}")
        before += part.text
    links = alignment_lines([replace(best, n_best=[])])[0].split()
    if not re.search(r"[^\S \t]", line):  # another blank joins two words, whose links are then merged
        assert {*links} == expected
    assert len(best.word_confidences) == count_words(best.text)


def test_long_sentence_fails_its_line_alone() -> None:
    failures: list[tuple[int, str]] = []
    translator = random_translator("low_rank")
    lines = ["two dogs. x y.", f"two dogs. {'x ' * 100}. x y."]
    texts = translator.texts(lines, BEAM, on_failure=lambda *failure: failures.append(failure))
    assert texts[0] and not texts[1]
    [(row, reason)] = failures
    assert row == 1 and reason.startswith("sentence 2 of 2: ")
    with pytest.raises(UserError, match=r"^lines\[1\]: sentence 2 of 2: "):
        translator.texts(lines, BEAM)


def test_terms_placeholders_and_tags_are_kept_across_sentences() -> None:
    options = replace(BEAM, terms={"dogs": "Hunde"}, keep_placeholders=True)
    translator = random_translator()
    line = "two dogs see {name}. <b>The dogs run. They <i>see</i> %s.</b> x <code>a. B</code> y."
    for best in translator.translate([line], options, markup=True)[0].n_best:
        for text in ("{name}", "%s", "<b>", "<i>", "</i>", "</b>", "<code>a. B</code>"):
            assert best.text.count(text) == 1
        assert best.text.count("Hunde") >= 2
        places = [best.text.index(tag) for tag in ("<b>", "<i>", "</i>", "</b>")]
        assert places == sorted(places)


@pytest.mark.parametrize("single", [True, False])
def test_training_text_decides(single: bool) -> None:
    """``auto`` is the explicit choice. It does not apply where whole lines are needed: prefixes, memories, pictures."""
    trained = random_translator().trained
    translator = Translator(replace(trained, single_sentences=single), check_text=False)
    line, one = "Two dogs. Dr. Smith runs! Ein Garten x?", "two dogs."
    auto = replace(BEAM, sentences="auto")
    explicit, whole = (translator.texts([line], replace(BEAM, sentences=code))[0] for code in ("en", None))
    assert explicit != whole and translator.split_lines == 0
    for markup in (False, True):
        assert translator.texts([line, one, line], auto, markup=markup)[::2] == [[whole, explicit][single]] * 2
    assert translator.split_lines == 4 * single
    assert translator.translate([line], auto, prefixes=[""])[0].text == whole
    assert translate_encoded(translator, [encode_line(translator, line)], auto)[0].text == whole
    assert translator.heatmap(line).target == translator.texts([line], SearchOptions(sentences=None))[0].split()


def test_large_alignment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "MAX_WEIGHTS", 20)
    with pytest.raises(UserError, match=r"^lines\[0\]: "):
        random_translator().translate(["two dogs. x y."], BEAM)
    assert random_translator().texts(["two dogs. x y."], BEAM)[0]


def test_what_cannot_be_done_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = random_translator()
    with pytest.raises(UserError, match="^search.sentences=en: "):
        translator.translate(["x"], BEAM, prefixes=["x"])
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(UserError, match="^search.sentences=en: "):
        translator.translate_groups([["x"]], BEAM)
