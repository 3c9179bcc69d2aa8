"""Reasons to drop a training pair; languages are identified with the package py3langid, an extra.

Lui & Baldwin (2012), langid.py: An Off-the-shelf Language Identification Tool, naive Bayes over byte n-grams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from nmt.data.invisible import Invisible
from nmt.data.links import MissingPair, Pair
from nmt.errors import counted
from nmt.settings.arguments import AtLeast, Count

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# A line is foreign if another language is this many times as probable. Most names and very short lines stay.
RATIO = 10.0
Duplicates = Literal["exact", "near"]


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The settings of every data source: changes of all text, and the filters of the training part.

    ``max_length`` is the maximum length of a side in pieces, without ``</s>``. ``max_ratio`` is the maximum ratio of
    the longer to the shorter side, in pieces. ``languages`` are the codes of both sides; lines in other languages are
    dropped.
    """

    lowercase: bool = False
    remove_invisible: Invisible | None = "bom"
    max_length: Count | None = None
    max_ratio: Annotated[float, AtLeast(1)] | None = None
    duplicates: Duplicates | None = None
    languages: tuple[str, str] | None = None

    def reason(self, pair: Pair, source: int, target: int) -> str | None:
        """Return the reason to drop a pair whose sides have ``source`` and ``target`` pieces, or None to keep it."""
        if isinstance(pair, MissingPair):
            return "a text is missing"
        if not (source and target):
            return "empty source" if source == 0 else "empty target"
        if self.max_length is not None and max(source, target) > self.max_length:
            return f"longer than {counted(self.max_length, 'piece')}"
        if self.max_ratio is not None and max(source, target) > self.max_ratio * min(source, target):
            return f"length ratio over {self.max_ratio:g}"
        if self.languages is not None:
            for name, line, language in zip(("source", "target"), pair[:2], self.languages, strict=True):
                if is_foreign(line, language):
                    return f"{name} not in language {language}"
        return None


class TestFilters(Filters):
    """The filters of a validation or test set, which keeps all pairs that have two texts, even empty ones."""

    def reason(self, pair: Pair, source: int, target: int) -> str | None:
        return super().reason(pair, source, target) if isinstance(pair, MissingPair) else None


NO_FILTERS = Filters()
TEST_FILTERS = TestFilters()


def is_foreign(line: str, language: str) -> bool:
    """Return whether the line is in another language than ``language``, a code such as ``en``."""
    ranking = _identifier().rank(line)
    return bool(ranking[0][1] > RATIO * dict(ranking)[language])


def identify(text: str, languages: Sequence[str]) -> list[tuple[str, float]]:
    """Return the probability of each of these languages, if the text is in one of them, the likeliest first.

    Raises KeyError for a language that py3langid does not know, and ImportError without it.
    """
    probabilities = dict(_identifier().rank(text))
    chosen = {language: float(probabilities[language]) for language in languages}
    total = sum(chosen.values()) or 1.0
    return sorted(((language, share / total) for language, share in chosen.items()), key=lambda item: -item[1])


def language_problems(languages: Sequence[str]) -> Iterator[str]:
    """Yield a problem if ``data.languages`` cannot be identified: py3langid is missing, or does not know them."""
    setting = f"data.languages=[{','.join(languages)}]"
    try:
        known = _identifier().labels
    except ImportError:
        yield f"{setting}: the package py3langid is not installed; run pip install py3langid"
        return
    if unknown := [language for language in languages if language not in known]:
        yield f"{setting}: py3langid does not know {', '.join(unknown)}; give ISO 639 codes such as en, de, zh"


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
