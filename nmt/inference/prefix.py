"""Prefixes: the pieces that may follow so that a translation begins with a given text, which may end within a word."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from nmt.errors import counted
from nmt.search.constraints import Prefix
from nmt.search.options import MAX_LENGTH_CEILING
from nmt.text.specials import EOS, UNK
from nmt.text.tokenizer import Tokenizer

OPEN_PIECES = 3  # maximum of the last word: more ways to spell it cost time and are never likely


class PrefixReader:
    """Reads texts as prefixes of the translations of a model with this target tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._spellings = tokenizer.spellings
        self._sorted = sorted((spelling, piece) for piece, spelling in enumerate(self._spellings) if spelling)

    def read(self, text: str) -> Prefix:
        """Return the prefix that allows all translations beginning with ``text``.

        The tokenizer decides the pieces of all words but the last. The last word may be spelled by other pieces, which
        may also continue it: the text ``ge`` allows ``gehen``. It is complete if the text ends in a space. Raises
        ValueError if the tokenizer cannot spell the text, or if it is too long.
        """
        ids = self._tokenizer.encode(text)
        if UNK in ids:
            raise ValueError("has characters that the target tokenizer cannot spell")
        if len(ids) > MAX_LENGTH_CEILING:
            raise ValueError(f"has {counted(len(ids), 'piece')}, more than {MAX_LENGTH_CEILING:,}")
        if not ids:
            return []
        spelled = [self._spellings[piece] for piece in ids]
        ends_word = text[-1].isspace()
        behind = spelled[-1].endswith(b" ")  # spaces stand behind words
        # Where words begin. For the first piece, spelled[-1] is the last one, which ends with a space.
        starts = [at for at in range(len(ids)) if (spelled[at - 1][-1:] if behind else spelled[at][:1]) == b" "]
        fixed = len(ids) if ends_word else max([len(ids) - OPEN_PIECES, 0, *starts[-1:]])
        tail = b" " if ends_word else b"".join(spelled[fixed:])
        tail = tail[:-1] if behind else tail
        prefix: list[dict[int, int]] = [{piece: at + 1} for at, piece in enumerate(ids[:fixed])]
        prefix += [{} for _ in tail]
        for at in reversed(range(len(tail))):
            prefix[fixed + at] = {
                piece: fixed + at + length
                for piece, length in self._pieces_at(tail[at:])
                if at + length == len(tail) or prefix[fixed + at + length]
            }
        if ends_word and tail:
            prefix[-1][EOS] = len(prefix)
        return prefix

    def _pieces_at(self, rest: bytes) -> Iterator[tuple[int, int]]:
        """Yield the pieces that begin with ``rest`` or spell its beginning, with the number of its bytes they spell."""
        for length in range(1, len(rest) + 1):
            for at in range(bisect_left(self._sorted, (rest[:length],)), len(self._sorted)):
                spelling, piece = self._sorted[at]
                if spelling == rest[:length] or (length == len(rest) and spelling.startswith(rest)):
                    yield piece, length
                else:
                    break
