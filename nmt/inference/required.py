"""The pieces of texts that a translation must contain, for a search that writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nmt.inference.terms import Required
from nmt.search.required import RequiredTexts, Spelling
from nmt.text.specials import UNK
from nmt.text.tokenizer import Tokenizer
from nmt.text.writing import UNSPACED

MAX_PIECES = 32  # of the texts of a line: the time of the search grows with them


def required_texts(
    required: Sequence[Required], tokenizer: Tokenizer, change: Callable[[str], str]
) -> RequiredTexts | None:
    """Return the texts for the search; None if it cannot write them.

    They may have too many pieces, characters that the tokenizer cannot spell, or a script without spaces, in which
    texts are not words. ``change`` returns a text as the model writes it, such as in lower case.
    """
    spellings = []
    for item in required:
        words = change(item.stand_in or item.text)
        inside = tuple(tokenizer.encode(words))
        first = tuple(tokenizer.encode(change(words[0].upper() + words[1:]))) if item.capital else inside
        if UNSPACED.search(words) or UNK in {*inside, *first} or not (inside and first):
            return None
        spellings.append(Spelling(inside, first))
    texts = RequiredTexts(spellings, tokenizer.within_words)
    return texts if texts.pieces <= MAX_PIECES else None
