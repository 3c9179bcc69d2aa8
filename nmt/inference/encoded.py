"""Source lines as a model remembers them: written once, read as often as one likes, without their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.attention.base import Memory
from nmt.errors import UserError
from nmt.inference.torch_engine import Source
from nmt.inference.translator import Translation, Translator
from nmt.model.encoder import Final
from nmt.search.options import SearchOptions
from nmt.search.sampling import sentence_seed
from nmt.search.search import search_encoded
from nmt.text.specials import EOS


class EncodedLine(NamedTuple):
    """One line. ``source`` is a batch of one; None for a blank line."""

    source: Source | None
    seed: int = 0
    """What sampling would have drawn from the line's ids."""
    ids: list[int] | None = None
    """Source piece ids with ``</s>``: kept with a trace only, to name what an alignment points to."""


def refuse_parts(translator: Translator) -> None:
    """Raises UserError where the model cannot read a line part by part."""
    model = translator.trained.model
    if model.encoder.bidirectional:
        raise UserError(
            "piece_length: this model's encoder reads in both directions, so a line has to be whole; "
            "leave piece_length away, or train with encoder=lstm"
        )
    if not model.attention.streaming:
        remedy = "attention.renormalise=null" if hasattr(model.attention, "renormalise") else "attention=covariance"
        raise UserError(
            f"piece_length: {translator.attention.name} attention with this model's settings must see a line as a "
            f"whole; leave piece_length away, or train with one that streams, such as {remedy}"
        )


@torch.inference_mode()
def encode_line(
    translator: Translator, line: str, *, piece_length: int | None = None, trace: bool = False
) -> EncodedLine:
    """The line as the model remembers it; with ``trace``, such that alignments can be read off.

    ``piece_length`` source pieces are encoded at a time: what a line of any length then needs is its text and its
    memory. The result is the same but for rounding. Raises SourceTooLong where the attention cannot hold the line.
    """
    if not line.strip():
        return EncodedLine(None)
    model = translator.trained.model
    device = model.embedding.weight.device
    before: tuple[Memory, Final] | None = None
    seed, kept, length = 0, list[int](), 0
    for ids in _parts(translator, line, piece_length):
        length += len(ids)
        translator.refuse_longer(length)
        row = torch.tensor([ids], device=device)
        before = model.encode(row, torch.ones_like(row, dtype=torch.bool), trace=trace, resumable=True, before=before)
        seed = sentence_seed(ids, seed)
        if trace:
            kept += ids
    assert before is not None
    return EncodedLine(Source(*before), seed, kept if trace else None)


def _parts(translator: Translator, line: str, size: int | None) -> Iterator[list[int]]:
    """The ids of the line, ``</s>`` last, so many at a time; all at once for None."""
    if size is None:
        yield translator.encode(line)
        return
    waiting: list[int] = []
    for ids in translator.runtime.source.encode_in_parts(translator.case(line)):
        waiting += ids
        while len(waiting) > size:
            yield waiting[:size]
            del waiting[:size]
    for first in range(0, len(waiting) + 1, size):
        yield [*waiting, EOS][first : first + size]


def translate_encoded(
    translator: Translator,
    lines: Sequence[EncodedLine],
    options: SearchOptions | None = None,
    *,
    alignments: bool = False,
) -> list[Translation]:
    """As ``Translator.translate``, from memories alone. Alignments and coverage need lines encoded with ``trace``."""
    filled = [row for row, line in enumerate(lines) if line.source is not None]
    sources = [source for line in lines if (source := line.source) is not None]
    options = translator.searchable(options, alignments=alignments)
    if (alignments or options.coverage_penalty) and any(lines[row].ids is None for row in filled):
        what = "alignments" if alignments else f"search.coverage_penalty={options.coverage_penalty:g}"
        raise UserError(f"{what}: these memories keep no trace of their source; encode with trace=true")
    engine = translator.runtime.engine(trace=False)
    found: list[Translation] = [Translation("")] * len(lines)
    for batch in _batches(sources, translator.max_tokens):
        rows = [filled[at] for at in batch]
        together = _stack([sources[at] for at in batch])
        lengths = together.memory.length.cpu().numpy().astype(np.int64)
        hypotheses = search_encoded(engine, together, lengths, [lines[row].seed for row in rows], options)
        for row, several in zip(rows, hypotheses, strict=True):
            found[row] = translator.translation(lines[row].ids, several)
    return found


def _batches(sources: Sequence[Source], most: int) -> Iterator[list[int]]:
    """Indices of sources of one shape, up to ``most`` slots together: whatever grows with a line is never filled up."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for at, source in enumerate(sources):
        alike.setdefault(tuple(None if field is None else field.shape for field in source.memory), []).append(at)
    for group in alike.values():
        size = max(1, most // max(1, sources[group[0]].memory.slots.shape[1]))
        yield from (group[first : first + size] for first in range(0, len(group), size))


def _stack(sources: Sequence[Source]) -> Source:
    memories, finals = zip(*sources, strict=True)
    memory = Memory._make(map(_together, zip(*memories, strict=True)))
    return Source(memory, Final._make(map(_together, zip(*finals, strict=True))))


def _together(fields: Sequence[Tensor | None]) -> Tensor | None:
    there = [field for field in fields if field is not None]
    return torch.cat(there) if there else None
