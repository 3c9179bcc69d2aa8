"""Encode lines into memories, save them in a file, and translate from them without the text.

A safetensors file holds any number of lines. The tensors of line N are ``N.memory.*`` (the fields of the memory that
are not None) and ``N.final.*`` (the final state of the encoder). A blank line has none. The metadata are ``format``,
``lines`` (a JSON list with the seed for sampling and, with a trace, the text of each), ``model`` (the fingerprint of
the model) and ``digest`` (that of the tensors).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from nmt.attention.base import Memory
from nmt.errors import UserError, reason
from nmt.files.atomic import replace_file
from nmt.files.checkpoint import read_tensors
from nmt.files.checksum import fingerprint, require_format
from nmt.inference.bulk import Failure, OnFailure, Results, replace_failures
from nmt.inference.model_folder import TrainedModel, pack
from nmt.inference.torch_engine import Source
from nmt.inference.translation import NO_TRANSLATION, Translation, chosen
from nmt.inference.translator import Translator
from nmt.model.encoder import Final
from nmt.search.constraints import Prefix
from nmt.search.options import REWRITES, SearchOptions
from nmt.search.search import max_rows, search_encoded, sentence_seed

FORMAT = 3


class EncodedLine(NamedTuple):
    """An encoded line. ``source`` is a batch of one sentence; None for a line without pieces, such as a blank one."""

    source: Source | None
    seed: int = 0
    """Seed for sampling, computed from the line's piece ids."""
    line: str | None = None
    """The line, which alignments link to. Stored only with a trace."""


@torch.inference_mode()
def encode_line(
    translator: Translator, line: str, *, piece_length: int | None = None, trace: bool = False
) -> EncodedLine:
    """Encode one line into a memory. Alignments of its translations need ``trace``.

    With ``piece_length``, that many source pieces are encoded at a time. The result is equal up to rounding, but the
    encoder's states need not fit into RAM together. Raises SourceTooLong if the attention cannot hold the line, and
    UserError if the model cannot encode parts.
    """
    model = translator.trained.model
    if piece_length is not None and not (model.resumable and model.attention.streaming):
        raise UserError(
            "piece_length: this model needs the whole line; remove piece_length, or train with an encoder that reads "
            "in one direction (encoder=lstm, encoder=gru) and an attention that streams"
        )
    ids = translator.encode(line)
    if len(ids) == 1:  # only </s>
        return EncodedLine(None)
    encoded: Any = None
    size = piece_length or len(ids)
    for first in range(0, len(ids), size):
        row = torch.tensor([ids[first : first + size]], device=_device(translator.trained))
        mask = torch.ones_like(row, dtype=torch.bool)
        encoded = model.encode(row, mask, trace=trace, before=encoded)
    return EncodedLine(Source(*encoded), sentence_seed(ids), translator.visible(line) if trace else None)


def translate_encoded(
    translator: Translator,
    lines: Sequence[EncodedLine],
    options: SearchOptions | None = None,
    *,
    alignments: bool = False,
    on_failure: OnFailure | None = None,
) -> list[Translation]:
    """Translate encoded lines with torch, as ``Translator.translate`` translates text.

    Lines whose scores are not finite raise UserError; with ``on_failure``, they have an empty translation instead.
    Alignments and the coverage penalty need lines that were encoded with ``trace``; raises UserError otherwise.
    """
    options = translator.search_options(options, alignments=alignments)
    for setting in options.settings((*REWRITES, "sentences")):
        key = setting.partition("=")[0]
        raise UserError(f"{setting}: stored memories keep no words; remove {key}, or translate the text")
    filled = [row for row, line in enumerate(lines) if line.source is not None]
    if (alignments or options.coverage_penalty) and any(lines[row].line is None for row in filled):
        option = "alignments" if alignments else f"search.coverage_penalty={options.coverage_penalty:g}"
        raise UserError(f"{option}: these memories keep no trace of their source; encode with trace=True")
    results: Results = [Translation("")] * len(lines)
    by_shape: dict[object, list[int]] = {}  # so that nothing is padded
    for row in filled:
        shapes = tuple((name, field.shape) for name, field in _fields(lines[row]).items())
        by_shape.setdefault(shapes, []).append(row)
    size = max_rows(options.with_spares())
    for rows in (group[first : first + size] for group in by_shape.values() for first in range(0, len(group), size)):
        for row, result in zip(rows, _decode(translator, [lines[row] for row in rows], options), strict=True):
            results[row] = result
    return replace_failures(results, failed=NO_TRANSLATION, on_failure=on_failure)


def _decode(
    translator: Translator, lines: Sequence[EncodedLine], options: SearchOptions, prefixes: Sequence[Prefix] = ()
) -> Results:
    """Translate one batch of lines whose memories have equal shapes."""
    source = _stack([line.source for line in lines])
    lengths = source.memory.length.cpu().numpy().astype(np.int64)
    seeds = [line.seed for line in lines]
    engine = translator.trained.engine(trace=False)
    searched = search_encoded(engine, source, lengths, seeds, options.with_spares(), prefixes)
    results: Results = []
    for line, length, hypotheses in zip(lines, lengths, searched, strict=True):
        ids = None if line.line is None else translator.encode(line.line)
        result = translator.to_translation(ids, hypotheses, options)
        if isinstance(result, Failure):
            results.append(result)
        elif result.text or not options.min_length:
            best = chosen(result, options)
            results.append(best if line.line is None else translator.with_source(best, line.line))
        else:
            prefix, limited = translator.visible_start(options, int(length))
            results += _decode(translator, [line], limited, [prefix])
    return results


def _stack(sources: Sequence[Any]) -> Source:
    parts = zip(*sources, strict=True)  # memories, and final states
    return Source._make(same[0]._make(map(_concatenate, zip(*same, strict=True))) for same in parts)


def _concatenate(fields: tuple[Any, ...]) -> Tensor | None:
    return None if fields[0] is None else torch.cat(fields)


def _fields(line: EncodedLine) -> dict[str, Tensor]:
    """Return the tensors of the line's memory and final state by their names in a file."""
    parts = {} if line.source is None else line.source._asdict()
    return {
        f"{part}.{name}": field
        for part, fields in parts.items()
        for name, field in fields._asdict().items()
        if field is not None
    }


def _model_fingerprint(trained: TrainedModel) -> str:
    """Return the fingerprint of the model's weights, settings and tokenizers."""
    packed = pack(trained)
    tensors = {**packed.pop("tokenizers"), **packed.pop("weights")}
    return fingerprint(json.dumps(packed, sort_keys=True).encode(), tensors)


def save_memories(path: str | Path, lines: Sequence[EncodedLine], translator: Translator) -> None:
    """Write the lines that ``translator`` encoded to ``path``, atomically."""
    tensors = {
        f"{number}.{name}": tensor.cpu().contiguous()
        for number, line in enumerate(lines)
        for name, tensor in _fields(line).items()
    }
    metadata = {
        "format": str(FORMAT),
        "lines": json.dumps([(line.seed, line.line) for line in lines]),
        "model": _model_fingerprint(translator.trained),
        "digest": fingerprint(b"", tensors),
    }
    with replace_file(Path(path)) as file:
        file.write(save(tensors, metadata))


def load_memories(path: str | Path, translator: Translator) -> list[EncodedLine]:
    """Load encoded lines. Raises UserError if the file is damaged or belongs to another model."""
    trained = translator.trained
    try:
        metadata, tensors = read_tensors(Path(path))
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: cannot be read as memories ({reason(error)}); encode again") from None
    require_format(metadata.get("format"), FORMAT, name=path, fix="encode again")
    if metadata.get("model") != _model_fingerprint(trained):
        raise UserError(f"{path}: of another model; use the model that encoded these lines, or encode again")
    if metadata.get("digest") != fingerprint(b"", tensors):
        raise UserError(f"{path}: damaged (wrong digest); encode again")
    parts: dict[int, dict[str, dict[str, Tensor]]] = {}
    try:
        for name, tensor in tensors.items():
            number, part, field = name.split(".")
            parts.setdefault(int(number), {}).setdefault(part, {})[field] = tensor.to(_device(trained))
        return [
            EncodedLine(_source(**parts[number]) if number in parts else None, seed, line)
            for number, (seed, line) in enumerate(json.loads(metadata["lines"]))
        ]
    except (KeyError, TypeError, ValueError) as error:  # a digest can be forged
        raise UserError(f"{path}: holds no encoded lines ({reason(error)}); encode again") from None


def _source(memory: dict[str, Tensor], final: dict[str, Tensor]) -> Source:
    return Source(Memory(**memory), Final(**final))


def _device(trained: TrainedModel) -> torch.device:
    return trained.model.embedding.weight.device
