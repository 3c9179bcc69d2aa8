"""All commands count the words of a line alike, with any whitespace, normalisation and SentencePiece model."""

from __future__ import annotations

import json
import random
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders import BAHDANAU, save_random, tiny_config, write_lines
from commands.texts import Call
from tokenizer_kinds import tokenizer_of

from nmt.commands.align import align
from nmt.commands.evaluate import evaluate
from nmt.commands.heatmap import heatmap
from nmt.data.links import Pair
from nmt.data.words import words_of
from nmt.text.batches import collate
from nmt.text.corpus import Corpus, write_corpus
from nmt.training.guide import GoldLinks

# The tokenizers of the tests know few characters.
pytestmark = pytest.mark.filterwarnings("ignore:(source|target) text")

KINDS = ["ours", "over-spaces", "suffix-bytes", "symbols"]
WORDS = ["a", "man", "Hund", "½", "¼", "…", "ﬁne", "New York", "\u00a0", "a\u00a0b", "\u3000x", "y\u2028", "\x0b"]
WORDS += ["\u200b", "soft\u00adhyphen"]
WORDS += ["\x01", "ﷺ", "日本", "▁", "e\u0301", "´", "b\ufeff", "\x85", "İ", "😀", "\x1f.", "\ud7ff"]


def random_lines(seed: int, count: int) -> list[str]:
    """Return lines of awkward words between random spaces and tabs. The first is plain, and one is blank."""
    draw = random.Random(seed)
    lines = ["a man"]
    for _ in range(count - 2):
        words = draw.choices(WORDS, k=draw.randint(1, 6))
        lines.append("".join(draw.choice(["", " ", "  ", "\t"]) + word + draw.choice([" ", " \t"]) for word in words))
    return [*lines, " "]


def count(line: str) -> int:
    return len([word for word in re.split("[ \t]", line) if word])


def random_links(source: str, target: str) -> set[tuple[int, int]]:
    draw, sizes = random.Random(source + target), (count(source), count(target))
    return {(draw.randrange(sizes[0]), draw.randrange(sizes[1])) for _ in range(3)} if all(sizes) else set()


@pytest.mark.parametrize("kind", KINDS)
def test_all_commands_count_the_same_words(kind: str, files: Path, call: Call) -> None:
    def aer(*words: str) -> Any:
        return json.loads("\n".join(call(evaluate, "src=src", "tgt=tgt", *words, "json=true").lines))["aer"]

    save_random(files / "run", tiny_config(BAHDANAU), tokenizer_of(kind), longest_source=80, scale=3.0, eos_bias=-1.5)
    sources, targets = random_lines(1, 30), random_lines(2, 30)
    golds = [random_links(x, y) for x, y in zip(sources, targets, strict=True)]
    golds[3] |= {(count(sources[3]) - 1, count(targets[3]) - 1)}
    write_lines("src", sources)
    write_lines("tgt", targets)
    write_lines("gold", (" ".join(f"{i}-{j}" for i, j in row) for row in golds))
    assert aer("alignments=gold", "links=gold") == 0

    lines = call(align, "model=run", "src=src", "tgt=tgt").lines
    write_lines("out", lines)
    expected = pytest.approx(aer("alignments=out", "links=gold"))  # no link is outside
    assert len(lines) == 30 and aer("model=run", "links=gold", "search.max_length=5") == expected

    words = ["src=src", "tgt=tgt", "links=gold", "format=html", "limit=null", "output=pictures"]
    heatmap(["model=run", *words])
    page = Path("pictures/alignments.html").read_text("utf-8")
    for section in re.findall(r'<section id="s(\d+)">(.*?)</section>', page, re.DOTALL):
        row = int(section[0]) - 1
        cells = count(sources[row]) * (count(targets[row]) + 1)  # with a row of equal weights
        assert section[1].count("<td") == cells
        assert section[1].count('class="gold"') == len(golds[row])


@pytest.mark.parametrize("kind", KINDS)
def test_supervised_alignment_of_any_text_equals_a_naive_loop(kind: str, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(kind)
    texts = zip(random_lines(6, 20), random_lines(7, 20), strict=True)
    pairs = [Pair(x, y, tuple(sorted(random_links(x, y)))) for x, y in texts if count(x) and count(y)]
    write_corpus(tmp_path / "train.arrow", pairs, tokenizer, tokenizer)
    corpus = Corpus(tmp_path / "train.arrow")
    prepared: Any = SimpleNamespace(source=tokenizer, target=tokenizer, corpora={"train": corpus})
    targets = GoldLinks(prepared=prepared).targets(collate(corpus, range(len(corpus)))).numpy()
    for pair, shares in zip(pairs, targets, strict=True):
        x, y = (words_of(text, tokenizer.spans(text)) for text in (pair.source, pair.target))
        expected = np.zeros(shares.shape)
        for (t, rows), (s, columns) in product(enumerate(y), enumerate(x)):
            expected[t, s] = bool({*(pair.links or ())}.intersection(product(columns, rows)))
        expected /= expected.sum(1, keepdims=True).clip(min=1)
        np.testing.assert_allclose(shares, expected, rtol=1e-6)
