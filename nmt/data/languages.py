"""Language identification with the package py3langid, an extra: naive Bayes over byte n-grams.

Lui & Baldwin (2012), langid.py: An Off-the-shelf Language Identification Tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# A line is foreign if another language is this many times as probable. Most names and very short lines stay.
RATIO = 10.0


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
        fix = "pip install 'nmt-memory-attention[langid]'"
        yield f"{setting}: the package py3langid is not installed; install it with {fix}"
        return
    if unknown := [language for language in languages if language not in known]:
        yield f"{setting}: py3langid does not know {', '.join(unknown)}; give ISO 639 codes such as en, de, zh"


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
