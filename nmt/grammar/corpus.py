"""A corpus of distinct sentence pairs whose valid and test words all occur in train; trees become linked pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator

from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.grammar import english, german
from nmt.grammar.draw import Sentences
from nmt.grammar.lexicon import Vocabulary
from nmt.grammar.tree import Sentence, SentenceLeaf, Word
from nmt.settings.arguments import PairCount
from nmt.system.machine import paused_collector

MIN_WORDS, MAX_WORDS = 3, 40  # per sentence, in both languages
FULL_LEXICON = 10_000  # with this many training pairs, each word of the full lexicon occurs often enough
PATIENCE = 20_000  # consecutive rejected draws before giving up


def generate(
    *,
    train_pairs: PairCount,
    valid_pairs: PairCount,
    test_pairs: PairCount,
    seed: int,
) -> dict[str, list[Pair]]:
    """Return sentence pairs by part (train, valid, test). Equal arguments give equal pairs on every machine.

    No English sentence occurs twice. Every word of valid and test, in both languages, occurs in train.
    Python callers may ask for 0 pairs of a part. Raises UserError if not enough distinct pairs can be drawn.
    """
    with paused_collector():  # trees have no reference cycles; the collector would take half of the time
        stream = distinct_pairs(seed, min(1.0, train_pairs / FULL_LEXICON))
        train = [next(stream) for _ in range(train_pairs)]
        sources = {word for pair in train for word in pair.source.split()}
        targets = {word for pair in train for word in pair.target.split()}
        parts = {"train": train}
        for part, size in (("valid", valid_pairs), ("test", test_pairs)):
            parts[part] = list(known_pairs(stream, sources, targets, part, size))
    return parts


def distinct_pairs(seed: int, share: float) -> Iterator[Pair]:
    """Yield pairs of 3 to 40 words without end, drawn from a ``share`` of the lexicon; no English sentence repeats."""
    sentences = Sentences(random.Random(seed), Vocabulary(share))
    seen: set[str] = set()
    failures = 0
    while failures < PATIENCE:
        pair = realise(sentences.sentence())
        source = pair.source.count(" ") + 1
        target = pair.target.count(" ") + 1
        if pair.source in seen or not (min(source, target) >= MIN_WORDS and max(source, target) <= MAX_WORDS):
            failures += 1
            continue
        failures = 0
        seen.add(pair.source)
        yield pair
    raise UserError(f"data: the grammar gave only {len(seen):,} distinct sentences; ask for fewer pairs")


def known_pairs(stream: Iterator[Pair], sources: set[str], targets: set[str], part: str, count: int) -> Iterator[Pair]:
    """Yield ``count`` pairs of the stream that contain only the words in ``sources`` and ``targets``."""
    failures = 0
    while count > 0:
        pair = next(stream)
        if sources.issuperset(pair.source.split()) and targets.issuperset(pair.target.split()):
            failures = 0
            count -= 1
            yield pair
        else:
            failures += 1
        if failures == PATIENCE:
            raise UserError(
                f"data.{part}_pairs: the training part has too few words for unseen sentences; raise data.train_pairs"
            )


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
