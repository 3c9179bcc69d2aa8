"""Unknown words: replaced by the source words that a naive loop finds, whatever the search; all else stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pytest
from builders import part_spans
from inference.random_translators import random_translator, searches

from nmt.data.words import count_words, words_of
from nmt.inference.terms import replace_unknown
from nmt.inference.translation import Translation, alignment_lines
from nmt.search.options import SearchOptions

LINES = ["two ☃ dogs", "in New York , ☃☃ x", "ein Garten", "a b c d e f g"]
BEAM = SearchOptions(replace_unknown=True, keep_placeholders=False, beam_size=4, n_best=4, max_length=7)
SEARCHES = searches(BEAM)
make_translator = partial(random_translator, kind="spm-default", unknown_bias=4)


def naive_words(best: Translation, line: str, kind: str) -> Iterator[str]:
    """Yield the words of a translation: pieces are joined from ▁ to ▁, and a word with ``<unk>`` is replaced."""
    source = [word for word in line.split(" ") if word]
    words: list[list[int]] = []
    for t, piece in enumerate(best.tokens):
        starts = piece.startswith("▁") or (kind == "words" and piece == "<unk>") or not words
        if piece != "</s>":
            words[len(words) - (not starts) :] = [[*([] if starts else words[-1]), t]]
    words = [word for word in words if any(best.tokens[t].strip("▁") for t in word)]
    weights = np.zeros((len(words), len(source)))
    for j, word in enumerate(words):
        for t in word:
            row = np.abs(best.alignment[t, : len(best.source_words)])
            for share, numbers in zip(row / row.sum(), words_of(line, best.source_spans), strict=True):
                weights[j, [*numbers]] += share / len(word) / max(1, len(numbers))
    for j, word in enumerate(words):
        text = "".join(best.tokens[t] for t in word).replace("▁", "")
        yield (
            source[(weights[j] / (weights.sum(axis=0) + weights.sum() / len(source) / 10)).argmax()]
            if "<unk>" in text
            else text
        )


@pytest.mark.parametrize(
    ("search", "kind"),
    [*((search, "spm-default") for search in SEARCHES), *(("beam", kind) for kind in ("characters", "words"))],
)
def test_text_equals_a_naive_loop(search: str, kind: str) -> None:
    replaced = 0
    for line, translation in zip(LINES, make_translator(kind=kind).translate(LINES, SEARCHES[search]), strict=True):
        for best in translation.n_best:
            replaced += "<unk>" in best.tokens
            assert best.text == " ".join(naive_words(best, line, kind))
            pieces = [word for word in best.target_words if word >= 0]
            assert pieces == sorted(pieces)
            assert max(chain(*words_of(best.text, best.spans)), default=-1) == count_words(best.text) - 1
        texts = [best.text for best in translation.n_best]
        assert search == "sample" or len({*texts}) == len(texts)
    assert replaced


def test_a_tokenizer_that_spells_bytes_has_no_unknown_words() -> None:
    translator = make_translator(kind="ours")
    plain = translator.texts(LINES, replace(BEAM, replace_unknown=False))
    with pytest.warns(UserWarning, match=r"^search\.replace_unknown=true: the target tokenizer spells unknown"):
        assert translator.texts(LINES, BEAM) == plain


@pytest.mark.parametrize(
    ("source", "pieces", "text", "tokens", "rows", "expected"),
    [
        ("我爱囧京", "我|爱|囧|京", "私は\ufffdが好き", "私|は|\ufffd|が|好き", [0, 0, 2, 1, 1], "私は囧が好き"),
        ("我爱囧京", "我|爱|囧|京", "I love \ufffd.", "I| love| |\ufffd|.", [0, 1, 2, 2, 3], "I love 囧"),
        ("I love ☃ .", "I| love| |☃| .", "我爱\ufffd\ufffd。", "我|爱|\ufffd|\ufffd|。", [0, 1, 3, 0, 4], "我爱☃I。"),
        ("我爱", "我|爱", "私は\ufffd", "私|は|\ufffd", [0, 0, 1], "私は爱"),
    ],
)
def test_text_without_spaces_loses_its_unknown_pieces_only(
    source: str, pieces: str, text: str, tokens: str, rows: list[int], expected: str
) -> None:
    """A sentence is one word there, which must not be replaced as a whole."""
    columns, spans = map(part_spans, (pieces, tokens))
    translation = Translation(
        text,
        source=source,
        tokens=[*tokens.replace("\ufffd", "<unk>").split("|"), "</s>"],
        source_spans=columns,
        spans=spans,
        alignment=np.eye(len(columns) + 1)[[*rows, len(columns)]],
        token_log_probs=[0.0] * (len(rows) + 1),
    )
    replaced = replace_unknown(translation, str)
    assert replaced.text == expected
    assert alignment_lines([replaced])
