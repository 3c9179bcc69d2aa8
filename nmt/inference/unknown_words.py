"""The step that writes source words where a translation has unknown words.

Luong, Sutskever, Le, Vinyals & Zaremba (2015), Addressing the Rare Word Problem in Neural Machine Translation,
arXiv 1410.8206. As in Jean, Cho, Memisevic & Bengio (2015), arXiv 1412.2007, attention says which word to write.
"""

from __future__ import annotations

from collections.abc import Callable

from nmt.alignment.word_weights import aligned_units
from nmt.inference.steps import Step, Steps
from nmt.inference.terms import Edit, apply_edits
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
        return translation.each(lambda best: replace_unknown(best, change_text))

    return step


def replace_unknown(translation: Translation, change_text: Callable[[str], str] = str) -> Translation:
    """Return the translation without unknown pieces in its text.

    A target word with such a piece is replaced by the source word with the largest weight. A word without weight on any
    source word only loses its unknown pieces. In scripts without spaces, pieces take the place of words.
    """
    if SPECIALS[UNK] not in translation.tokens:
        return translation
    units = aligned_units(translation)
    edits = list[Edit]()
    for (start, stop), i in zip(units.target, units.links(), strict=True):
        word = translation.text[start:stop]
        if MARK in word:
            new = change_text(translation.source[slice(*units.source[i])]) if i >= 0 else ""
            new = word.replace(MARK, new) if UNSPACED.search(word) or not new else new
            edits.append(Edit(start if new else len(translation.text[:start].rstrip()), stop, new))
    return apply_edits(translation, edits)
