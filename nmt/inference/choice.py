"""The step that chooses among the translations of a line, after words in them were replaced.

Minimum Bayes risk with chrF as utility: Eikema & Aziz (2020), Is MAP Decoding All You Need?, arXiv 2005.10283; chrF:
Popović (2015).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from nmt.inference.scores import sentence_chrf
from nmt.inference.steps import Step, Steps
from nmt.inference.translation import Translation
from nmt.search.options import SearchOptions


def choice_step(options: SearchOptions) -> Step:
    """Return the step that keeps the translations that ``options`` ask for."""

    def step(line: str) -> Steps:
        [translation] = yield [line]
        return chosen(translation, options)

    return step


def chosen(translation: Translation, options: SearchOptions) -> Translation:
    """Return the translation with all its samples, or with the best ``n_best`` of different texts."""
    best = translation.n_best
    if options.method != "sample":
        best = _with_different_texts(best)
    if options.mbr is not None:
        best = by_mean_chrf(best)
    return replace(best[0], n_best=best[: options.n_best]) if best else translation


def _with_different_texts(translations: Sequence[Translation]) -> list[Translation]:
    """Return the first translation of each text."""
    first = dict[str, Translation]()
    for translation in translations:
        first.setdefault(translation.text, translation)
    return [*first.values()]


def by_mean_chrf(translations: Sequence[Translation]) -> list[Translation]:
    """Return the translations with different texts, sorted by the mean chrF of a text against all others.

    A text counts as often as it occurs in ``translations``. The time is quadratic in the number of different texts.
    """
    chrf = sentence_chrf()
    counts = Counter(translation.text for translation in translations)

    def utility(translation: Translation) -> float:
        """Return the sum of its chrF against all others, an equal text having 100."""
        return sum(
            (chrf(translation.text, other) if other != translation.text else 100.0)
            * (count - (other == translation.text))
            for other, count in counts.items()
        )

    return sorted(_with_different_texts(translations), key=utility, reverse=True)
