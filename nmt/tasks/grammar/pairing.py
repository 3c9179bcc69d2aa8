"""From a tree to a sentence pair with its gold links: words that express the same leaf are linked."""

from __future__ import annotations

from nmt.tasks.grammar import english, german
from nmt.tasks.grammar.tree import Sentence, Word
from nmt.text.pair import Pair


def tidy(words: list[Word]) -> list[Word]:
    """One comma where clauses end and begin together, none at the end; a capital first."""
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


def say(node: Sentence) -> Pair:
    """The English and the German sentence of a tree, and their links in order."""
    source, target = tidy(english.sentence(node)), tidy(german.sentence(node))
    homes: dict[int, list[int]] = {}
    for i, (_, leaves) in enumerate(source):
        for leaf in leaves:
            homes.setdefault(leaf, []).append(i)
    links = {(i, j) for j, (_, leaves) in enumerate(target) for leaf in leaves for i in homes.get(leaf, ())}
    return Pair(" ".join(word for word, _ in source), " ".join(word for word, _ in target), tuple(sorted(links)))
