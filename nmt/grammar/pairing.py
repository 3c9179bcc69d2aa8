"""Realise a tree as a sentence pair; words that express the same leaf are linked."""

from __future__ import annotations

from nmt.data.pair import Pair
from nmt.grammar import english, german
from nmt.grammar.tree import Sentence, Word


def tidy(words: list[Word]) -> list[Word]:
    """Merge adjacent commas, drop a comma before the final mark, and capitalise the first word."""
    tidied: list[Word] = []
    for word in words:
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


def realise(node: Sentence) -> Pair:
    """Return the English and the German sentence of a tree with their sorted links."""
    source, target = tidy(english.sentence(node)), tidy(german.sentence(node))
    positions: dict[int, list[int]] = {}  # leaf -> source words that express it
    for i, (_, leaves) in enumerate(source):
        for leaf in leaves:
            positions.setdefault(leaf, []).append(i)
    links = {(i, j) for j, (_, leaves) in enumerate(target) for leaf in leaves for i in positions.get(leaf, ())}
    return Pair(" ".join(word for word, _ in source), " ".join(word for word, _ in target), tuple(sorted(links)))
