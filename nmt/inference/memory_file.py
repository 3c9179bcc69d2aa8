"""A source line's memory on disk: one safetensors file, from which the line can be translated without its text.

Tensors: ``memory.*``, every field of the memory that is there; ``final.*``, where the encoder ended; with a trace, also
``ids``, the source pieces. Metadata, as text: ``format``, ``kind`` (the attention's class), ``model`` (a fingerprint),
``seed`` (for sampling), ``blank`` (such a line has no tensors), and ``digest`` (of all this).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from nmt.attention.base import Memory
from nmt.errors import UserError
from nmt.inference.encoded import EncodedLine
from nmt.inference.model_folder import TrainedModel
from nmt.inference.torch_engine import Source
from nmt.model.encoder import Final
from nmt.model.seq2seq import Seq2Seq
from nmt.storage import require_format, tensors_digest

FORMAT = 1
COUNT = "count.txt"  # how many there are: a folder that lost its last one would look whole
Shapes = list[tuple[torch.dtype, tuple[int, ...]] | None]


def fingerprint(trained: TrainedModel) -> str:
    """A number, in hexadecimal, that any change of the model's weights, shape or tokenizers changes."""
    blocks = {name: trained.config[name] for name in ("embeddings", "encoder", "attention", "decoder")}
    settings = json.dumps([blocks, trained.config["data"]["lowercase"], trained.longest_source]).encode()
    tokenizers = [tokenizer.to_bytes() for tokenizer in (trained.source, trained.target)]
    return tensors_digest(trained.model.state_dict(), b"".join([settings, *tokenizers]))


def save_memory(path: Path, line: EncodedLine, *, kind: str, model: str) -> None:
    """Write the line to ``path``; ``model`` is the fingerprint of the model that encoded it.

    Raises UserError where it cannot be written.
    """
    tensors: dict[str, Tensor] = {}
    if line.source is not None:
        for part, fields in (("memory", line.source.memory), ("final", line.source.final)):
            there = {name: field for name, field in fields._asdict().items() if field is not None}
            tensors |= {f"{part}.{name}": field.cpu().contiguous() for name, field in there.items()}
    if line.ids is not None:
        tensors["ids"] = torch.tensor(line.ids)
    blank = str(line.source is None).lower()
    about = {"format": str(FORMAT), "kind": kind, "model": model, "seed": str(line.seed), "blank": blank}
    try:
        save_file(tensors, path, {**about, "digest": _digest_of_file(about, tensors)})
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path}: cannot be written ({_reason(error)}); free some space or choose another place"
        ) from None


def memory_name(number: int) -> str:
    """The file of line ``number``, from 1."""
    return f"{number:08d}.safetensors"


def load_memory(path: Path, trained: TrainedModel, *, model: str) -> EncodedLine:
    """The line in ``path``. Raises UserError where it is damaged, or not of the model with this fingerprint."""
    about, tensors = _read(path)
    kind = type(trained.model.attention).__name__
    require_format(about.get("format"), FORMAT, place=path, fix="encode again")
    if about.get("kind") != kind:
        raise UserError(f"{path}: a memory of {about.get('kind')}, but the model has {kind}; name the model it is of")
    if about.get("model") != model:
        raise UserError(f"{path}: a memory of another model; name the one that encoded it, or encode again")
    if about.pop("digest", None) != _digest_of_file(about, tensors):
        raise UserError(f"{path}: damaged, its numbers are not those that were written; encode again")
    if about.get("blank") == "true":
        return EncodedLine(None)
    try:
        memory = Memory(**_fields(tensors, "memory"))
        end = _fields(tensors, "final")
        final = Final(end["hidden"], end.get("cell"))
        seed, ids = int(about["seed"]), tensors["ids"].tolist() if "ids" in tensors else None
        fits = _shapes(memory, final) == _expected(trained, int(memory.length), trace=memory.trace is not None)
    except (TypeError, KeyError, ValueError, RuntimeError):
        fits = False
    if not fits or (ids is not None and not _spells(ids, int(memory.length), trained)):
        raise UserError(f"{path}: its parts are not of the sizes that this model writes; encode again")
    device = trained.model.embedding.weight.device
    return EncodedLine(Source(Memory._make(_on(device, memory)), Final._make(_on(device, final))), seed, ids)


def memory_files(place: Path) -> list[Path]:
    """The file itself, or those of a folder in the order of their lines. Raises UserError unless they are all there."""
    if not place.is_dir():
        return [place]
    try:
        count = int((place / COUNT).read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"memory={place}: no {COUNT} there; name a folder that nmt-encode wrote") from None
    except ValueError:
        count = -1
    if count < 0:
        raise UserError(f"memory={place}: its {COUNT} does not say how many there are; encode again")
    # What is there is counted, and not what should be: the count may be any number.
    numbers = {int(file.stem) for file in place.glob("*.safetensors") if file.stem.isdecimal()}
    numbers = {number for number in numbers if number and (place / memory_name(number)).is_file()}
    if surplus := sorted(number for number in numbers if number > count):
        raise UserError(
            f"memory={place}: {memory_name(surplus[0])} is one more than the {count:,} of {COUNT}; encode again"
        )
    if len(numbers) < count:
        first = next(number for number in range(1, count + 1) if number not in numbers)
        raise UserError(
            f"memory={place}: {count - len(numbers):,} of {count:,} are lost, the first is {memory_name(first)}; "
            "encode again"
        )
    return [place / memory_name(number) for number in range(1, count + 1)]


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; name what nmt-encode wrote") from None
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path}: cannot be read as a memory ({_reason(error)}); it may be truncated: encode again"
        ) from None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def _fields(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def _shapes(memory: Memory, final: Final) -> Shapes:
    return [None if field is None else (field.dtype, tuple(field.shape)) for field in (*memory, *final)]


@lru_cache(maxsize=2)  # asked for each file, and the same for all of a model
@torch.inference_mode()
def _examples(model: Seq2Seq, trace: bool, dtype: torch.dtype) -> tuple[Shapes, Shapes]:
    """What the model, whose weights are of ``dtype`` now, writes for a source of one piece, and of two."""
    device = model.embedding.weight.device
    one, two = (
        _shapes(*model.encode(ids, torch.ones_like(ids, dtype=torch.bool), trace=trace, resumable=True))
        for ids in (torch.zeros(1, size, dtype=torch.int64, device=device) for size in (1, 2))
    )
    return one, two


def _expected(trained: TrainedModel, length: int, *, trace: bool) -> Shapes:
    """What the model would write for a source of ``length`` pieces: every size is linear in it."""
    one, two = _examples(trained.model, trace, trained.model.embedding.weight.dtype)
    if length < 1:
        raise ValueError("a source has </s> at least")
    return [
        None
        if a is None or b is None
        else (a[0], tuple(x + (length - 1) * (y - x) for x, y in zip(a[1], b[1], strict=True)))
        for a, b in zip(one, two, strict=True)
    ]


def _spells(ids: list[int], length: int, trained: TrainedModel) -> bool:
    return len(ids) == length and all(0 <= one < len(trained.source) for one in ids)


def _on(device: torch.device, fields: Iterable[Tensor | None]) -> Iterator[Tensor | None]:
    return (None if field is None else field.to(device) for field in fields)


def _digest_of_file(about: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    return tensors_digest(tensors, json.dumps(about, sort_keys=True).encode())
