"""Read and write encoded lines: one safetensors file per line, which can be translated without the text.

Tensors: ``memory.*`` (the fields of the memory that are not None), ``final.*`` (the final state of the encoder) and,
with a trace, ``ids`` (the source pieces) and ``words`` (the first and the last word of each). Metadata, as text:
``format``, ``kind`` (the attention's class), ``model`` (the model's fingerprint), ``seed`` (for sampling), ``blank`` (a
blank line has no tensors), ``line`` (its number, from 1), ``previous`` (the ``digest`` of the line before; empty for
the first) and ``digest`` (fingerprint of tensors and metadata). Earlier versions wrote no ``line`` and ``previous``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nmt.attention.base import Memory
from nmt.data.words import PieceWords
from nmt.errors import UserError, counted, reason
from nmt.files.checksum import fingerprint, require_format
from nmt.files.reading import read_text, require_regular
from nmt.inference.memories import EncodedLine
from nmt.inference.model_folder import TrainedModel
from nmt.inference.torch_engine import Source
from nmt.model.encoder import Final
from nmt.model.fields import map_tensors
from nmt.model.seq2seq import Seq2Seq

FORMAT = 1
COUNT = "count.txt"  # number of files: without it, nobody would notice that the last files are missing
MAX_WORDS = 10**7  # the largest number of a word decides how much is allocated
Shapes = list[tuple[torch.dtype, tuple[int, ...]] | None]


def weights_fingerprint(trained: TrainedModel) -> str:
    """Return the fingerprint of the model's weights, settings and tokenizers."""
    blocks = {name: trained.config[name] for name in ("embeddings", "encoder", "attention", "decoder")}
    removed = [] if trained.remove_invisible is None else [trained.remove_invisible]  # none in earlier versions
    settings = json.dumps([blocks, trained.config["data"]["lowercase"], trained.longest_source, *removed]).encode()
    tokenizers = [tokenizer.to_bytes() for tokenizer in (trained.source, trained.target)]
    return fingerprint(b"".join([settings, *tokenizers]), trained.model.state_dict())


def save_memory(
    path: Path, line: EncodedLine, *, kind: str, model: str, number: int | None = None, previous: str = ""
) -> str:
    """Write an encoded line to ``path`` and return its digest.

    ``kind`` is the attention's class name, ``model`` the fingerprint of the model. A line of a text has its ``number``,
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
    metadata = {"format": str(FORMAT), "kind": kind, "model": model, "seed": str(line.seed), "blank": blank}
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
    kind = type(trained.model.attention).__name__
    require_format(metadata.get("format"), FORMAT, place=path, fix="encode again")
    if metadata.get("kind") != kind:
        raise UserError(
            f"{path}: a memory of {metadata.get('kind')}, but the model has {kind}; use the model that encoded it"
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
        seed, ids = int(metadata["seed"]), tensors["ids"].tolist() if "ids" in tensors else None
        words = PieceWords(*tensors["words"].tolist()) if "words" in tensors else None
        expected = _expected_shapes(trained, int(memory.length), trace=memory.trace is not None)
        if expected[memory._fields.index("trace")] is None:  # earlier versions stored one that nothing reads
            memory = memory._replace(trace=None)
        valid = _shapes(memory, final) == expected
    except (TypeError, KeyError, ValueError, RuntimeError):
        valid = False
    valid = valid and (ids is None or _valid_ids(ids, int(memory.length), trained))
    valid = valid and (words is None or _valid_words(words, int(memory.length)))
    if not valid or not 0 <= seed < 2**32:
        raise UserError(f"{path}: its tensors or its seed are not what this model writes; encode again")
    device = trained.model.embedding.weight.device
    source: Source = map_tensors(lambda field: field.to(device), Source(memory, final))
    return EncodedLine(source, seed, ids, words)


def memory_files(place: Path) -> list[Path]:
    """Return ``place`` itself if it is a file, or else the folder's files in line order.

    Raises UserError if a file of the folder is missing.
    """
    if not place.is_dir():
        return [place]
    try:
        count = int(read_text(place / COUNT))
    except OSError:
        raise UserError(f"memory={place}: has no {COUNT}; name a folder that nmt-encode wrote") from None
    except ValueError:
        count = -1
    if count < 0:
        raise UserError(f"memory={place}: its {COUNT} holds no number of files; encode again")
    # Look at the existing files only: a damaged count may be a huge number.
    numbers = {int(file.stem) for file in place.glob("*.safetensors") if file.stem.isdecimal()}
    numbers = {number for number in numbers if number and (place / memory_name(number)).is_file()}
    if surplus := sorted(number for number in numbers if number > count):
        raise UserError(
            f"memory={place}: {memory_name(surplus[0])} exceeds the number of files in {COUNT}, {count:,}; encode again"
        )
    if len(numbers) < count:
        first = next(number for number in range(1, count + 1) if number not in numbers)
        missing = f"{count - len(numbers):,} of {counted(count, 'file')} missing, the first is {memory_name(first)}"
        raise UserError(f"memory={place}: {missing}; encode again")
    return [place / memory_name(number) for number in range(1, count + 1)]


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
        with safe_open(require_regular(path), framework="pt") as file:
            names = file.keys() if tensors else ()
            return file.metadata() or {}, {name: file.get_tensor(name) for name in names}
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


def _valid_ids(ids: list[int], length: int, trained: TrainedModel) -> bool:
    return len(ids) == length and all(type(piece) is int and 0 <= piece < len(trained.source) for piece in ids)


def _valid_words(words: PieceWords, length: int) -> bool:
    """Return whether these can be the words of the pieces before ``</s>``."""
    numbers = [*words, *words.last]
    return len(words) == len(words.last) == length - 1 and all(
        type(number) is int and -1 <= number < MAX_WORDS for number in numbers
    )
