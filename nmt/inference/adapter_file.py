"""Low-rank updates of another run's model: ``adapter.safetensors`` in a run's folder.

The tensors are ``NAME.A`` and ``NAME.B`` for each adapted matrix. The metadata ``adapter`` is a JSON object with
``format``, ``base`` (fingerprint of the model that was adapted), ``base_folder`` (its folder, relative to that of the
adapter), ``scale`` (alpha divided by the rank) and ``digest`` (fingerprint of the tensors and the other entries).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from nmt.errors import UserError, reason
from nmt.files.atomic import replace_file
from nmt.files.checkpoint import read_tensors
from nmt.files.checksum import archive_fingerprint, fingerprint, require_format
from nmt.inference.run_files import ADAPTER, MODEL_FILE
from nmt.model.adapter import add_updates, updates
from nmt.model.seq2seq import Seq2Seq

FORMAT = 1


class Base(NamedTuple):
    """The model that an adapter is trained for: its folder and its fingerprint."""

    folder: Path
    fingerprint: str


class Adapter(NamedTuple):
    """A stored adapter: ``scale`` · B A is added to each matrix."""

    file: Path
    base: Path
    tensors: dict[str, Tensor]
    scale: float


def model_fingerprint(folder: Path) -> str:
    """Return a string that changes whenever the model of a run's folder changes; empty if the folder has no model.

    An adapter's file contains the fingerprint of its base, so that of the file identifies both.
    """
    try:
        if (folder / MODEL_FILE).is_file():
            return archive_fingerprint(folder / MODEL_FILE)
        return fingerprint((folder / ADAPTER).read_bytes())
    except (OSError, ValueError):  # no such file, or a path that no system accepts
        return ""


def save_adapter(folder: Path, model: Seq2Seq, base: Base, *, rank: int, alpha: float) -> Path:
    """Write the updates of an adapted model into ``folder``, atomically, and return the file."""
    tensors = {
        f"{name}.{part}": getattr(update, part).detach().cpu().contiguous()
        for name, update in updates(model).items()
        for part in ("A", "B")
    }
    metadata = {
        "format": FORMAT,
        "base": base.fingerprint,
        "base_folder": Path(os.path.relpath(base.folder.resolve(), folder.resolve())).as_posix(),
        "scale": alpha / rank,
    }
    metadata["digest"] = fingerprint(metadata, tensors)
    with replace_file(folder / ADAPTER, durable=True) as file:
        file.write(save(tensors, {"adapter": json.dumps(metadata)}))  # save_file would hide it from other users
    return folder / ADAPTER


def read_adapter(folder: Path, *, key: str = "model") -> Adapter:
    """Return the adapter of a run's folder. ``key`` is the setting that named the folder.

    Raises UserError if the file is damaged, or if its base is not where it was, or is another model now.
    """
    path = folder / ADAPTER
    try:
        stored, tensors = read_tensors(path)
        metadata = json.loads(stored["adapter"])
        require_format(metadata["format"], FORMAT, name=path, fix="train the adapter again")
        base = Path(os.path.normpath(folder.resolve() / metadata["base_folder"]))
        expected, scale = metadata["base"], float(metadata["scale"])
        if metadata.pop("digest") != fingerprint(metadata, tensors):
            raise ValueError("wrong digest")
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path}: cannot be read as an adapter ({reason(error)}); train the adapter again") from None
    if (present := model_fingerprint(base)) != expected:
        problem = "has changed since" if present else "does not exist any more"
        raise UserError(f"{key}={folder}: an adapter of the model in {base}, which {problem}; train the adapter again")
    return Adapter(path, base, tensors, scale)


def apply_adapter(model: Seq2Seq, adapter: Adapter) -> None:
    """Add the updates of the adapter to the weights of its base. Raises UserError unless they fit."""
    names = {key.removesuffix(".A").removesuffix(".B") for key in adapter.tensors}
    try:
        pairs = {name: (adapter.tensors[f"{name}.A"], adapter.tensors[f"{name}.B"]) for name in sorted(names)}
        add_updates(model, pairs, scale=adapter.scale)
    except (KeyError, RuntimeError) as error:
        problem = f"no updates of this model ({reason(error)})"
        raise UserError(f"{adapter.file}: {problem}; train the adapter again") from None
