"""Load an exported model: ONNX graphs, tokenizers and ``about.json`` in the folder ``onnx`` of a run.

``encode.onnx`` maps ids to the memory and the first state, ``step.onnx`` adds one piece to every hypothesis, and
``align.onnx`` maps read weights to an alignment. ``*.int8.onnx`` are the same graphs with matrix products in 8-bit
integers. ``step.short*.onnx`` take the output layer's rows for a batch's shortlist as an input; ``shortlist.npz`` holds
the shortlist and these rows. ``about.json`` has a checksum of each graph and tokenizer, because onnxruntime does not
notice a few changed bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import UserError
from nmt.inference.engines import GRAPH_SUFFIX, OnnxEngineName
from nmt.inference.onnx.layout import ABOUT, FOLDER, FORMAT, SHORTLIST
from nmt.inference.onnx.shortlist import Shortlist
from nmt.inference.runtime import AttentionFacts
from nmt.reading import read_json
from nmt.storage import archive_fingerprint, verify_file
from nmt.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nmt.inference.onnx.engine import OnnxEngine


@dataclass(frozen=True)
class OnnxModel:
    """An exported model (``nmt.inference.runtime.Runtime``), run by onnxruntime."""

    folder: Path
    checksums: Mapping[str, int]
    engine_name: OnnxEngineName
    source: Tokenizer
    target: Tokenizer
    lowercase: bool
    attention: AttentionFacts
    torch_encodes: bool
    """True if torch encodes the sources, because the attention writes one source state after the other."""
    threads: int | None = None
    shortlist: bool = False
    trust: Sequence[str] = ()

    def engine(self, *, trace: bool) -> OnnxEngine:
        """Return the engine, which is created once. Its graphs support alignments with or without ``trace``."""
        return self._engine

    @cached_property
    def _engine(self) -> OnnxEngine:
        from nmt.inference.onnx.engine import OnnxEngine, graph_encoder, open_session

        ending, step = GRAPH_SUFFIX[self.engine_name], "step.short" if self.shortlist else "step"
        names = [f"{step}{ending}.onnx", "align.onnx"]
        names += [] if self.torch_encodes else [f"encode{ending}.onnx"]
        for name in names + ([SHORTLIST] if self.shortlist else []):
            _verified(self.folder / name, self.checksums)
        if self.torch_encodes:
            from nmt.inference.onnx.torch_encoder import torch_encoder

            encode = torch_encoder(self.folder.parent, threads=self.threads, trust=self.trust)
        else:
            encode = graph_encoder(self.folder / f"encode{ending}.onnx", self.threads)
        return OnnxEngine(
            encode,
            open_session(self.folder / f"{step}{ending}.onnx", self.threads),
            # This graph is never quantised: its products are too small to matter.
            open_session(self.folder / "align.onnx", self.threads),
            vocabulary=len(self.target),
            shortlist=self._load_shortlist() if self.shortlist else None,
        )

    def _load_shortlist(self) -> Shortlist:
        sizes = {"source_vocabulary": len(self.source), "target_vocabulary": len(self.target)}
        return Shortlist.load(self.folder / SHORTLIST, **sizes)


def exported_engines(run: Path) -> list[OnnxEngineName]:
    """Return the ONNX engines that the run's folder has graphs for, fastest first.

    Graphs of another model, or of another export format, do not count.
    """
    folder = run / FOLDER
    about = _read_about(folder)
    if about.get("format") != FORMAT or not (run / "model.pt").is_file():
        return []
    if about.get("model") != archive_fingerprint(run / "model.pt"):
        return []
    return [name for name, suffix in GRAPH_SUFFIX.items() if (folder / f"step{suffix}.onnx").is_file()]


def _read_about(folder: Path) -> dict[str, Any]:
    """Return the content of ``about.json``; nothing if it is missing or damaged."""
    try:
        about = read_json(folder / ABOUT)
    except (OSError, ValueError):
        about = {}
    return about if isinstance(about, dict) else {}


def open_fastest(
    run: Path, device: str, *, threads: int | None = None, shortlist: bool = False, trust: Sequence[str] = ()
) -> OnnxModel | None:
    """Load the fastest exported model of the run's folder, ready to run; None if torch has to be used.

    If the folder has graphs that cannot be used, a warning says why. Raises UserError instead if ``shortlist`` is set,
    because torch has none.
    """
    if device not in ("auto", "cpu") or not (run / FOLDER).is_dir() or not (run / "model.pt").is_file():
        return None
    engines = exported_engines(run)
    if not engines:
        warnings.warn(f"{run / FOLDER} {_unusable(run)}; engine=auto uses torch", stacklevel=3)
        return None
    try:
        model = open_onnx(run, engines[0], threads=threads, shortlist=shortlist, trust=trust)
        model.engine(trace=False)  # reads the graphs
    except UserError as error:
        if shortlist:
            raise
        warnings.warn(f"{error}; engine=auto uses torch", stacklevel=3)
        return None
    return model


def _unusable(run: Path) -> str:
    """Return why the run's folder offers no ONNX engine, and how to get one."""
    stored = _read_about(run / FOLDER).get("format")
    if type(stored) is int and stored != FORMAT:
        problem = f"has graphs of format {stored}, but this version reads format {FORMAT}"
    elif (run / FOLDER / ABOUT).is_file():
        problem = "has graphs of another model or of another version"
    else:
        problem = "has no graphs"
    return f"{problem}; write them with nmt-export model={run}"


def open_onnx(
    run: Path,
    engine_name: OnnxEngineName,
    *,
    threads: int | None = None,
    shortlist: bool = False,
    trust: Sequence[str] = (),
) -> OnnxModel:
    """Load the exported model of a run's folder. Raises UserError if it is missing, damaged or of another model."""
    folder = run / FOLDER
    if not run.is_dir():
        raise UserError(f"model={run}: no such folder; name a folder that nmt-train has finished, such as runs/demo")
    if engine_name not in exported_engines(run):
        raise UserError(f"engine={engine_name}: {folder} {_unusable(run)}")
    if shortlist and not (folder / SHORTLIST).is_file():
        raise UserError(
            f"shortlist=true: {folder} has no shortlist; write one with nmt-export model={run} shortlist=50"
        )
    about = _read_about(folder)
    try:
        lowercase, facts = bool(about["lowercase"]), _facts(about["attention"])
        torch_encodes, checksums = about["encoder"] == "torch", {**about["checksums"]}
    except (KeyError, TypeError):
        raise UserError(f"{folder / ABOUT}: not a file that nmt-export writes; write it again") from None
    source = Tokenizer.from_file(_verified(folder / "source.model", checksums))
    joint = "target.model" not in checksums
    target = source if joint else Tokenizer.from_file(_verified(folder / "target.model", checksums))
    return OnnxModel(
        folder, checksums, engine_name, source, target, lowercase, facts, torch_encodes, threads, shortlist, trust
    )


def _facts(stored: Mapping[str, Any]) -> AttentionFacts:
    """Raise TypeError unless ``stored`` holds the facts that nmt-export writes, with their types."""
    facts, limit = AttentionFacts(**stored), stored["max_source_length"]
    if not isinstance(facts.class_name, str) or type(facts.reads_source) is not bool or type(facts.signed) is not bool:
        raise TypeError("attention")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise TypeError("attention.max_source_length")
    return facts


def _verified(file: Path, checksums: Mapping[str, int]) -> Path:
    kind = {".onnx": "a graph", ".npz": "a shortlist"}.get(file.suffix, "a tokenizer")
    return verify_file(file, checksums, kind=kind, fix="write it again with nmt-export")
