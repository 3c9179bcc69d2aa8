"""Encode lines into memories, store them in files, and translate from them without the text.

A safetensors file holds one line. Its tensors are ``memory.*`` (the fields of the memory that are not None),
``final.*`` (the final state of the encoder) and, with a trace, ``ids`` (the source pieces) and ``words`` (the first and
the last word of each). Metadata, as text: ``format``, ``kind`` (the attention's class), ``model`` (the model's
fingerprint), ``seed`` (for sampling), ``blank`` (a blank line has no tensors), ``line`` (its number, from 1),
``previous`` (the ``digest`` of the line before; empty for the first) and ``digest`` (fingerprint of tensors and
metadata). Earlier versions wrote no ``line``, ``previous`` and ``words``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from nmt.attention.base import Memory
from nmt.data.words import PieceWords
from nmt.errors import UserError, counted, reason
from nmt.files.checkpoint import read_tensors
from nmt.files.checksum import fingerprint, require_format
from nmt.files.reading import read_text
from nmt.inference.bulk import (
    Failure,
    OnFailure,
    Results,
    SourceTooLong,
    oversized_reason,
    replace_failures,
    run_in_halves,
)
from nmt.inference.forced_decoding import read_targets
from nmt.inference.model_folder import TrainedModel, class_path
from nmt.inference.torch_engine import Source
from nmt.inference.translation import NO_TRANSLATION, Translation
from nmt.inference.translator import Translator, with_source_words
from nmt.model.decoder import map_tensors
from nmt.model.encoder import Final
from nmt.model.seq2seq import Seq2Seq
from nmt.search.constraints import Prefix
from nmt.search.options import REWRITES, SearchOptions
from nmt.search.sampling import sentence_seed
from nmt.search.search import max_rows, search_encoded
from nmt.settings.arguments import brief, iterable, text
from nmt.settings.build import MODEL_GROUPS
from nmt.system.machine import is_out_of_memory
from nmt.text.specials import EOS

BYTES_PER_NUMBER = 36  # of a list


class EncodedLine(NamedTuple):
    """An encoded line. ``source`` is a batch of one sentence; None for a line without pieces, such as a blank one."""

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
            "remove piece_length, or train with an encoder that reads in one direction: encoder=lstm or encoder=gru"
        )
    if not model.attention.streaming:
        raise UserError(
            f"piece_length: {translator.attention.name} attention with this model's settings needs the whole line; "
            f"remove piece_length, or train with an attention that streams, such as {model.attention.streaming_advice}"
        )
    tokenizer = translator.loaded_model.source
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
    if not translator.change_text(line).strip():
        return EncodedLine(None)
    model = translator.trained.model
    device = model.embedding.weight.device
    encoded: tuple[Memory, Final] | None = None
    seed = 0
    length = 0
    all_ids: list[int] = []
    try:
        for ids in _parts(translator, line, piece_length):
            length += len(ids)
            translator.check_source_length(length)
            row = torch.tensor([ids], device=device)
            mask = torch.ones_like(row, dtype=torch.bool)
            encoded = model.encode(row, mask, trace=trace, resumable=model.resumable, before=encoded)
            seed = sentence_seed(ids, seed)
            if trace:
                all_ids += ids
    except Exception as error:
        if (reason := oversized_reason(error, line)) is None:
            raise
        raise SourceTooLong(reason) from error
    if length == 1:  # only </s>: nothing was left, as of invisible characters
        return EncodedLine(None)
    assert encoded is not None
    if not trace:
        return EncodedLine(Source(*encoded), seed)
    tokenizer = translator.loaded_model.source
    words = tokenizer.words if piece_length is None else tokenizer.words_in_parts
    return EncodedLine(Source(*encoded), seed, all_ids, words(translator.change_text(line)))


def _parts(translator: Translator, line: str, size: int | None) -> Iterator[list[int]]:
    """Yield the line's piece ids, ``</s>`` last, in parts of ``size``; in one part if ``size`` is None."""
    if size is None:
        yield translator.encode(line)
        return
    buffer: list[int] = []
    for ids in translator.loaded_model.source.encode_in_parts(translator.change_text(line)):
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
            raise TypeError(f"lines[{row}]={brief(line)}: {type(line).__name__}; give what encode_line returns")
    filled = [row for row, line in enumerate(lines) if line.source is not None]
    sources = [source for line in lines if (source := line.source) is not None]
    options = translator.search_options(options, alignments=alignments)
    for setting in options.settings((*REWRITES, "sentences")):
        key = setting.partition("=")[0]
        raise UserError(f"{setting}: stored memories keep no words; remove {key}, or translate the text")
    if (alignments or options.coverage_penalty) and any(lines[row].ids is None for row in filled):
        option = "alignments" if alignments else f"search.coverage_penalty={options.coverage_penalty:g}"
        raise UserError(f"{option}: these memories keep no trace of their source; encode with trace=true")
    results: Results = [Translation("")] * len(lines)
    for batch in _batches(sources, translator.max_tokens, max_rows(options.with_spares())):
        rows = [filled[index] for index in batch]
        encoded = [lines[row] for row in rows]
        run = partial(_translate_part, translator, encoded, options)
        for row, result in zip(rows, run_in_halves(run, encoded, _too_large), strict=True):
            results[row] = result
    return replace_failures(results, failed=NO_TRANSLATION, on_failure=on_failure)


def _too_large(error: Exception, line: EncodedLine) -> str | None:
    return "not enough RAM to translate this memory" if is_out_of_memory(error) else None


def _translate_part(
    translator: Translator, lines: Sequence[EncodedLine], options: SearchOptions, part: slice, prefix: Prefix = ()
) -> Results:
    lines = lines[part]
    stacked = _stack([source for line in lines if (source := line.source) is not None])
    lengths = stacked.memory.length.cpu().numpy().astype(np.int64)
    engine = translator.trained.engine(trace=False)
    seeds = [line.seed for line in lines]
    searched = search_encoded(engine, stacked, lengths, seeds, options.with_spares(), [prefix] * len(lines))

    def again(blank: Sequence[int]) -> Results:
        return _translate_part(translator, [lines[row] for row in blank], options, slice(None), translator.visible)

    results = translator.to_results([line.ids for line in lines], searched, options, again)
    return [_with_words(translator, *pair) for pair in zip(lines, results, strict=True)]


def _with_words(translator: Translator, line: EncodedLine, result: Translation | Failure) -> Translation | Failure:
    """Return an aligned translation of a line with the word of each source token."""
    if isinstance(result, Failure) or result.alignment is None or line.ids is None:
        return result
    words = translator.loaded_model.source.decoded_words(line.ids[:-1]) if line.words is None else line.words
    return with_source_words(result, words)


@torch.inference_mode()
def score_encoded(translator: Translator, lines: Sequence[EncodedLine], targets: Sequence[str]) -> list[float]:
    """Return the log-probability of one given translation for each encoded line, as ``Translator.score`` does."""
    trained = translator.trained
    device = trained.model.embedding.weight.device
    scores = list[float]()
    for line, target in zip(lines, targets, strict=True):
        source = line.source or trained.engine(trace=False).encode([[EOS]])
        ids = torch.tensor([translator.encode_target(target)], device=device)
        scores += read_targets(trained, source, ids)[0]
    return scores


def ram_bytes(line: EncodedLine) -> int:
    """Return the number of bytes that the tensors of an encoded line, and its lists of numbers, take."""
    storages = dict[int, int]()  # by address: several fields may share one

    def count(field: Tensor) -> Tensor:
        storages[field.untyped_storage().data_ptr()] = field.untyped_storage().nbytes()
        return field

    map_tensors(count, (line.source,))
    numbers = len(line.ids or ()) + 2 * len(line.words or ())
    return sum(storages.values()) + numbers * BYTES_PER_NUMBER


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


FORMAT = 1
COUNT = "count.txt"  # number of files: without it, nobody would notice that the last files are missing
MAX_WORDS = 10**7  # the largest number of a word decides how much is allocated
Shapes = list[tuple[torch.dtype, tuple[int, ...]] | None]


def weights_fingerprint(trained: TrainedModel) -> str:
    """Return the fingerprint of the model's weights, settings and tokenizers."""
    blocks = {name: trained.config[name] for name in MODEL_GROUPS}
    invisible = trained.properties.remove_invisible
    removed = [] if invisible is None else [invisible]  # none in earlier versions
    settings = json.dumps([blocks, trained.config["data"]["lowercase"], trained.longest_source, *removed]).encode()
    tokenizers = [tokenizer.to_bytes() for tokenizer in (trained.source, trained.target)]
    return fingerprint(b"".join([settings, *tokenizers]), trained.model.state_dict())


def save_memory(
    path: Path, line: EncodedLine, *, attention: str, model: str, number: int | None = None, previous: str = ""
) -> str:
    """Write an encoded line to ``path`` and return its digest.

    ``attention`` is its class name, ``model`` the fingerprint of the model. A line of a text has its ``number``,
    from 1, and the digest of the line before. Raises UserError if the file cannot be written.
    """
    tensors: dict[str, Tensor] = {}
    if line.source is not None:
        for part, fields in (("memory", line.source.memory), ("final", line.source.final)):
            for name, field in fields._asdict().items():
                if field is not None:
                    tensors[f"{part}.{name}"] = field.cpu().contiguous()
    if line.ids is not None:
        tensors["ids"] = torch.tensor(line.ids)
    if line.words is not None:
        tensors["words"] = torch.tensor([line.words, line.words.last])
    blank = str(line.source is None).lower()
    metadata = {"format": str(FORMAT), "kind": attention, "model": model, "seed": str(line.seed), "blank": blank}
    if number is not None:
        metadata |= {"line": str(number), "previous": previous}
    digest = fingerprint(metadata, tensors)
    try:
        # save_file would hide the file from other users.
        path.write_bytes(save(tensors, {**metadata, "digest": digest}))
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path}: cannot be written ({reason(error)}); free some space or choose another place"
        ) from None
    return digest


def memory_name(number: int) -> str:
    """Return the file name of line ``number``, counted from 1."""
    return f"{number:08d}.safetensors"


def load_memory(path: Path, trained: TrainedModel, *, model: str) -> EncodedLine:
    """Load an encoded line. Raises UserError if it is damaged or belongs to a model with another fingerprint."""
    metadata, tensors = _read(path)
    attention = type(trained.model.attention).__name__
    require_format(metadata.get("format"), FORMAT, name=path, fix="encode again")
    if metadata.get("kind") != attention:
        raise UserError(
            f"{path}: a memory of {metadata.get('kind')}, but the model has {attention}; use the model that encoded it"
        )
    if metadata.get("model") != model:
        raise UserError(f"{path}: a memory of another model; use the model that encoded it, or encode again")
    if metadata.pop("digest", None) != fingerprint(metadata, tensors):
        raise UserError(f"{path}: damaged (wrong digest); encode again")
    if metadata.get("blank") == "true":
        return EncodedLine(None)
    try:
        memory: Memory = trained.model.attention.memory_type(**_fields(tensors, "memory"))
        final_fields = _fields(tensors, "final")
        final = Final(final_fields["hidden"], final_fields.get("cell"))
        seed = int(metadata["seed"])
        ids = tensors["ids"].tolist() if "ids" in tensors else None
        words = PieceWords(*tensors["words"].tolist()) if "words" in tensors else None
        length = int(memory.length)
        expected = _expected_shapes(trained, length, trace=memory.trace is not None)
        valid = _shapes(memory, final) == expected and 0 <= seed < 2**32
        valid = valid and (ids is None or _are_within(range(len(trained.source)), ids, length))
        for numbers in () if words is None else (words, words.last):
            valid = valid and _are_within(range(-1, MAX_WORDS), numbers, length - 1)
    except (TypeError, KeyError, ValueError, RuntimeError):
        valid = False
    if not valid:
        raise UserError(f"{path}: its tensors or its seed are not what this model writes; encode again")
    device = trained.model.embedding.weight.device
    source: Source = map_tensors(lambda field: field.to(device), Source(memory, final))
    return EncodedLine(source, seed, ids, words)


def memory_files(path: Path) -> list[Path]:
    """Return ``path`` itself if it is a file, or else the folder's files in line order.

    Raises UserError if a file of the folder is missing.
    """
    if not path.is_dir():
        return [path]
    try:
        count = int(read_text(path / COUNT))
    except OSError:
        raise UserError(f"memory={path}: has no {COUNT}; name a folder that nmt-encode wrote") from None
    except ValueError:
        count = -1
    if count < 0:
        raise UserError(f"memory={path}: its {COUNT} holds no number of files; encode again")
    # Look at the existing files only: a damaged count may be a huge number.
    numbers = {int(file.stem) for file in path.glob("*.safetensors") if file.stem.isdecimal()}
    numbers = {number for number in numbers if number and (path / memory_name(number)).is_file()}
    if surplus := sorted(number for number in numbers if number > count):
        raise UserError(
            f"memory={path}: {memory_name(surplus[0])} exceeds the number of files in {COUNT}, {count:,}; encode again"
        )
    if len(numbers) < count:
        first = next(number for number in range(1, count + 1) if number not in numbers)
        missing = f"{count - len(numbers):,} of {counted(count, 'file')} missing, the first is {memory_name(first)}"
        raise UserError(f"memory={path}: {missing}; encode again")
    return [path / memory_name(number) for number in range(1, count + 1)]


def in_line_order(files: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of a folder, each after a check that it holds its own line and that of the same text.

    Raises UserError for a file that was exchanged with another one. Files of earlier versions are not checked, unless
    they are mixed with later ones.
    """
    previous: dict[str, str] = {}
    for number, file in enumerate(files, start=1):
        metadata = _read(file, tensors=False)[0]
        if number > 1 and ("line" in metadata) != ("line" in previous):
            raise UserError(f"{file}: written by another version than {files[number - 2].name}; encode again")
        if "line" in metadata:
            if metadata["line"] != str(number):
                held = f"holds line {metadata['line']:.20}, not line {number}"
                raise UserError(f"{file}: {held}; rename the files back, or encode again")
            if metadata.get("previous") != previous.get("digest", ""):
                before = "first" if number == 1 else f"after {files[number - 2].name}"
                raise UserError(f"{file}: was not encoded {before}, so the two are of other texts; encode again")
        previous = metadata
        yield file


def _read(path: Path, *, tensors: bool = True) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        return read_tensors(path, tensors=tensors)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; name a file or folder that nmt-encode wrote") from None
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path}: cannot be read as a memory ({reason(error)}); it may be truncated, encode again"
        ) from None


def _fields(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def _shapes(memory: Memory, final: Final) -> Shapes:
    return [None if field is None else (field.dtype, tuple(field.shape)) for field in (*memory, *final)]


@lru_cache(maxsize=2)  # every file of a model needs the same result
@torch.inference_mode()
def _example_shapes(model: Seq2Seq, trace: bool, dtype: torch.dtype) -> tuple[Shapes, Shapes]:
    """Return the shapes that the model writes for a source of one piece, and of two.

    ``dtype`` is the type of the model's weights, which the cache has to tell apart.
    """
    device = model.embedding.weight.device

    def shapes(length: int) -> Shapes:
        ids = torch.zeros(1, length, dtype=torch.int64, device=device)
        return _shapes(
            *model.encode(ids, torch.ones_like(ids, dtype=torch.bool), trace=trace, resumable=model.resumable)
        )

    return shapes(1), shapes(2)


def _expected_shapes(trained: TrainedModel, length: int, *, trace: bool) -> Shapes:
    """Return the shapes that the model writes for ``length`` source pieces: every size is linear in the length."""
    if length < 1:
        raise ValueError("a source has at least </s>")
    first, second = _example_shapes(trained.model, trace, trained.model.embedding.weight.dtype)
    return [
        None
        if a is None or b is None
        else (a[0], tuple(x + (length - 1) * (y - x) for x, y in zip(a[1], b[1], strict=True)))
        for a, b in zip(first, second, strict=True)
    ]


def _are_within(allowed: range, numbers: Sequence[int], count: int) -> bool:
    """Return whether these are ``count`` whole numbers that are ``allowed``."""
    return len(numbers) == count and all(type(number) is int and number in allowed for number in numbers)
