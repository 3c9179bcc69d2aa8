"""Load and save a trained model, or the low-rank updates of another one, in the folder of a run.

``model.pt`` holds weights, configuration and tokenizers. The tensors of ``adapter.safetensors`` are ``NAME.A`` and
``NAME.B`` for each adapted matrix. Its metadata ``adapter`` is a JSON object with ``format``, ``base`` (fingerprint of
the model that was adapted), ``base_folder`` (its folder, relative to that of the adapter), ``scale`` (alpha divided by
the rank) and ``digest`` (fingerprint of the tensors and the other entries).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from nmt.data.invisible import KINDS
from nmt.errors import UserError, print_message, reason
from nmt.files.atomic import replace_file
from nmt.files.checkpoint import read_checkpoint, read_tensors, write_checkpoint
from nmt.files.checksum import (
    archive_fingerprint,
    changed_names,
    code_of,
    fingerprint,
    require_format,
    stored_code,
)
from nmt.files.reading import require_plain
from nmt.inference.engines import AttentionProperties, Properties, stored_tokenizer
from nmt.inference.run_files import ADAPTER, CODE_FILE, MODEL_FILE, has_adapter, has_checkpoint
from nmt.inference.torch_engine import TorchEngine
from nmt.model.adapter import add_updates, updates
from nmt.model.build import SkipInitialisation, build_model, declared_shapes
from nmt.model.seq2seq import Seq2Seq
from nmt.search.options import LengthModel
from nmt.search.search import MAX_HYPOTHESES
from nmt.settings.arguments import TypeCheck, type_hints
from nmt.settings.build import MODEL_GROUPS, ModelSettings
from nmt.text.tokenizer import Tokenizer

FORMAT = 1
ADAPTER_FORMAT = 2
TEXT_FACTS = ("single_sentences", "length_model")  # what a model stores about its training text, as ``Properties``


class Base(NamedTuple):
    """The model that an adapter is trained for: its folder and its fingerprint."""

    folder: Path
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A model with its tokenizers and configuration.

    ``source`` and ``target`` are the same object if the vocabulary is joint. ``longest_source`` is the number of pieces
    of the longest training source. ``base`` is the model that an adapter is being trained for. ``single_sentences`` and
    ``length_model`` are those of ``Properties``.
    """

    model: Seq2Seq
    source: Tokenizer
    target: Tokenizer
    config: dict[str, Any]
    longest_source: int
    base: Base | None = None
    single_sentences: bool = False
    length_model: LengthModel | None = None

    @property
    def properties(self) -> Properties:
        attention = self.model.attention
        data = self.config["data"]
        return Properties(
            attention=AttentionProperties(
                class_name=self.config["attention"]["_target_"].rpartition(".")[2],
                reads_source=attention.reads_source,
                signed=attention.signed,
            ),
            lowercase=bool(data["lowercase"]),
            remove_invisible=data.get("remove_invisible"),
            score_tokenizer=stored_tokenizer(self.config),
            single_sentences=self.single_sentences,
            length_model=self.length_model,
        )

    @property
    def workers(self) -> int:
        return 1

    @property
    def max_hypotheses(self) -> int:
        return MAX_HYPOTHESES

    def engine(self, *, trace: bool, beside_others: bool = False, hypotheses: int | None = None) -> TorchEngine:
        return TorchEngine(self.model.eval(), trace=trace)


def choose_device(name: str) -> torch.device:
    """Return the device ``name``; ``auto`` selects a GPU if there is one. Raises UserError if it is not available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise UserError(f"device={name}: must be auto | cpu | cuda")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UserError(f"device={name}: not available here; use device=cpu or device=auto") from None
    return device


def pack(trained: TrainedModel) -> dict[str, Any]:
    """Return the contents of ``model.pt``: numbers, strings and tensors only, so that loading can refuse code."""
    tokenizers = {"source": _as_tensor(trained.source.to_bytes())}
    if trained.target is not trained.source:
        tokenizers["target"] = _as_tensor(trained.target.to_bytes())
    return {
        "format": FORMAT,
        "config": trained.config,
        "longest_source": trained.longest_source,
        **{key: getattr(trained, key) for key in TEXT_FACTS},
        "tokenizers": tokenizers,
        "weights": {name: tensor.cpu() for name, tensor in trained.model.state_dict().items()},
    }


def unpack(stored: Mapping[str, Any], *, file: Path, trust: Sequence[str]) -> TrainedModel:
    """Build the model from the contents of the file ``file``, in evaluation mode.

    Raises UserError if the contents cannot be used.
    """
    if "format" not in stored or "weights" not in stored:
        raise UserError(f"{file}: not a model of this toolkit; name a folder that nmt-train wrote")
    require_format(stored["format"], FORMAT, name=file, fix="train again")
    try:
        config = dict(require_plain(stored["config"]))
        _check_tensors({**stored["weights"], **stored["tokenizers"]})
        source = Tokenizer(_as_bytes(stored["tokenizers"]["source"]))
        joint = "target" not in stored["tokenizers"]
        target = source if joint else Tokenizer(_as_bytes(stored["tokenizers"]["target"]))
        sizes: dict[str, Any] = {
            "source_vocabulary": len(source),
            "target_vocabulary": len(target),
            "longest_source": int(stored["longest_source"]),
            "trust": trust,
        }
        settings = ModelSettings.of(config)
        _check_shapes(settings, stored["weights"], sizes)
        with SkipInitialisation():
            model = build_model(settings, **sizes)
        model.load_state_dict(stored["weights"])
        if infinite := non_finite(model.state_dict()):
            raise ValueError(f"{infinite}: contains infinite values or NaN; train again with a smaller learning rate")
        trained = TrainedModel(
            model=model.eval(),
            source=source,
            target=target,
            config=config,
            longest_source=sizes["longest_source"],
            **_text_facts(stored),
        )
        if (kind := trained.properties.remove_invisible) not in KINDS:
            raise ValueError(f"data.remove_invisible={kind!r:.40}: must be null, bom or all")
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    except Exception as error:  # a damaged configuration can fail with any exception
        raise UserError(
            f"{file}: weights, configuration and tokenizers do not match ({type(error).__name__}: {reason(error)}); "
            "train again"
        ) from None
    return trained


def _check_tensors(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise ValueError for a tensor that takes more memory than its file: one of any shape can show a single number."""
    for name, tensor in tensors.items():
        if not isinstance(name, str) or tensor.nbytes > tensor.untyped_storage().nbytes():
            raise ValueError(f"{name}: not a tensor with a number for each element")


def _check_shapes(settings: ModelSettings, weights: Mapping[str, torch.Tensor], sizes: Mapping[str, Any]) -> None:
    """Raise ValueError unless the weights are those that ``settings`` declare.

    The model is not allocated before this check: ``settings`` may declare one of any size.
    """
    # Every layer has weights, and modules without weights are few.
    declared = declared_shapes(settings, **sizes)
    for name in sorted(declared.keys() | weights.keys()):
        stored = tuple(weights[name].shape) if name in weights else None
        if stored != declared.get(name):
            raise ValueError(f"{name}: stored with shape {stored}, but declared with shape {declared.get(name)}")


def non_finite(tensors: Mapping[str, torch.Tensor]) -> str | None:
    """Return the name of the first tensor with an infinite value or NaN, or None."""
    with np.errstate(all="ignore"):
        for name, tensor in tensors.items():
            numbers = tensor.cpu()
            numbers = numbers.float() if numbers.dtype == torch.bfloat16 else numbers
            # A sum takes a tenth of the time, and is not finite if a number is not. It may also overflow. NumPy's sum
            # runs in this thread; torch's waits for its thread pool, 100 ms on a busy machine.
            if not np.isfinite(numbers.numpy().sum()) and not numbers.isfinite().all():
                return name
    return None


def save_folder(folder: Path, trained: TrainedModel) -> None:
    """Write the model into ``folder``, atomically."""
    write_checkpoint(folder / MODEL_FILE, pack(trained))


def load_folder(folder: Path, *, trust: Sequence[str] = (), key: str = "model") -> TrainedModel:
    """Load the model of a run's folder. That of an adapter is its base with the updates merged into it.

    Raises UserError if the folder has no readable model; ``key`` is the setting that named the folder.
    """
    if has_adapter(folder):
        adapter = read_adapter(folder, key=key)
        trained = load_folder(adapter.base, trust=trust, key=key)
        _warn_of_changed_code(folder, trained.config, trust)
        apply_adapter(trained.model, adapter)
        if infinite := non_finite(trained.model.state_dict()):
            raise UserError(f"{key}={folder}: {infinite} has infinite values or NaN; train the adapter again")
        config = {**trained.config, "evaluation": adapter.evaluation}
        return replace(trained, config=config, **adapter.text)
    file = folder / MODEL_FILE
    if not file.is_file():
        fix = "name a folder that nmt-train has finished, such as runs/demo"
        if has_checkpoint(folder):
            fix = f"finish its training with nmt-train {shlex.quote(f'name={folder.name}')} resume=true, or {fix}"
        problem = "has no model.pt" if folder.is_dir() else "no such folder"
        raise UserError(f"{key}={folder}: {problem}; {fix}")
    trained = unpack(read_checkpoint(file), file=file, trust=trust)
    _warn_of_changed_code(folder, trained.config, trust)
    return trained


def _warn_of_changed_code(folder: Path, config: Mapping[str, Any], trust: Sequence[str]) -> None:
    """Warn where the code of a trusted package that the model uses has changed since its training."""
    stored = stored_code(folder / CODE_FILE)
    model = {group: config[group] for group in MODEL_GROUPS}
    changed = [name for name in changed_names(stored, code_of({**model, "trust": trust})) if name != "nmt"]
    if changed and multiprocessing.parent_process() is None:  # the parent of workers warns for them
        problem = f"code of {' and '.join(changed)} has changed since this model was trained"
        print_message(f"warning: {folder}: {problem}; its results may be wrong: train it again, or restore the code")


def _text_facts(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``TEXT_FACTS`` that a model or an adapter stores. Raises ValueError if one cannot be used."""
    facts = {key: stored[key] for key in TEXT_FACTS if key in stored}
    hints = type_hints(Properties, include_extras=True)
    for problem in TypeCheck().keys(facts, {key: hints[key] for key in facts}, (), ""):
        raise ValueError(problem)
    return facts


def _as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _as_bytes(data: torch.Tensor) -> bytes:
    return data.numpy().tobytes()


class Adapter(NamedTuple):
    """A stored adapter: ``scale`` · B A is added to each matrix."""

    file: Path
    base: Path
    tensors: dict[str, Tensor]
    scale: float
    text: dict[str, Any]
    """``TEXT_FACTS`` of the text of the adapter."""
    evaluation: Any
    """These settings of its run."""


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


def save_adapter(folder: Path, trained: TrainedModel, *, rank: int, alpha: float) -> Path:
    """Write the updates of an adapted model, which has a base, into ``folder``, atomically, and return the file."""
    base = trained.base
    assert base is not None
    tensors = {
        f"{name}.{part}": matrix.cpu()
        for name, update in updates(trained.model).items()
        for part, matrix in update.state_dict().items()
    }
    metadata = {
        "format": ADAPTER_FORMAT,
        "base": base.fingerprint,
        "base_folder": Path(os.path.relpath(base.folder.resolve(), folder.resolve())).as_posix(),
        "scale": alpha / rank,
        **{key: getattr(trained, key) for key in TEXT_FACTS},
        "evaluation": trained.config.get("evaluation"),
    }
    metadata["digest"] = fingerprint(metadata, tensors)
    with replace_file(folder / ADAPTER, durable=True) as file:
        file.write(save(tensors, {"adapter": json.dumps(metadata)}))  # save_file would hide it from other users
    return folder / ADAPTER


def read_adapter(folder: Path, *, key: str) -> Adapter:
    """Return the adapter of a run's folder. ``key`` is the setting that named the folder.

    Raises UserError if the file is damaged, or if its base is not where it was, or is another model now.
    """
    path = folder / ADAPTER
    try:
        stored, tensors = read_tensors(path)
        metadata = json.loads(stored["adapter"])
        require_format(metadata["format"], ADAPTER_FORMAT, name=path, fix="train the adapter again")
        base = Path(os.path.normpath(folder.resolve() / metadata["base_folder"]))
        expected, scale, text = metadata["base"], float(metadata["scale"]), _text_facts(metadata)
        if metadata.pop("digest") != fingerprint(metadata, tensors):
            raise ValueError("wrong digest")
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path}: cannot be read as an adapter ({reason(error)}); train the adapter again") from None
    if (present := model_fingerprint(base)) != expected:
        problem = "has changed since" if present else "does not exist any more"
        raise UserError(f"{key}={folder}: an adapter of the model in {base}, which {problem}; train the adapter again")
    return Adapter(path, base, tensors, scale, text, metadata["evaluation"])


def apply_adapter(model: Seq2Seq, adapter: Adapter) -> None:
    """Add the updates of the adapter to the weights of its base. Raises UserError unless they fit."""
    names = {key.removesuffix(".A").removesuffix(".B") for key in adapter.tensors}
    try:
        pairs = {name: (adapter.tensors[f"{name}.A"], adapter.tensors[f"{name}.B"]) for name in sorted(names)}
        add_updates(model, pairs, scale=adapter.scale)
    except (KeyError, RuntimeError) as error:
        problem = f"no updates of this model ({reason(error)})"
        raise UserError(f"{adapter.file}: {problem}; train the adapter again") from None
