"""A trained model without torch: ONNX graphs, tokenizers and a few facts, in the folder ``onnx`` of a run.

``encode.onnx`` (ids → memory and first state), ``step.onnx`` (one piece for every hypothesis) and ``align.onnx`` (read
weights → alignment); ``*.int8.onnx`` are the same with products in 8-bit integers. ``step.short*.onnx`` take those rows
of the output layer that a batch's shortlist names; ``shortlist.npz`` holds lists and rows. ``about.json`` has a
checksum of each graph and tokenizer, for nothing else would notice a few bytes that changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nmt.errors import UserError
from nmt.inference.onnx.layout import ABOUT, FOLDER, FORMAT, GRAPH_SUFFIX, SHORTLIST, Precision
from nmt.inference.onnx.shortlist import Shortlist
from nmt.inference.runtime import AttentionFacts
from nmt.storage import archive_fingerprint, verify_file
from nmt.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nmt.inference.onnx.engine import OnnxEngine


@dataclass(frozen=True)
class OnnxModel:
    """A model that onnxruntime runs: see ``nmt.inference.runtime.Runtime``."""

    folder: Path
    checksums: Mapping[str, int]
    precision: Precision
    source: Tokenizer
    target: Tokenizer
    lowercase: bool
    attention: AttentionFacts
    torch_encodes: bool
    """Its attention writes one source state after the other, which no graph of ours does."""
    threads: int | None = None
    shortlist: bool = False
    trust: Sequence[str] = ()

    def engine(self, *, trace: bool) -> OnnxEngine:
        """One engine for all that this model translates; its graphs yield what alignments need in any case."""
        return self._engine

    @cached_property
    def _engine(self) -> OnnxEngine:
        from nmt.inference.onnx.engine import OnnxEngine, graph_encoder, open_session

        ending, step = GRAPH_SUFFIX[self.precision], "step.short" if self.shortlist else "step"
        if self.torch_encodes:
            from nmt.inference.onnx.torch_encoder import torch_encoder

            encode = torch_encoder(self.folder.parent, threads=self.threads, trust=self.trust)
        else:
            encode = graph_encoder(_verified(self.folder / f"encode{ending}.onnx", self.checksums), self.threads)
        return OnnxEngine(
            encode,
            open_session(_verified(self.folder / f"{step}{ending}.onnx", self.checksums), self.threads),
            # No products worth another precision.
            open_session(_verified(self.folder / "align.onnx", self.checksums), self.threads),
            vocabulary=len(self.target),
            shortlist=Shortlist.load(self.folder / SHORTLIST) if self.shortlist else None,
        )


def there(run: Path) -> list[Precision]:
    """The engines whose graphs stand in the run's folder and belong to its model, the fastest first."""
    folder = run / FOLDER
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(about, dict) or about.get("format") != FORMAT or not (run / "model.pt").is_file():
        return []
    if about.get("model") != archive_fingerprint(run / "model.pt"):
        return []
    return [name for name in reversed(GRAPH_SUFFIX) if (folder / f"step{GRAPH_SUFFIX[name]}.onnx").is_file()]


def fastest(run: Path, device: str) -> Precision | Literal["torch"]:
    """The engine that translates fastest of those that the run's folder has for this device."""
    found = there(run) if device in ("auto", "cpu") else []
    return found[0] if found else "torch"


def open_onnx(
    run: Path,
    precision: Precision,
    *,
    threads: int | None = None,
    shortlist: bool = False,
    trust: Sequence[str] = (),
) -> OnnxModel:
    """The exported model of a run's folder. Raises UserError where it is not there, or of another model."""
    folder = run / FOLDER
    if not run.is_dir():
        raise UserError(f"model={run}: no such folder; name a folder that nmt-train has finished, such as runs/demo")
    if precision not in there(run):
        why = "graphs of another model, or of another version, are" if (folder / ABOUT).is_file() else "no graphs are"
        raise UserError(f"engine={precision}: {why} in {folder}; write them with nmt-export model={run}")
    if shortlist and not (folder / SHORTLIST).is_file():
        raise UserError(f"shortlist=true: none is in {folder}; write one with nmt-export model={run} shortlist=50")
    about: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    try:
        lowercase, facts = bool(about["lowercase"]), AttentionFacts(**about["attention"])
        torch_encodes, checksums = about["encoder"] == "torch", {**about["checksums"]}
    except (KeyError, TypeError):
        raise UserError(f"{folder / ABOUT}: not what nmt-export writes; write it again") from None
    source = Tokenizer.from_file(_verified(folder / "source.model", checksums))
    joint = "target.model" not in checksums
    target = source if joint else Tokenizer.from_file(_verified(folder / "target.model", checksums))
    return OnnxModel(
        folder, checksums, precision, source, target, lowercase, facts, torch_encodes, threads, shortlist, trust
    )


def _verified(file: Path, checksums: Mapping[str, int]) -> Path:
    kind = "a graph" if file.suffix == ".onnx" else "a tokenizer"
    return verify_file(file, checksums, kind=kind, fix="write it again with nmt-export")
