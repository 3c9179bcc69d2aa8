"""A corpus of distinct sentence pairs whose valid and test words all occur in train; trees become linked pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from nmt.data.links import Pair
from scripts.grammar import english, german
from scripts.grammar.draw import Sentences
from scripts.grammar.lexicon import Vocabulary
from scripts.grammar.tree import Sentence, SentenceLeaf, Word

MIN_WORDS, MAX_WORDS = 3, 40  # per sentence, in both languages
FULL_LEXICON = 10_000  # with this many training pairs, each word of the full lexicon occurs often enough


def generate(sizes: dict[str, int], seed: int) -> dict[str, list[Pair]]:
    """Return as many pairs as ``sizes`` says for train, valid and test. Equal arguments give equal pairs everywhere.

    No English sentence occurs twice. Every word of valid and test, in both languages, occurs in train.
    """
    stream = distinct_pairs(seed, min(1.0, sizes["train"] / FULL_LEXICON))
    train = [next(stream) for _ in range(sizes["train"])]
    sources = {word for pair in train for word in pair.source.split()}
    targets = {word for pair in train for word in pair.target.split()}
    others = {part: list(known_pairs(stream, sources, targets, sizes[part])) for part in ("valid", "test")}
    return {"train": train, **others}


def distinct_pairs(seed: int, share: float) -> Iterator[Pair]:
    """Yield pairs of 3 to 40 words without end, drawn from a ``share`` of the lexicon; no English sentence repeats."""
    sentences = Sentences(random.Random(seed), Vocabulary(share))
    seen: set[str] = set()
    while True:
        pair = realise(sentences.sentence())
        lengths = [side.count(" ") + 1 for side in pair[:2]]
        if pair.source not in seen and min(lengths) >= MIN_WORDS and max(lengths) <= MAX_WORDS:
            seen.add(pair.source)
            yield pair


def known_pairs(stream: Iterator[Pair], sources: set[str], targets: set[str], count: int) -> Iterator[Pair]:
    """Yield ``count`` pairs of the stream that contain only the words in ``sources`` and ``targets``."""
    known = (
        pair for pair in stream if sources.issuperset(pair.source.split()) and targets.issuperset(pair.target.split())
    )
    return islice(known, count)


def realise(node: Sentence) -> Pair:
    """Return the English and the German sentence of a tree with their sorted links."""
    source = tidy(words(node, 0))
    target = tidy(words(node, 1))
    positions: dict[int, list[int]] = {}  # leaf -> source words that express it
    for i, (_, leaves) in enumerate(source):
        for leaf in leaves:
            positions.setdefault(leaf, []).append(i)
    links = {(i, j) for j, (_, leaves) in enumerate(target) for leaf in leaves for i in positions.get(leaf, ())}
    return Pair(" ".join(word for word, _ in source), " ".join(word for word, _ in target), tuple(sorted(links)))


def words(node: Sentence, side: int) -> list[Word]:
    """Return all words of a sentence in English (0) or German (1), before ``tidy``."""
    clause = (english.clause, german.verb_second)[side]
    leaf = node.leaf
    sentence = clause(node.clause, asked=node.asked is not None)
    if node.asked and node.asked[side]:
        sentence.insert(0, (node.asked[side], (leaf + SentenceLeaf.INTERROGATIVE,)))
    if node.conjunction and node.second:
        if node.conjunction[0] == "but":
            sentence.append((",", (leaf + SentenceLeaf.COMMA,)))
        sentence += [(node.conjunction[side], (leaf + SentenceLeaf.CONJUNCTION,)), *clause(node.second)]
    return [*sentence, (node.mark, (leaf + SentenceLeaf.MARK,))]


def tidy(sentence: list[Word]) -> list[Word]:
    """Merge adjacent commas, drop a comma before the final mark, and capitalise the first word."""
    tidied: list[Word] = []
    for word in sentence:
        if tidied and tidied[-1][0] == ",":
            if word[0] == ",":
                tidied[-1] = (",", (*tidied[-1][1], *word[1]))
                continue
            if word[0] in {".", "?"}:
                tidied.pop()
        tidied.append(word)
    text, leaves = tidied[0]
    tidied[0] = (text[0].upper() + text[1:], leaves)
    return tidied
