"""Choose among translations of a line by minimum Bayes risk, with chrF as utility.

Eikema & Aziz (2020), Is MAP Decoding All You Need?, arXiv 2005.10283; chrF: Popović (2015).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nmt.inference.scores import sentence_chrf
from nmt.inference.translation import Translation


def by_mean_chrf(translations: Sequence[Translation]) -> list[Translation]:
    """Return the different translations, those first whose text has the highest mean chrF against all others.

    Equal texts count as often as they are given, and only the best-scored one is returned. A text is compared with
    every other, so the time is quadratic in the number of different texts.
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
