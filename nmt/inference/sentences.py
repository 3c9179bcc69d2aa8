"""The step that splits a line into sentences, which a model translates one by one, and joins their translations.

The package sentencex finds the ends of sentences, by rules and abbreviations of the language.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nmt.data.words import Span
from nmt.errors import UserError
from nmt.inference.bulk import Failure
from nmt.inference.steps import Step, Steps
from nmt.inference.translation import Translation
from nmt.text.writing import WITHOUT_BLANKS

SPACE = re.compile(r"[\s\ud800-\udfff]")  # and lone surrogates, which sentencex refuses
# Not an end: a full stop of a quotation that Japanese or Korean goes on after
NO_END = re.compile('[.。！？!?](?=["”’」』]+[ぁ-ゖ가-힣])')
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
        if math.prod(map(sum, zip(*shapes, strict=True))) > MAX_WEIGHTS and shapes:
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


def sentence_step(language: str) -> Step:
    """Return the step that translates each sentence of a line on its own."""
    split = splitter(language)

    def step(line: str) -> Steps:
        text = split(line)
        return text.join((yield text.parts))

    return step


def splitter(language: str) -> Callable[[str], SplitText]:
    """Return the function that splits a text of this language, given by a code such as ``en`` or ``pt-BR``.

    A line break ends a sentence. A part without letters, such as ``1.``, belongs to the next sentence, or at the end of
    a line to the one before. Raises UserError if sentencex is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        fix = "install the extra: pip install 'nmt-memory-attention[sentences]'"
        raise UserError(f"search.sentences={language}: the package sentencex is not installed; {fix}") from None
    code = re.split("[-_]", language)[0].lower()

    def split(text: str) -> SplitText:
        spans = list[Span]()
        start = end = 0
        for line in text.splitlines(keepends=True):
            before = len(spans)
            # Other blanks can end sentencex 1.0.32 with a panic, which shows the text on stderr.
            for part in segment(code, NO_END.sub("0", SPACE.sub(" ", line))):
                end += len(part)
                if any(map(str.isalpha, text[start:end])):
                    spans.append((start, end))
                    start = end
            if text[start:end].strip():
                spans.append((spans.pop()[0] if len(spans) > before else start, end))
            start = end
        if len(spans) < 2:
            return SplitText(text, [(0, len(text))])
        return SplitText(text, [_without_blanks(text, *span) for span in spans])

    return split


def _without_blanks(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return end - len(part.lstrip()), start + len(part.rstrip())


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
