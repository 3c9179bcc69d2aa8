"""Warn about words without links and weights, because the tokenizer removes all their characters."""

from __future__ import annotations

from collections.abc import Mapping

from nmt.errors import counted, print_message


class LostWords:
    """Collects the words that a tokenizer removes, to warn once about each file of ``places``, a side's file."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = places
        self._words: dict[str, dict[int, list[str]]] = {side: {} for side in places}

    def add(self, row: int, side: str, words: list[str], *, first: int = 0) -> None:
        """Add the lost ``words`` of a line; ``first`` is the number of lines before the row 0."""
        self._words[side][first + row] = words

    def warn(self) -> None:
        """Print a warning to stderr for each file that has such words."""
        for side, place in self.places.items():
            if lines := self._words[side]:
                count, (row, words) = sum(map(len, lines.values())), min(lines.items())
                print_message(
                    f"warning: {place}:{row + 1}: the tokenizer removes the word {words[0]!r:.60}, so it has no link"
                    f" and no weight; {counted(count, 'such word')} in {counted(len(lines), 'line')}"
                )
