"""Output lines of translations: plain, with scores, n-best lists, and word alignments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nmt.inference.translation import Translation

SEPARATOR = re.compile(r"\|{3,}")


def output_lines(row: int, best: Translation, *, n_best: int, scores: bool) -> Iterator[str]:
    """Yield the output lines of input line ``row``: one, or several with ``n_best`` above 1.

    A blank or refused input line has a single empty translation, whatever ``n_best`` is. In an n-best list, three or
    more bars in a translation are written as Moses escapes them, because ``|||`` separates the columns.
    """
    if n_best > 1:
        for hypothesis in best.n_best or [best]:
            text = SEPARATOR.sub(lambda bars: "&#124;" * len(bars[0]), hypothesis.text)
            yield f"{row} ||| {text} ||| {hypothesis.score:.6f}"
    elif scores:
        yield f"{best.score:.6f}\t{best.text}"
    else:
        yield best.text


def alignment_lines(translations: Sequence[Translation]) -> list[str]:
    """Return one line per output line: the word alignment in Pharaoh format, empty without an alignment."""
    from nmt.alignment.links import argmax_links, format_pharaoh
    from nmt.alignment.word_weights import word_weights

    return [
        "" if hypothesis.alignment is None else format_pharaoh(argmax_links(word_weights(hypothesis)))
        for best in translations
        for hypothesis in best.n_best or [best]
    ]
