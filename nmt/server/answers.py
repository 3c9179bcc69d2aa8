"""Translations as JSON: texts, scores, tokens, words and links."""

from __future__ import annotations

import math
from typing import Any

from nmt.alignment.word_weights import argmax_links, word_weights
from nmt.inference.translation import Translation


def described(best: Translation, count: int) -> dict[str, Any]:
    """Return the best translation of a line as JSON, with up to ``count`` in ``n_best`` if that is above 1."""
    answer = _described(best)
    if count > 1:
        answer["n_best"] = [_described(translation) for translation in (best.n_best or [best])[:count]]
    return answer


def _described(translation: Translation) -> dict[str, Any]:
    """Return text, scores and tokens; links (source word, target word) if the translation has an alignment."""
    answer: dict[str, Any] = {
        "text": translation.text,
        "score": _finite(translation.score),
        "log_prob": _finite(translation.log_prob),
        "source_tokens": translation.source_tokens,
        "tokens": translation.tokens,
    }
    if translation.alignment is not None:
        answer["source_words"] = [*translation.source_words]
        answer["target_words"] = [*translation.target_words]
        answer["links"] = [list(link) for link in sorted(argmax_links(word_weights(translation)))]
    return answer


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
