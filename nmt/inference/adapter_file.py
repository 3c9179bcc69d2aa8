"""Read and write adapters: ``adapter.safetensors`` in a run's folder, with low-rank updates of another run's model.

Tensors: ``NAME.A`` and ``NAME.B`` for each adapted matrix of the model. The metadata ``adapter`` is a JSON object with
``format``, ``base`` (fingerprint of the model that was adapted), ``base_folder`` (its folder, relative to that of the
adapter), ``rank``, ``alpha`` and ``digest`` (fingerprint of the tensors and the other entries).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from nmt.errors import UserError, reason
from nmt.files.atomic import replace_file
from nmt.files.checksum import archive_fingerprint, fingerprint, require_format
from nmt.files.reading import open_regular, require_plain, require_regular
from nmt.inference.run_files import ADAPTER, MODEL_FILE, has_adapter
from nmt.model.adapter import add_updates, matrices, updates
from nmt.model.seq2seq import Seq2Seq

FORMAT = 1
DTYPES = {torch.float32, torch.float64}
RETRAIN = "train the adapter again"
Updates = dict[str, tuple[Tensor, Tensor]]


class Base(NamedTuple):
    """The model that an adapter is trained for: its folder and its fingerprint."""

    folder: Path
    fingerprint: str


def model_fingerprint(folder: Path) -> str:
    """Return a string that changes whenever the model of a run's folder changes; empty if the folder has no model.

    An adapter's file contains the fingerprint of its base, so that of the file identifies both.
    """
    try:
        if (folder / MODEL_FILE).is_file():
            return archive_fingerprint(folder / MODEL_FILE)
        with open_regular(folder / ADAPTER) as file:
            return fingerprint(file.read())
    except (OSError, ValueError):  # no such file, or a path that no system accepts
        return ""


def save_adapter(folder: Path, model: Seq2Seq, base: Base, *, rank: int, alpha: float) -> Path:
    """Write the updates of an adapted model into ``folder``, atomically, and return the file."""
    tensors = {
        f"{name}.{part}": getattr(update, part).detach().cpu().contiguous()
        for name, update in updates(model).items()
        for part in ("A", "B")
    }
    about: dict[str, Any] = {"format": FORMAT, "base": base.fingerprint, "base_folder": _relative(base.folder, folder)}
    about |= {"rank": rank, "alpha": alpha}
    about["digest"] = fingerprint(about, tensors)
    path = folder / ADAPTER
    with replace_file(path, durable=True) as file:
        file.write(save(tensors, {"adapter": json.dumps(about)}))  # save_file would hide it from other users
    return path


def find_base(folder: Path, *, key: str = "model") -> Path:
    """Return the folder of the model that the adapter in ``folder`` was trained for.

    Raises UserError if it is not where it was, or if it holds another model now; ``key`` is the setting that named
    ``folder``.
    """
    about, _ = _read(folder / ADAPTER)
    place = Path(os.path.normpath(folder.resolve() / about["base_folder"]))
    if model_fingerprint(place) == about["base"]:
        return place
    problem = "has changed since" if model_fingerprint(place) else "does not exist any more"
    raise UserError(
        f"{key}={folder}: an adapter of the model in {place}, which {problem}; "
        f"give that model and adapter={folder}, or train the adapter again"
    )


def apply_adapter(model: Seq2Seq, folder: Path, *, base: Base) -> None:
    """Add the updates of the adapter in ``folder`` to the weights of ``model``, which was loaded from ``base``.

    Raises UserError if the folder has no readable adapter, or one of another model.
    """
    if not has_adapter(folder):
        problem = f"has no {ADAPTER}" if folder.is_dir() else "no such folder"
        raise UserError(f"adapter={folder}: {problem}; name a run of nmt-train adapt=lora")
    path = folder / ADAPTER
    about, tensors = _read(path)
    if about["base"] != base.fingerprint:
        raise UserError(
            f"adapter={folder}: trained for another model than model={base.folder}; name the model of its init_from"
        )
    if about["digest"] != fingerprint({key: value for key, value in about.items() if key != "digest"}, tensors):
        raise UserError(f"{path}: damaged (wrong digest); {RETRAIN}")
    add_updates(model, _pairs(path, model, tensors, rank=about["rank"]), scale=about["alpha"] / about["rank"])


def _pairs(path: Path, model: Seq2Seq, tensors: Mapping[str, Tensor], *, rank: int) -> Updates:
    """Return (A, B) of each adapted matrix. Raises UserError unless ``model`` has such matrices."""
    named, pairs = matrices(model), {}
    for name in sorted({key.rpartition(".")[0] for key in tensors}):
        a, b = tensors.get(f"{name}.A"), tensors.get(f"{name}.B")
        if name not in named or a is None or b is None:
            raise UserError(f"{path}: {name}: not an update of a matrix of the model; {RETRAIN}")
        rows, columns = named[name].weight.shape
        used = min(rank, rows, columns)
        if (a.shape, b.shape) != ((used, columns), (rows, used)) or not {a.dtype, b.dtype} <= DTYPES:
            raise UserError(f"{path}: {name}: A or B has another shape or type than the model needs; {RETRAIN}")
        if not (a.isfinite().all() and b.isfinite().all()):
            raise UserError(f"{path}: {name}: contains infinite values or NaN; {RETRAIN}")
        pairs[name] = (a, b)
    if any(key.rpartition(".")[2] not in ("A", "B") for key in tensors) or not pairs:
        raise UserError(f"{path}: not an adapter; name a run of nmt-train adapt=lora")
    return pairs


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the metadata and the tensors. Raises UserError if the file is damaged or of another version."""
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            about = require_plain(json.loads((file.metadata() or {})["adapter"]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as an adapter ({reason(error)}); {RETRAIN}") from None
    about = about if isinstance(about, dict) else {}
    require_format(about.get("format"), FORMAT, place=path, fix=RETRAIN)
    valid = all(isinstance(about.get(key), str) for key in ("base", "base_folder", "digest"))
    rank, alpha = about.get("rank"), about.get("alpha")
    valid = valid and type(rank) is int and 1 <= rank < 2**31 and type(alpha) in (int, float)
    if not valid or not math.isfinite(alpha / rank):  # type: ignore[operator]
        raise UserError(f"{path}: its metadata are not those of an adapter; {RETRAIN}")
    return about, tensors


def _relative(place: Path, folder: Path) -> str:
    """Return the path of ``place`` relative to ``folder``, so that both can be moved together."""
    try:
        return Path(os.path.relpath(place.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive of Windows
        return place.resolve().as_posix()
