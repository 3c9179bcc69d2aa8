"""How well a tokenizer reads a text: the share of ``<unk>`` and byte pieces, tokens per word, and what would help."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from nmt.errors import counted
from nmt.text.specials import SPACE, UNK
from nmt.text.tokenizer import Tokenizer
from nmt.text.writing import SYLLABLES, VOWELS

UNUSUAL = 0.05  # share of the tokens, of the words and, for marks, of the lines
MIN_CHARACTERS = 200  # a shorter text must be unreadable for the most part
EXAMPLES = 8  # words
WORD_PIECE = 3  # mean length of the pieces of a tokenizer that has pieces of several letters
EXCHANGED = 0.8  # of the tokens; with the right tokenizers, other languages take more than twice as many
EMOJI_VARIANTS = "\ufe0e\ufe0f"  # of emoji; Unicode counts them as marks
SPLIT_TO_LETTERS = 0.6  # tokens per character; text that a tokenizer was trained for has at most 0.42
MIN_PIECES = 2000  # a smaller vocabulary may split every text to letters
MAX_SYLLABIC = 0.2  # share of pieces with syllables, such as Hangul: such text has up to 0.8 tokens per character
LONGEST_WORDS = 12  # characters per word: more are a script without spaces, where every character can be a token

PERSIAN = str.maketrans("يك", "یک")
ARABIC = str.maketrans("یک", "يك")
FORMS: dict[str, Callable[[str], str]] = {
    "its letters are decomposed (NFD): compose them, as with uconv -x any-nfc": partial(unicodedata.normalize, "NFC"),
    "the tokenizer knows its letters decomposed: convert it with uconv -x any-nfd": partial(
        unicodedata.normalize, "NFD"
    ),
    "the tokenizer knows its letters in lower case: lower-case the text": str.lower,
    "the tokenizer knows other forms of its letters: convert it with uconv -x any-nfkc": partial(
        unicodedata.normalize, "NFKC"
    ),
    "the tokenizer knows the letters of Persian: convert it with sed 's/ي/ی/g; s/ك/ک/g'": lambda text: text.translate(
        PERSIAN
    ),
    "the tokenizer knows the letters of Arabic: convert it with sed 's/ی/ي/g; s/ک/ك/g'": lambda text: text.translate(
        ARABIC
    ),
    "the tokenizer does not know its vowel marks: remove them with perl -CSD -pe "
    r"'s/[\x{591}-\x{5bd}\x{5bf}\x{5c1}\x{5c2}\x{5c7}\x{640}\x{64b}-\x{652}\x{670}]//g'": partial(VOWELS.sub, ""),
}


class ForeignMark(NamedTuple):
    """A mark that another tool left in a text, the piece of tokenizers that were trained on such text, and the fix."""

    text: str
    piece: str
    fix: str
    share: float = UNUSUAL
    """Share of the lines from which on there is a warning."""
    pattern: re.Pattern[str] | None = None
    """Pattern that a line must match, too."""


# U+FFFD, characters that nobody types, and parts of UTF-8 that was read as Latin-1 or Windows-1252
WRONG_CHARSET = re.compile("[\x80-\x84\x86-\x9f\ufffdÃÐâ](?:(?<=[^ÃÐâ])|(?<=[ÃÐ])[¡-ª¬-º¼-¿]|(?<=â)€)")
WRONG_CHARSET_SHARE = 0.001  # of the lines
HALF = 0.5
FACTORS = re.compile(r"^(?:[^\s|]+\|[^\s|]\S*(?:\s+|$)){2,}$")  # word|POS word|POS
SUBWORDS = ForeignMark("@@ ", "@@", "subword-nmt has split the words: join them with sed -E 's/@@( |$)//g'")
MARKS = (
    SUBWORDS,
    ForeignMark(SPACE, "", "SentencePiece has split the words: give the text that it was made from"),
    ForeignMark("&apos;", "apos", "Moses has escaped characters: undo it with its detokenizer, or with html.unescape"),
    ForeignMark("&quot;", "quot", "Moses has escaped characters: undo it with its detokenizer, or with html.unescape"),
    ForeignMark("&amp;", "amp", "characters are written as HTML entities: undo it with html.unescape"),
    ForeignMark("@-@", "@-@", "Moses has split hyphens: undo it with its detokenizer"),
    ForeignMark("\uffed", "\uffed", "OpenNMT has split the words: undo it with its detokenizer"),
    ForeignMark(
        "</",
        "</",
        "lines have tags of XML or HTML: give their text, or translate with format=html",
        share=0.2,
        pattern=re.compile(r"^(?!.*<seg )"),
    ),
    ForeignMark(
        " --> ", "", "the text has times of subtitles: keep its sentences, or translate with format=srt", share=0.1
    ),
    ForeignMark('msgid "', "", "the text is a message catalogue: translate it with format=po", share=0.1),
    ForeignMark('{"', "", "lines are JSON: keep their sentences, or train with data=table", share=HALF),
    ForeignMark("<seg ", "<seg", "the text is marked up as test sets of WMT: give what is between <seg> and </seg>"),
    ForeignMark(
        "\t",
        "",
        "lines have columns: keep that of the sentences, as with cut -f2, or train with data=table",
        share=HALF,
        pattern=re.compile(r"\S\t\S"),
    ),
    ForeignMark(
        " ||| ", "|||", "lines have columns: keep that of the sentences, as with sed 's/ ||| .*//'", share=HALF
    ),
    ForeignMark("|", "", "words have factors: remove them with sed -E 's/\\|[^ ]*//g'", share=HALF, pattern=FACTORS),
)


@dataclass(kw_only=True)
class Coverage:
    """Counts of a text as a tokenizer reads it. ``unknown`` tokens are ``<unk>`` or one byte of a character.

    ``words`` are separated by whitespace. ``characters`` leaves out one space between two words. ``unknown_words`` have
    a letter or mark without a piece, and ``unknown_letters`` counts these letters and marks. Emoji, digits and
    punctuation do not count, because a text can be read without them.
    """

    lines: int = 0
    words: int = 0
    characters: int = 0
    tokens: int = 0
    unknown: int = 0
    unknown_words: int = 0
    unknown_letters: int = 0
    examples: list[str] = field(default_factory=list)
    marks: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.marks = Counter(self.marks)  # a dictionary in JSON files

    def count(self, tokenizer: Tokenizer, texts: Sequence[str], encoded: Sequence[Sequence[int]]) -> None:
        """Count lines, which ``tokenizer`` has encoded as ``encoded``."""
        words_of_line = [*map(len, map(str.split, texts))]
        words = sum(words_of_line)
        spaces = words - sum(map(bool, words_of_line))  # between two words
        self.lines += len(texts)
        self.words += words
        self.characters += sum(map(len, texts)) - spaces
        self.tokens += sum(map(len, encoded))
        readable = tokenizer.fallback.isdisjoint
        for text, ids in zip(texts, encoded, strict=True):
            if not readable(ids):
                self.unknown += sum(map(tokenizer.fallback.__contains__, ids))
                self._count_words(tokenizer, text.split())
        joined = " \n".join([*texts, ""])
        for mark in MARKS:
            if mark.text in joined:
                marked = [text for text in texts if mark.text in f"{text} "]
                self.marks[mark.text] += sum(mark.pattern is None or bool(mark.pattern.search(text)) for text in marked)
        if WRONG_CHARSET.search(joined):
            self.marks["\ufffd"] += sum(WRONG_CHARSET.search(text) is not None for text in texts)

    def _count_words(self, tokenizer: Tokenizer, words: Iterable[str]) -> None:
        for word in words:
            if unknown := unknown_letters(tokenizer, word):
                self.unknown_words += 1
                self.unknown_letters += unknown
                if len(self.examples) < EXAMPLES and word not in self.examples:
                    self.examples.append(word[:40])

    def add(self, other: Coverage) -> None:
        """Add the counts of another text."""
        for name, value in vars(other).items():
            if isinstance(value, int):
                setattr(self, name, getattr(self, name) + value)
        self.examples = list(dict.fromkeys([*self.examples, *other.examples]))[:EXAMPLES]
        self.marks.update(other.marks)

    @property
    def unknown_share(self) -> float:
        """Share of the tokens that are ``<unk>`` or a byte."""
        return self.unknown / self.tokens if self.tokens else 0.0

    @property
    def tokens_per_word(self) -> float:
        return self.tokens / self.words if self.words else 0.0

    @property
    def is_unreadable(self) -> bool:
        """Whether clearly more than ``UNUSUAL`` of the tokens and words are unknown, by more than chance explains.

        A few rare names, or emoji, are not enough, and neither is a short text with some strange letters.
        """
        expected = UNUSUAL * self.words
        enough = self.unknown_words > expected + 3 * math.sqrt(expected)
        mostly = self.unknown_letters > max(1, self.characters / 2)
        long = self.characters >= MIN_CHARACTERS
        return enough and self.unknown_share > UNUSUAL and (long or mostly)


def coverage(tokenizer: Tokenizer, texts: Sequence[str]) -> Coverage:
    """Return the counts of ``texts``."""
    counts = Coverage()
    counts.count(tokenizer, texts, tokenizer.encode_all(list(texts)))
    return counts


def unknown_letters(tokenizer: Tokenizer, text: str) -> int:
    """Return the number of letters and marks of ``text`` that ``tokenizer`` has no piece for.

    A tokenizer of words has no piece for any letter of an unknown word.
    """
    if tokenizer.alphabet.issuperset(text):
        return len(text) if UNK in tokenizer.encode(text) else 0
    unknown = [character for character in tokenizer.normalise(text) if character not in tokenizer.alphabet]
    return sum(unicodedata.category(character)[0] in "LM" for character in unknown if character not in EMOJI_VARIANTS)


def coverage_problems(counts: Coverage, tokenizer: Tokenizer, advice: str, *, learned_it: bool = False) -> list[str]:
    """Return the problems of a tokenizer with a text, each with its fix: ``advice`` unless the text shows another.

    Marks of other tools are named unless the tokenizer has pieces with them. If it ``learned_it``, from this text, it
    has, but words that are split twice make BLEU, which counts their parts, incomparable.
    """
    reasons = []
    if counts.is_unreadable:
        share = f"{counts.unknown_share:.1%}".replace("%", " %")
        example = counts.examples[0]
        kind = "<unk>" if not tokenizer.spells_bytes else "single bytes of unknown characters"
        reasons.append(
            f"{share} of the tokens are {kind}, as in {example!r} ({script(tokenizer, example)}), with "
            f"{counts.tokens_per_word:.1f} tokens per word; {other_form(counts, tokenizer) or advice}"
        )
    fixes = dict[str, str]()
    for mark in MARKS:
        count = counts.marks[mark.text]
        if count <= mark.share * counts.lines or (count < 3 and count < counts.lines):
            continue
        if (learned_it and mark is SUBWORDS) or not (
            mark.piece and any(mark.piece in piece for piece in tokenizer.all_pieces[4:])  # without </s>
        ):
            lines = f"{count:,} of {counted(counts.lines, 'line')}"
            verb = "contains" if count == 1 else "contain"
            fixes.setdefault(mark.fix, f"{lines} {verb} {mark.text.strip() or mark.text!r}; {mark.fix}")
    if (count := counts.marks["\ufffd"]) > WRONG_CHARSET_SHARE * counts.lines:
        reasons.append(
            f"{count:,} of {counted(counts.lines, 'line')} have characters of a wrong charset, such as 'Ã¼' or "
            "U+FFFD; convert the original file again, such as iconv -f CP1252 -t UTF-8, or drop these lines"
        )
    return reasons + list(fixes.values())


def other_form(counts: Coverage, tokenizer: Tokenizer) -> str | None:
    """Return the fix if the tokenizer can read the example words in another form, such as composed letters."""
    before = sum(unknown_letters(tokenizer, word) for word in counts.examples)
    for fix, convert in FORMS.items():
        if 10 * sum(unknown_letters(tokenizer, convert(word)) for word in counts.examples) <= before:
            return fix
    return None


def script(tokenizer: Tokenizer, word: str) -> str:
    """Return the script of the first unknown letter of a word, such as Cyrillic."""
    unknown = [letter for letter in tokenizer.normalise(word) if unknown_letters(tokenizer, letter)]
    letter = next((letter for letter in unknown if letter.isalpha()), word[0])  # a mark belongs to any script
    name = unicodedata.name(letter, "unknown").split()[0]
    return name if name == "CJK" else name.capitalize()


def splits_to_letters(counts: Coverage, tokenizer: Tokenizer) -> bool:
    """Return whether a tokenizer of words splits this text almost to letters, as it does in another language."""
    spaced = MIN_CHARACTERS <= counts.characters <= LONGEST_WORDS * counts.words
    if not spaced or counts.tokens <= SPLIT_TO_LETTERS * counts.characters:
        return False
    ordinary = tokenizer.all_pieces[4:]
    if sum(SYLLABLES.search(piece) is not None for piece in ordinary) > MAX_SYLLABIC * len(ordinary):
        return False
    return len(ordinary) >= MIN_PIECES and sum(map(len, ordinary)) > WORD_PIECE * len(ordinary)


def cost(tokenizer: Tokenizer, texts: Sequence[str]) -> int:
    """Return the tokens of ``texts`` and, for each letter that the tokenizer does not know, two more."""
    counts = coverage(tokenizer, texts)
    return counts.tokens + 2 * counts.unknown_letters


def are_exchanged(source: Tokenizer, target: Tokenizer, sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Return whether each tokenizer reads the other side much better than its own."""
    if source.to_bytes() == target.to_bytes():
        return False
    as_given = cost(source, sources) + cost(target, targets)
    other_way = cost(target, sources) + cost(source, targets)
    return other_way < EXCHANGED * as_given
