"""Scripts without spaces between words, and the language that a text's script suggests."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple


class LazyPattern:
    """A regular expression that is compiled on first use: large character classes take up to 5 ms each."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(self.pattern, self._flags), name)
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
# Scripts whose characters are words or syllables, so that each is often a token, also Hangul and Ethiopic
SYLLABLES = LazyPattern(f"[{_OTHERS}{_HAN}{_KANA}\u1200-\u139f\uac00-\ud7a3]")
# Vowel marks of Hebrew and Arabic, which most text leaves out, and U+0640, which only makes a word longer
VOWELS = LazyPattern("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c7\u0640\u064b-\u0652\u0670]")
HAN = LazyPattern(f"[{_HAN}]")
# Chinese characters that sacrebleu's zh tokenizer splits. It takes the others as parts of a word.
HAN_OF_ZH = LazyPattern("[\u2e80-\u2fdf\u3005-\u3007\u3100-\u312f\u31a0-\u31bf\u3400-\u4db5\u4e00-\u9fbb\uf900-\ufa6a]")
_HAN_RUN = LazyPattern(f"[{_HAN}]+")
_KANA_RUN = LazyPattern(f"[{_KANA}]+")
_OTHER_RUN = LazyPattern(f"[{_OTHERS}]+")
_HANGUL_RUN = LazyPattern("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_EUROPEAN = LazyPattern(
    "[\u0000-\u052f\u1c80-\u1c8f\u1d00-\u1fff\u2c60-\u2c7f\u2de0-\u2dff\ua640-\ua69f\ua720-\ua7ff]+"
)
JAPANESE_KANA = 0.1  # share of kana among kana and Chinese characters; Chinese text has a few in names
LONG_WORD = 20  # mean length of words, in characters, that no spaced script but the European ones reaches

Kind = Literal["spaced", "Korean", "Chinese", "Japanese", "unspaced"]


class Writing(NamedTuple):
    """The kind of a text's writing, the name of its script, and the share of this script in the text."""

    kind: Kind
    script: str
    share: float


def writing_of(lines: Iterable[str]) -> Writing:
    """Return the writing that most of the text has.

    A character of a script without spaces counts as much as a word of another script, so a foreign name has little
    effect.
    """
    ascii_words = 0
    others = []
    for line in lines:
        if line.isascii():
            ascii_words += len(line.split())
        else:
            others.append(line)
    text = "\n".join(others)
    han, kana, other = (_size(run, text) for run in (_HAN_RUN, _KANA_RUN, _OTHER_RUN))
    unspaced = han + kana + other
    spaced = ascii_words + len(_LETTERS.findall(UNSPACED.sub(" ", text) if unspaced else text))
    share = unspaced / (unspaced + spaced) if unspaced else 0.0
    if share <= 0.5:
        return _spaced_writing(text, ascii_words)
    if other > han + kana:
        return Writing("unspaced", _name(_OTHER_RUN, text), share)
    return Writing("Japanese" if kana > JAPANESE_KANA * (han + kana) else "Chinese", "", share)


def is_letter(character: str) -> bool:
    """Return whether a character is a letter, or belongs to one, as the vowel signs of Hindi do."""
    return unicodedata.category(character)[0] in "LM"


def _spaced_writing(text: str, ascii_words: int) -> Writing:
    """Return the writing of a text with few characters of ``UNSPACED``."""
    words = text.split()
    characters = sum(map(len, words))
    foreign = characters - _size(_EUROPEAN, text.replace("\n", "").replace(" ", ""))
    if len(words) > ascii_words and foreign > 0.5 * characters:
        if _size(_HANGUL_RUN, text) > 0.5 * characters:
            return Writing("Korean", "", 1.0)
        if characters >= LONG_WORD * len(words):
            return Writing("unspaced", _name(LazyPattern(r"[^\x00-\u052f\s]"), text), foreign / characters)
    return Writing("spaced", "", 1.0)


def _size(run: LazyPattern, text: str) -> int:
    return sum(map(len, run.findall(text)))


def _name(run: LazyPattern, text: str) -> str:
    """Return the name of the script of the first match, such as Thai."""
    match = run.search(text)
    return unicodedata.name(match[0][0], "unknown").split()[0].title() if match else ""
