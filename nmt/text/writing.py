"""Scripts without spaces between words, and which of them a text has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Literal


class LazyPattern:
    """A regular expression that is compiled on first use: large character classes take up to 5 ms each."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self.pattern), name)
        setattr(self, name, method)
        return method


_KANA = "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"
_HAN = "\u2e80-\u2fdf\u3005-\u3007\u3100-\u312f\u31a0-\u31bf\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Tibetan, Myanmar, Khmer, Tai Le, New Tai Lue, Tai Tham, Balinese, Yi, Javanese, more Myanmar, Tai Viet,
# Ahom, cuneiform, hieroglyphs, Tangut and Khitan, Nushu.
_OTHERS = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua000-\ua4cf"
    "\ua980-\ua9ff\uaa60-\uaadf\U00011700-\U0001174f\U00012000-\U0001254f\U00013000-\U0001345f\U00017000-\U00018d8f"
    "\U0001b170-\U0001b2ff"
)
UNSPACED = LazyPattern(f"[{_OTHERS}{_HAN}{_KANA}]")
# Chinese and Japanese, with their marks: they have no blanks between sentences either, unlike Thai.
WITHOUT_BLANKS = LazyPattern(f"[{_HAN}{_KANA}\u3001-\u303f\uff01-\uff60]")
# The blank between two lines of Chinese or Japanese
JOINT = LazyPattern(rf"(?<={WITHOUT_BLANKS.pattern})[ \t\r\f]*\n[ \t\r\n\f]*(?={WITHOUT_BLANKS.pattern})")
_LETTERS = re.compile(r"[^\W\d_]+")
JAPANESE_KANA = 0.1  # share of kana among kana and Chinese characters; Chinese text has a few in names

Writing = Literal["spaced", "Chinese", "Japanese", "unspaced"]


def writing_of(lines: Iterable[str]) -> Writing:
    """Return the writing that most of the text has.

    A character of a script without spaces counts as much as a word of another script, so a foreign name has little
    effect.
    """
    text = "\n".join(lines)
    han, kana, other = (len(re.findall(f"[{script}]", text)) for script in (_HAN, _KANA, _OTHERS))
    unspaced = han + kana + other
    if not unspaced or unspaced <= len(_LETTERS.findall(UNSPACED.sub(" ", text))):
        return "spaced"
    if other > han + kana:
        return "unspaced"
    return "Japanese" if kana > JAPANESE_KANA * (han + kana) else "Chinese"


def is_letter(character: str) -> bool:
    """Return whether a character is a letter, or belongs to one, as the vowel signs of Hindi do."""
    return unicodedata.category(character)[0] in "LM"
