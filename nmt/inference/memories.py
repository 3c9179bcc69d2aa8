"""Encode lines into memories, and translate from memories without the text."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.attention.base import Memory
from nmt.data.words import PieceWords
from nmt.errors import UserError
from nmt.inference.model_folder import class_path
from nmt.inference.oversized import Failure, OnFailure, SourceTooLong, oversized_reason, report, run_in_halves
from nmt.inference.torch_engine import Source
from nmt.inference.translation import NO_TRANSLATION, SCORES_NOT_FINITE, Translation
from nmt.inference.translator import Translator, with_source_words
from nmt.model.encoder import Final
from nmt.search.hypothesis import Hypothesis
from nmt.search.options import SearchOptions
from nmt.search.sampling import sentence_seed
from nmt.search.search import max_rows, search_encoded
from nmt.settings.arguments import iterable, text
from nmt.system.machine import is_out_of_memory
from nmt.text.specials import EOS


class EncodedLine(NamedTuple):
    """An encoded line. ``source`` is a batch of one sentence; None for a blank line."""

    source: Source | None
    seed: int = 0
    """Seed for sampling, computed from the line's piece ids."""
    ids: list[int] | None = None
    """Source piece ids with ``</s>``, which name the columns of an alignment. Stored only with a trace."""
    words: PieceWords | None = None
    """The word of the line that each source piece belongs to. Stored only with a trace; earlier versions did not."""


def require_streaming(translator: Translator) -> None:
    """Raise UserError if the model cannot encode a line part by part."""
    model = translator.trained.model
    if not model.resumable:
        raise UserError(
            f"piece_length: this model's encoder, {class_path(model.encoder)}, needs the whole line; "
            "remove piece_length, or train with encoder=lstm"
        )
    if not model.attention.streaming:
        raise UserError(
            f"piece_length: {translator.attention.name} attention with this model's settings needs the whole line; "
            f"remove piece_length, or train with an attention that streams, such as {model.attention.streaming_advice}"
        )
    tokenizer = translator.runtime.source
    if tokenizer.encode("a a") != 2 * tokenizer.encode("a"):
        raise UserError(
            "piece_length: this model's source tokenizer splits the first word of a line differently, because it was "
            "trained with add_dummy_prefix=false; remove piece_length"
        )


@torch.inference_mode()
def encode_line(
    translator: Translator, line: str, *, piece_length: int | None = None, trace: bool = False
) -> EncodedLine:
    """Encode one line into a memory. Alignments of its translations need ``trace``.

    With ``piece_length``, that many source pieces are encoded at a time. The result is equal up to rounding, but only
    the text and the memory have to fit into RAM. Raises SourceTooLong if the attention or the machine's memory cannot
    hold the line.
    """
    line = text(line, "line")
    try:
        return _encode_line(translator, line, piece_length, trace)
    except Exception as error:
        if (reason := oversized_reason(error, line)) is None:
            raise
        raise SourceTooLong(reason) from error


def _encode_line(translator: Translator, line: str, piece_length: int | None, trace: bool) -> EncodedLine:
    if not translator.change_text(line).strip():
        return EncodedLine(None)
    model = translator.trained.model
    device = model.embedding.weight.device
    encoded: tuple[Memory, Final] | None = None
    seed, all_ids, length = 0, list[int](), 0
    for ids in _parts(translator, line, piece_length):
        length += len(ids)
        translator.check_source_length(length)
        row = torch.tensor([ids], device=device)
        mask = torch.ones_like(row, dtype=torch.bool)
        encoded = model.encode(row, mask, trace=trace, resumable=model.resumable, before=encoded)
        seed = sentence_seed(ids, seed)
        if trace:
            all_ids += ids
    assert encoded is not None
    if not trace:
        return EncodedLine(Source(*encoded), seed)
    words = translator.runtime.source.words if piece_length is None else translator.runtime.source.words_in_parts
    return EncodedLine(Source(*encoded), seed, all_ids, words(translator.change_text(line)))


def _parts(translator: Translator, line: str, size: int | None) -> Iterator[list[int]]:
    """Yield the line's piece ids, ``</s>`` last, in parts of ``size``; in one part if ``size`` is None."""
    if size is None:
        yield translator.encode(line)
        return
    buffer: list[int] = []
    for ids in translator.runtime.source.encode_in_parts(translator.change_text(line)):
        buffer += ids
        while len(buffer) > size:
            yield buffer[:size]
            del buffer[:size]
    for first in range(0, len(buffer) + 1, size):
        yield [*buffer, EOS][first : first + size]


def translate_encoded(
    translator: Translator,
    lines: Sequence[EncodedLine],
    options: SearchOptions | None = None,
    *,
    alignments: bool = False,
    on_failure: OnFailure | None = None,
) -> list[Translation]:
    """Translate encoded lines with torch, as ``Translator.translate`` translates text.

    A memory that does not fit into RAM, or whose scores are not finite, raises UserError. With ``on_failure``, it has
    an empty translation instead. Alignments and the coverage penalty need lines that were encoded with ``trace``;
    raises UserError otherwise.
    """
    lines = list(iterable(lines, "lines", what="encoded lines"))
    for row, line in enumerate(lines):
        if not isinstance(line, EncodedLine):
            raise TypeError(f"lines[{row}]={reprlib.repr(line)}: {type(line).__name__}; give what encode_line returns")
    filled = [row for row, line in enumerate(lines) if line.source is not None]
    sources = [source for line in lines if (source := line.source) is not None]
    options = translator.search_options(options, alignments=alignments)
    if (alignments or options.coverage_penalty) and any(lines[row].ids is None for row in filled):
        option = "alignments" if alignments else f"search.coverage_penalty={options.coverage_penalty:g}"
        raise UserError(f"{option}: these memories keep no trace of their source; encode with trace=true")
    results: list[Translation | Failure] = [Translation("")] * len(lines)
    for batch in _batches(sources, translator.max_tokens, max_rows(options)):
        rows = [filled[index] for index in batch]
        encoded = [lines[row] for row in rows]
        run = partial(_translate_part, translator, encoded, options)
        for row, result in zip(rows, run_in_halves(run, encoded, _oversized_reason), strict=True):
            results[row] = result
    return report(results, failed=NO_TRANSLATION, on_failure=on_failure)


def _oversized_reason(error: Exception, line: EncodedLine) -> str | None:
    return "not enough RAM to translate this memory" if is_out_of_memory(error) else None


def _translate_part(
    translator: Translator, lines: Sequence[EncodedLine], options: SearchOptions, part: slice
) -> list[Translation | Failure]:
    lines = lines[part]
    stacked = _stack([source for line in lines if (source := line.source) is not None])
    lengths = stacked.memory.length.cpu().numpy().astype(np.int64)
    engine = translator.trained.engine(trace=False)
    results = search_encoded(engine, stacked, lengths, [line.seed for line in lines], options.with_spares())
    return [
        _to_translation(translator, line, hypotheses, options) if hypotheses else Failure(SCORES_NOT_FINITE)
        for line, hypotheses in zip(lines, results, strict=True)
    ]


def _to_translation(
    translator: Translator, line: EncodedLine, hypotheses: Sequence[Hypothesis], options: SearchOptions
) -> Translation:
    translation = translator.to_translation(line.ids, hypotheses, options)
    if translation.alignment is None or line.ids is None:
        return translation
    words = translator.runtime.source.decoded_words(line.ids[:-1]) if line.words is None else line.words
    return with_source_words(translation, words)


def _batches(sources: Sequence[Source], max_slots: int, max_rows: int) -> Iterator[list[int]]:
    """Yield batches of indices. All sources of a batch have equal shapes, so nothing is padded.

    A batch has at most ``max_rows`` sources, with ``max_slots`` slots in total, or one source.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, source in enumerate(sources):
        shapes = tuple(None if field is None else field.shape for field in source.memory)
        groups.setdefault(shapes, []).append(index)
    for group in groups.values():
        size = min(max_rows, max(1, max_slots // max(1, sources[group[0]].memory.slots.shape[1])))
        yield from (group[first : first + size] for first in range(0, len(group), size))


def _stack(sources: Sequence[Source]) -> Source:
    memories, finals = zip(*sources, strict=True)
    memory = memories[0]._make(map(_concatenate, zip(*memories, strict=True)))
    return Source(memory, Final._make(map(_concatenate, zip(*finals, strict=True))))


def _concatenate(fields: Sequence[Tensor | None]) -> Tensor | None:
    tensors = [field for field in fields if field is not None]
    return torch.cat(tensors) if tensors else None
