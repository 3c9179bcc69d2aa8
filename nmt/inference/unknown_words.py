"""The step that writes source words where a translation has unknown words.

Luong, Sutskever, Le, Vinyals & Zaremba (2015), Addressing the Rare Word Problem in Neural Machine Translation,
arXiv 1410.8206. As in Jean, Cho, Memisevic & Bengio (2015), arXiv 1412.2007, attention says which word to write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nmt.alignment.word_weights import argmax_links, word_weights
from nmt.data.words import replace_words, split_words
from nmt.inference.steps import Step, Steps
from nmt.inference.terms import Edit, aligned_units, apply_edits
from nmt.inference.translation import Translation
from nmt.text.specials import UNK
from nmt.text.tokenizer import SPECIALS
from nmt.text.writing import UNSPACED

MARK = "\ufffd"
"""The text of an unknown piece until its word is replaced."""


def unknown_word_step(change_text: Callable[[str], str]) -> Step:
    """Return the step that replaces unknown words; ``change_text`` changes a line as the model reads it."""

    def step(line: str) -> Steps:
        [translation] = yield [line]
        if translation.alignment is None:
            return translation
        source = split_words(change_text(line))
        return translation.each(lambda best: replace_unknown(best, source))

    return step


def replace_unknown(translation: Translation, source: Sequence[str]) -> Translation:
    """Return the translation of the words ``source``, without unknown pieces in its text.

    A target word with such a piece is replaced by the source word with the largest weight. A word without weight on any
    source word only loses its unknown pieces. In scripts without spaces, pieces take the place of words.
    """
    pieces = zip(translation.target_words, translation.tokens, strict=False)  # tokens may end in </s>
    unknown = {word for word, piece in pieces if piece == SPECIALS[UNK]}
    if not unknown:
        return translation
    if UNSPACED.search(translation.text) or any(map(UNSPACED.search, source)):
        return _replace_pieces(translation, " ".join(source))
    words = split_words(translation.text)
    replacements = {word: words[word].replace(MARK, "") for word in unknown}
    for i, j in argmax_links(word_weights(translation)):
        if j in unknown:
            replacements[j] = source[i]
    text, target_words = replace_words(translation.text, translation.target_words, replacements)
    return replace(translation, text=text, target_words=target_words)


def _replace_pieces(translation: Translation, source: str) -> Translation:
    """Replace unknown pieces by the pieces, or words with spaces around, that they are aligned to."""
    tokens = [MARK if piece == SPECIALS[UNK] else piece for piece in translation.tokens]
    units = aligned_units(replace(translation, tokens=tokens), source)
    edits = list[Edit]()
    for (start, stop), i in zip(units.target, units.links(), strict=True):
        text = translation.text[start:stop]
        if MARK in text:
            new = source[slice(*units.source[i])] if i >= 0 else ""
            edits.append(Edit(start, stop, text.replace(MARK, new) if UNSPACED.search(text) or not new else new))
    return apply_edits(translation, units, edits)
