"""All commands count the words of a line alike, with any whitespace, normalisation and SentencePiece model."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders import BAHDANAU, save_random, tiny_config, write_lines
from commands.texts import Call
from tokenizer_kinds import tokenizer_of

from nmt.api import Translator
from nmt.commands.align import align
from nmt.commands.evaluate import evaluate
from nmt.commands.heatmap import heatmap
from nmt.data.pair import Pair
from nmt.text.batches import collate
from nmt.text.corpus import Corpus, write_corpus
from nmt.training.guide import GoldLinks

# The tokenizers of the tests know few characters.
pytestmark = pytest.mark.filterwarnings("ignore:(source|target) text")

KINDS = ["ours", "bpe-nmt_nfkc", "over-spaces", "keep-spaces-no-prefix", "suffix-bytes", "symbols", "rules", "words"]
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


def read_links(lines: list[str]) -> list[set[tuple[int, int]]]:
    return [{(int(i), int(j)) for i, j in (link.split("-") for link in line.split(" ") if link)} for line in lines]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = tokenizer_of(request.param)
    folder = tmp_path_factory.mktemp("model")
    config = tiny_config(BAHDANAU, size=16)
    save_random(folder, config, tokenizer, longest_source=80, seed=1, scale=3.0, eos_bias=-1.5)
    return folder


def format_links(links: Iterable[set[tuple[int, int]]]) -> list[str]:
    return [" ".join(f"{i}-{j}" for i, j in sorted(row)) for row in links]


def test_all_commands_count_the_same_words(model: Path, files: Path, call: Call) -> None:
    warnings = list[set[str]]()

    def aer(*words: str) -> float:
        printed = call(evaluate, *words, "json=true")
        warnings.append({*printed.error.splitlines()})
        score: float = json.loads("\n".join(printed.lines))["aer"]
        return score

    sources, targets, draw = random_lines(1, 30), random_lines(2, 30), random.Random(3)
    golds = [
        {(draw.randrange(count(x)), draw.randrange(count(y))) for _ in range(3)} if count(x) and count(y) else set()
        for x, y in zip(sources, targets, strict=True)
    ]
    golds[3] |= {(count(sources[3]) - 1, count(targets[3]) - 1)}
    write_lines("src", sources)
    write_lines("tgt", targets)
    write_lines("gold", format_links(golds))
    texts = ["src=src", "tgt=tgt"]
    assert aer("alignments=gold", "links=gold", *texts) == 0

    aligned = call(align, f"model={model}", *texts)
    links = read_links(aligned.lines)
    assert len(links) == 30 and any(links)
    write_lines("out", format_links(links))
    expected = pytest.approx(aer("alignments=out", "links=gold", *texts))  # no link is outside
    assert aer(f"model={model}", *texts, "links=gold", "search.max_length=5") == expected
    assert {*aligned.error.splitlines()} <= warnings[-1]  # of words that the tokenizer removes
    translator = Translator.load(model)
    assert translator.align(zip(sources, targets, strict=True)) == links
    assert translator.evaluate(sources, targets, links=golds).aer == expected

    heatmap([f"model={model}", *texts, "links=gold", "format=html", "limit=null", "output=pictures"])
    page = Path("pictures/alignments.html").read_text("utf-8")
    for section in re.findall(r'<section id="s(\d+)">(.*?)</section>', page, re.DOTALL):
        row = int(section[0]) - 1
        assert section[1].count("<td") == count(sources[row]) * count(targets[row])
        assert section[1].count('class="gold"') == len(golds[row])


def test_supervised_alignment_of_any_text_equals_a_naive_loop(model: Path, tmp_path: Path) -> None:
    draw, trained = random.Random(5), Translator.load(model).trained
    pairs = []
    for source, target in zip(random_lines(6, 20), random_lines(7, 20), strict=True):
        if count(source) and count(target):
            links = {(draw.randrange(count(source)), draw.randrange(count(target))) for _ in range(3)}
            pairs.append(Pair(source, target, tuple(sorted(links))))
    write_corpus(tmp_path / "train.arrow", pairs, trained.source, trained.target)
    corpus = Corpus(tmp_path / "train.arrow")
    prepared: Any = SimpleNamespace(source=trained.source, target=trained.target, corpora={"train": corpus})
    guide = GoldLinks(prepared=prepared)
    targets = guide.targets(collate(corpus, range(len(corpus)))).numpy()
    for row, shares in enumerate(targets):
        x, y = (tokenizer.words(text) for tokenizer, text in zip(guide.tokenizers, corpus.texts(row), strict=True))
        linked = {(int(i), int(j)) for i, j in corpus.sure_links(row)}
        expected = np.zeros(shares.shape)
        for t, (first_j, last_j) in enumerate(zip(y, y.last, strict=True)):
            for s, (first_i, last_i) in enumerate(zip(x, x.last, strict=True)):
                words = product(range(first_i, last_i + 1), range(first_j, last_j + 1))
                expected[t, s] = bool(linked.intersection(words))
        expected /= expected.sum(1, keepdims=True).clip(min=1)
        np.testing.assert_allclose(shares, expected, rtol=1e-6)
