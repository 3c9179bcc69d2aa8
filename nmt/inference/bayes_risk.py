"""Choose among translations of a line by minimum Bayes risk, with chrF as utility.

Eikema & Aziz (2020), Is MAP Decoding All You Need?, arXiv 2005.10283; chrF: Popović (2015).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nmt.inference.scores import sentence_chrf
from nmt.inference.translation import Translation


def by_mean_chrf(translations: Sequence[Translation]) -> list[Translation]:
    """Return the translations with different texts, sorted by the mean chrF of a text against all others.

    A text counts as often as it occurs in ``translations``, and its first translation is returned. The time is
    quadratic in the number of different texts.
    """
    chrf = sentence_chrf()
    counts = Counter(translation.text for translation in translations)
    first: dict[str, Translation] = {}
    for translation in translations:
        first.setdefault(translation.text, translation)

    def utility(text: str) -> float:
        total = 100.0 * (counts[text] - 1)
        for other, count in counts.items():
            if other != text:
                total += count * chrf(text, other)
        return total

    return sorted(first.values(), key=lambda translation: -utility(translation.text))
