"""The step that writes source words where a translation has unknown words.

Luong, Sutskever, Le, Vinyals & Zaremba (2015), Addressing the Rare Word Problem in Neural Machine Translation,
arXiv 1410.8206. As in Jean, Cho, Memisevic & Bengio (2015), arXiv 1412.2007, attention says which word to write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nmt.data.words import split_words
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
        return translation.each(lambda best: replace_unknown(best, change_text(line)))

    return step


def replace_unknown(translation: Translation, source: str) -> Translation:
    """Return the translation of the line ``source``, without unknown pieces in its text.

    A target word with such a piece is replaced by the source word with the largest weight. A word without weight on any
    source word only loses its unknown pieces. In scripts without spaces, pieces take the place of words.
    """
    if SPECIALS[UNK] not in translation.tokens:
        return translation
    tokens = [MARK if piece == SPECIALS[UNK] else piece for piece in translation.tokens]
    units = aligned_units(replace(translation, tokens=tokens), source)
    edits = list[Edit]()
    for (start, stop), i in zip(units.target, units.links(), strict=True):
        word = translation.text[start:stop]
        if MARK in word:
            new = source[slice(*units.source[i])] if i >= 0 else ""
            edits.append(Edit(start, stop, word.replace(MARK, new) if UNSPACED.search(word) or not new else new))
    written = apply_edits(translation, units, edits)
    return replace(written, text=" ".join(split_words(written.text)))  # a word may be gone
