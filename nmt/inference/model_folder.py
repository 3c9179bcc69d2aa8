"""The portable model: one file in a run's folder that holds weights, configuration and tokenizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nmt.errors import UserError
from nmt.inference.runtime import AttentionFacts
from nmt.inference.torch_engine import TorchEngine
from nmt.model.build import build_model
from nmt.model.seq2seq import Seq2Seq
from nmt.storage import read_checkpoint, require_format, write_checkpoint
from nmt.text.tokenizer import Tokenizer

FORMAT = 1
MODEL_FILE = "model.pt"


@dataclass(frozen=True)
class TrainedModel:
    """A model with all that is needed to use it. ``source`` and ``target`` are one object for a joint vocabulary."""

    model: Seq2Seq
    source: Tokenizer
    target: Tokenizer
    config: dict[str, Any]
    longest_source: int

    @property
    def lowercase(self) -> bool:
        return bool(self.config["data"]["lowercase"])

    @property
    def attention(self) -> AttentionFacts:
        one = self.model.attention
        return AttentionFacts(type(one).__name__, bool(one.context_size), one.signed, one.max_source_length)

    def engine(self, *, trace: bool) -> TorchEngine:
        return TorchEngine(self.model.eval(), trace=trace)


def choose_device(name: str) -> torch.device:
    """The device ``name``; ``auto`` takes a GPU where there is one. Raises UserError for one that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise UserError(f"device={name}: not available here; use device=cpu, or auto") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device={name}: must be auto | cpu | cuda")
    return device


def pack(trained: TrainedModel) -> dict[str, Any]:
    """What is stored: plain numbers, strings and tensors only, so that loading can refuse everything else."""
    tokenizers = {"source": _as_tensor(trained.source.to_bytes())}
    if trained.target is not trained.source:
        tokenizers["target"] = _as_tensor(trained.target.to_bytes())
    return {
        "format": FORMAT,
        "config": trained.config,
        "longest_source": trained.longest_source,
        "tokenizers": tokenizers,
        "weights": {name: tensor.detach().cpu() for name, tensor in trained.model.state_dict().items()},
    }


def unpack(stored: Mapping[str, Any], *, place: Path, trust: Sequence[str] = ()) -> TrainedModel:
    """The model in ``stored``, in evaluation mode. Raises UserError naming ``place`` where it cannot be used."""
    if "format" not in stored or "weights" not in stored:
        raise UserError(f"{place}: not a model of this toolkit; name a folder that nmt-train wrote")
    require_format(stored["format"], FORMAT, place=place, fix="train again")
    try:
        source = Tokenizer.from_bytes(_as_bytes(stored["tokenizers"]["source"]))
        joint = "target" not in stored["tokenizers"]
        target = source if joint else Tokenizer.from_bytes(_as_bytes(stored["tokenizers"]["target"]))
        model = build_model(
            stored["config"],
            source_vocabulary=len(source),
            target_vocabulary=len(target),
            longest_source=stored["longest_source"],
            trust=trust,
        )
        model.load_state_dict(stored["weights"])
        if "lowercase" not in stored["config"]["data"]:  # the only other thing that translating reads
            raise KeyError("data.lowercase")
    except UserError:
        raise
    except Exception as error:  # a damaged configuration fails in whatever reads it first
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{place}: its parts do not fit each other ({type(error).__name__}: {reason})") from None
    return TrainedModel(model.eval(), source, target, dict(stored["config"]), stored["longest_source"])


def save_folder(folder: Path, trained: TrainedModel) -> None:
    """Write the model into ``folder``, whole or not at all."""
    write_checkpoint(folder / MODEL_FILE, pack(trained))


def load_folder(folder: Path, *, trust: Sequence[str] = (), asked: str = "model") -> TrainedModel:
    """The model of a run's folder. Raises UserError, naming the key ``asked``, where there is none that can be read."""
    place = folder / MODEL_FILE
    if not place.is_file():
        what = "has no model.pt" if folder.is_dir() else "no such folder"
        raise UserError(f"{asked}={folder}: {what}; name a folder that nmt-train has finished, such as runs/demo")
    return unpack(read_checkpoint(place), place=place, trust=trust)


def _as_tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _as_bytes(data: torch.Tensor) -> bytes:
    return bytes(data.numpy().tobytes())
