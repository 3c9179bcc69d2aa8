"""How well a tokenizer reads a text: the share of ``<unk>`` and byte pieces, and the tokens per word."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.text.specials import UNK
from nmt.text.tokenizer import Tokenizer

UNUSUAL = 0.05  # share of the tokens and, because emoji do not matter, of the letters
MIN_CHARACTERS = 200  # in a shorter text, every second character must be an unknown letter
EXAMPLES = 8  # words
EMOJI_VARIANTS = "\ufe0e\ufe0f"  # of emoji; Unicode counts them as marks


@dataclass(kw_only=True)
class Coverage:
    """Counts of a text as a tokenizer reads it. ``unknown`` tokens are ``<unk>`` or one byte of a character.

    ``words`` are separated by whitespace. ``unknown_letters`` are letters and marks without a piece. Emoji, digits and
    punctuation do not count, because a text can be read without them.
    """

    words: int = 0
    characters: int = 0
    tokens: int = 0
    unknown: int = 0
    unknown_letters: int = 0
    examples: list[str] = field(default_factory=list)

    def count(self, tokenizer: Tokenizer, texts: Sequence[str], encoded: Sequence[Sequence[int]]) -> None:
        """Count lines, which ``tokenizer`` has encoded as ``encoded``."""
        self.words += sum(len(text.split()) for text in texts)
        self.characters += sum(map(len, texts))
        self.tokens += sum(map(len, encoded))
        readable = tokenizer.fallback.isdisjoint
        for text, ids in zip(texts, encoded, strict=True):
            if not readable(ids):
                self.unknown += sum(map(tokenizer.fallback.__contains__, ids))
                for word in text.split():
                    if unknown := unknown_letters(tokenizer, word):
                        self.unknown_letters += unknown
                        self.examples += [word[:40]] * (len(self.examples) < EXAMPLES)

    def add(self, other: Coverage) -> None:
        """Add the counts of another text."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        del self.examples[EXAMPLES:]

    @property
    def unknown_share(self) -> float:
        """Share of the tokens that are ``<unk>`` or a byte."""
        return self.unknown / self.tokens if self.tokens else 0.0

    @property
    def tokens_per_word(self) -> float:
        return self.tokens / self.words if self.words else 0.0

    @property
    def is_unreadable(self) -> bool:
        """Whether more than ``UNUSUAL`` of the tokens are unknown, and not for their emoji or one rare name."""
        share = UNUSUAL if self.characters >= MIN_CHARACTERS else 0.5
        return self.unknown_share > UNUSUAL and self.unknown_letters > max(1, share * self.characters)

    def problem(self, advice: str) -> str | None:
        """Return the problem of the tokenizer with the text, with the fix ``advice``, or None."""
        if not self.is_unreadable:
            return None
        share = f"{100 * self.unknown_share:.1f} % of the tokens are unknown characters or words"
        return f"{share}, as in {self.examples[0]!r}, with {self.tokens_per_word:.1f} tokens per word; {advice}"


def unknown_letters(tokenizer: Tokenizer, text: str) -> int:
    """Return the number of letters and marks of ``text`` that ``tokenizer`` has no piece for.

    A tokenizer of words has no piece for any letter of an unknown word.
    """
    if tokenizer.alphabet.issuperset(text):
        return len(text) if UNK in tokenizer.encode(text) else 0
    unknown = [character for character in tokenizer.normalise(text) if character not in tokenizer.alphabet]
    return sum(unicodedata.category(character)[0] in "LM" for character in unknown if character not in EMOJI_VARIANTS)
