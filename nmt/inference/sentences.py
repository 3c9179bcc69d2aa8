"""The step that splits a line into sentences, which a model translates one by one, and joins their translations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nmt.data.words import Span
from nmt.errors import counted, print_message
from nmt.inference.bulk import Failure
from nmt.inference.steps import Step, Steps
from nmt.inference.translation import Translation
from nmt.text.sentences import splitter
from nmt.text.writing import WITHOUT_BLANKS

MAX_WEIGHTS = 1 << 24  # of the alignment of a line


class SplitText(NamedTuple):
    """A text, and start and end of each of its sentences, without the blanks around them."""

    text: str
    spans: Sequence[Span]

    @property
    def parts(self) -> list[str]:
        """The sentences. A text with at most one sentence is one part, unchanged."""
        return [self.text[start:stop] for start, stop in self.spans]

    def join(self, parts: Sequence[Translation]) -> Translation | Failure:
        """Return the translation of the text, joined from those of its sentences; a failure if it would be too large.

        The n-th best translation joins the n-th of each sentence, or the last one of a sentence with fewer. Scores and
        log-probabilities are sums. The alignment has a block for each sentence, and zeros elsewhere.
        """
        if len(parts) == 1:
            return parts[0]
        shapes = [part.alignment.shape for part in parts if part.alignment is not None]
        if math.prod(map(sum, zip(*shapes, strict=True))) > MAX_WEIGHTS:
            return Failure("its alignment is too large; split it, or translate it without alignments, terms and tags")
        n_best = [
            self._joined([part.n_best[min(rank, len(part.n_best) - 1)] if part.n_best else part for part in parts])
            for rank in range(max(1, *(len(part.n_best) for part in parts)))
        ]
        return replace(n_best[0], n_best=n_best)

    def _joined(self, parts: Sequence[Translation]) -> Translation:
        gaps = [self.text[stop:start] for (_, stop), (start, _) in pairwise(self.spans)]
        text = ""
        starts = list[int]()
        for part, gap in zip(parts, ["", *gaps], strict=True):
            text += _gap(text, gap, part.text)
            starts.append(len(text))
            text += part.text
        joined = Translation(
            text,
            score=sum(part.score for part in parts),
            log_prob=sum(part.log_prob for part in parts),
            source_tokens=[token for part in parts for token in part.source_tokens],
            tokens=[token for part in parts for token in part.tokens],
            inserted=sum(part.inserted for part in parts),
            is_cut=any(part.is_cut for part in parts),
        )
        aligned = [part.alignment for part in parts if part.alignment is not None]
        if not aligned:
            return joined
        sources = [
            (start, it.source_spans, len(it.source_tokens)) for (start, _), it in zip(self.spans, parts, strict=True)
        ]
        targets = [(start, it.spans, len(it.tokens)) for start, it in zip(starts, parts, strict=True)]
        return replace(
            joined,
            source=self.text,
            source_spans=_shifted(sources),
            spans=_shifted(targets),
            token_log_probs=[log_prob for part in parts for log_prob in part.token_log_probs],
            alignment=_blocks(aligned),
        )


def sentence_step(language: str, kept_spans: Callable[[str], Sequence[Span]]) -> Step:
    """Return the step that translates each sentence of a line on its own, and cuts none of its ``kept_spans``."""
    split = splitter(language)

    def step(line: str) -> Steps:
        text = SplitText(line, split(line, kept_spans(line)))
        return text.join((yield text.parts))

    return step


def say_split(lines: int) -> None:
    """Print how many lines were split because the training text had single sentences, if there are any."""
    if lines:
        why = "had several, each translated on its own, as the training text had single ones"
        print_message(f"sentences: {counted(lines, 'line')} {why}; search.sentences=null translates whole lines")


def _gap(before: str, gap: str, after: str) -> str:
    """Return what stands between two translations: the ``gap`` of their sources, but blanks as their script has them.

    Chinese and Japanese have none. Others have a space, also if the source has none, or that of Chinese.
    """
    if not before or not after or len(f"{gap}|".splitlines()) > 1:
        return gap
    if WITHOUT_BLANKS.match(before[-1]) or WITHOUT_BLANKS.match(after):
        return ""
    return gap.replace("\u3000", " ") or " "


def _shifted(parts: Iterable[tuple[int, Sequence[Span], int]]) -> list[Span]:
    """Return the spans of tokens in a joined text. Each part is its start, its spans and the number of its tokens."""
    spans = list[Span]()
    tokens = 0
    for shift, part, count in parts:
        spans += [(-1, -1)] * (tokens - len(spans))  # of </s>
        spans += [(start + shift, stop + shift) if start >= 0 else (-1, -1) for start, stop in part]
        tokens += count
    return spans


def _blocks(alignments: Sequence[np.ndarray]) -> np.ndarray:
    """Return the matrix with these blocks on its diagonal.

    The column of ``</s>``, the last of a block, is kept in the last block only: words of all sentences then share their
    weights in the same way.
    """
    joined = np.zeros([sum(sizes) for sizes in zip(*(block.shape for block in alignments), strict=True)])
    row = column = 0
    for block in alignments:
        joined[row : row + block.shape[0], column : column + block.shape[1] - 1] = block[:, :-1]
        row += block.shape[0]
        column += block.shape[1]
    joined[row - block.shape[0] :, -1] = block[:, -1]
    return joined.astype(block.dtype)
