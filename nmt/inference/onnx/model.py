"""An exported model: ONNX graphs, tokenizers and ``about.json`` in the folder ``onnx`` of a run, or alone.

``encode.onnx`` maps ids to the memory and the first state, ``step.onnx`` adds one piece to every hypothesis, and
``align.onnx`` maps read weights to an alignment. ``search.onnx`` repeats the step, and searches for one sentence.
``*.int8.onnx`` are the same graphs with matrix products in 8-bit integers. ``step.short*.onnx`` and
``search.short*.onnx`` take the output layer's rows for a batch's shortlist as an input; ``shortlist.npz`` holds the
shortlist and these rows. The step and search graphs share their weights, in ``weights*.bin``. ``about.json`` has a
checksum of each file, because onnxruntime does not notice a few changed bytes. A deployment is a folder of these files
without ``model.pt`` and without a subfolder.
"""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from nmt.errors import UserError
from nmt.files.checksum import archive_fingerprint, verify_file
from nmt.files.reading import read_json
from nmt.inference.engines import (
    ABOUT,
    FOLDER,
    FORMAT,
    GRAPH_SUFFIX,
    SHORTLIST,
    WEIGHTS,
    LoadSettings,
    OnnxEngineName,
    Properties,
)
from nmt.inference.onnx.shortlist import Shortlist
from nmt.inference.run_files import MODEL_FILE
from nmt.settings.build import build, problems
from nmt.system.machine import usable_cores
from nmt.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nmt.inference.onnx.engine import OnnxEngine

ALIGN = "align.onnx"
BATCH_HYPOTHESES = 160
"""Larger batches take longer per line: the scores of their pieces do not fit in a cache, and they share a longer
shortlist (benchmarks/LOG.md)."""
FEW_HYPOTHESES = 10
"""Up to this number of hypotheses, 8-bit products take less time than waking a second thread."""
_LOADING = Lock()  # threads that ask for the same engine wait for the first one to load it


EncoderName = Literal["onnx", "torch"]


@dataclass(frozen=True, kw_only=True)
class About(Properties):
    """The content of ``about.json``."""

    format: int
    model: str
    """The fingerprint of the exported model."""
    encoder: EncoderName
    """``torch`` if torch encodes the sources, because the attention writes the source states one by one."""
    checksums: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class OnnxModel:
    """An exported model (``nmt.inference.engines.LoadedModel``), run by onnxruntime."""

    root: Path
    """The folder of the run, or of the deployment."""
    folder: Path
    """The folder of the graphs."""
    settings: LoadSettings
    properties: About
    engine_name: OnnxEngineName
    source: Tokenizer
    target: Tokenizer
    process: int = field(default_factory=os.getpid, init=False, compare=False)
    """The process that loaded the model."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open_onnx, (self.root, replace(self.settings, engine=self.engine_name))  # sessions cannot be pickled

    @property
    def torch_encodes(self) -> bool:
        return self.properties.encoder == "torch"

    @property
    def thread_count(self) -> int:
        """The number of CPU threads: that of the settings, or of all cores; 1 in a forked child.

        The threads of onnxruntime end in a fork, and a child that gave them work would wait for ever.
        """
        return 1 if os.getpid() != self.process else self.settings.threads or usable_cores()

    @property
    def workers(self) -> int:
        # The kernels of torch reuse buffers, so that only one batch at a time may be encoded.
        return 1 if self.torch_encodes else self.thread_count

    @property
    def max_hypotheses(self) -> int:
        return BATCH_HYPOTHESES

    def engine(self, *, trace: bool, beside_others: bool = False, hypotheses: int | None = None) -> OnnxEngine:
        """Return the engine, which is created once. Its graphs support alignments with or without ``trace``.

        Each of the two kinds loads the graphs when it is first used: onnxruntime has no thread limit per call.
        """
        few = hypotheses is not None and hypotheses <= FEW_HYPOTHESES
        # The number of threads of torch belongs to the process, so an encoder in torch keeps all threads.
        one_is_faster = few and self.engine_name == "onnx-int8" and not self.torch_encodes
        single = beside_others or one_is_faster or self.thread_count == 1
        with _LOADING:
            return self._single_thread if single else self._all_threads

    def load_graphs(self) -> None:
        """Load all graphs now. Otherwise, each kind of engine loads those that it needs when it first needs them."""
        for beside_others in (False, True):
            _ = self.engine(trace=False, beside_others=beside_others).search_graph

    @cached_property
    def step_name(self) -> str:
        """The name of the step graph's file."""
        return f"{'step.short' if self.settings.shortlist else 'step'}{GRAPH_SUFFIX[self.engine_name]}.onnx"

    @property
    def search_name(self) -> str:
        """The name of the file of the graph that searches for one sentence."""
        return self.step_name.replace("step", "search", 1)

    @cached_property
    def encode_name(self) -> str:
        """The name of the encoder's file."""
        return f"encode{GRAPH_SUFFIX[self.engine_name]}.onnx"

    def verify(self) -> None:
        """Raise UserError if a file that this model needs is missing, damaged or replaced, without loading it."""
        names = [self.step_name, self.search_name, ALIGN, f"{WEIGHTS}{GRAPH_SUFFIX[self.engine_name]}.bin"]
        names += [] if self.torch_encodes else [self.encode_name]
        names += [SHORTLIST] if self.settings.shortlist else []
        for name in names:
            verified(self.folder / name, self.properties.checksums)

    @cached_property
    def _all_threads(self) -> OnnxEngine:
        return self._load(self.settings.threads)

    @cached_property
    def _single_thread(self) -> OnnxEngine:
        return self._load(1)

    def _load(self, threads: int | None) -> OnnxEngine:
        from nmt.inference.onnx.engine import OnnxEngine, graph_encoder, open_session

        self.verify()
        if self.torch_encodes:
            from nmt.inference.onnx.graphs import torch_encoder

            encode = torch_encoder(self.root, threads=threads, trust=self.settings.trust)
        else:
            encode = graph_encoder(self.folder / self.encode_name, threads)
        search = self.folder / self.search_name
        return OnnxEngine(
            encode,
            open_session(self.folder / self.step_name, threads),
            # This graph is never quantised: its products are too small to matter.
            open_session(self.folder / ALIGN, threads),
            # Verified again: a graph of a later export would take the memories of this encoder for its own.
            open_search=lambda: open_session(verified(search, self.properties.checksums), threads),
            vocabulary=len(self.target),
            shortlist=self._load_shortlist() if self.settings.shortlist else None,
            folder=self.folder,
        )

    def _load_shortlist(self) -> Shortlist:
        sizes = {"source_vocabulary": len(self.source), "target_vocabulary": len(self.target)}
        return Shortlist.load(self.folder / SHORTLIST, **sizes)


def verified(file: Path, checksums: Mapping[str, int]) -> Path:
    """Return ``file`` if its checksum is the recorded one; raise UserError otherwise."""
    kind = {".onnx": "a graph", ".bin": "weights", ".npz": "a shortlist"}.get(file.suffix, "a tokenizer")
    return verify_file(file, checksums, kind=kind, fix="write it again with nmt-export")


def is_deployment(root: Path) -> bool:
    """Return whether ``root`` is a deployment: an export that needs no ``model.pt``."""
    return (root / ABOUT).is_file() and not (root / MODEL_FILE).is_file()


class _Export:
    """The files of an export, in the folder ``onnx`` of a run or in a deployment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.deployed = is_deployment(root)
        self.folder = root if self.deployed else root / FOLDER
        self.command = (
            "nmt-export model=RUN output=FOLDER" if self.deployed else shlex.join(["nmt-export", f"model={root}"])
        )
        try:
            about = read_json(self.folder / ABOUT)
        except (OSError, ValueError):
            about = {}
        self.about: dict[str, Any] = about if isinstance(about, dict) else {}
        recorded = self.about.get("checksums")
        self.checksums: dict[str, int] = recorded if isinstance(recorded, dict) else {}

    @cached_property
    def engines(self) -> list[OnnxEngineName]:
        """The engines that have graphs of this format and of the present model, in the order of ``GRAPH_SUFFIX``."""
        model = self.root / MODEL_FILE
        if self.about.get("format") != FORMAT:
            return []
        if not self.deployed and not (model.is_file() and self.about.get("model") == archive_fingerprint(model)):
            return []
        files = {*os.listdir(self.folder), *self.checksums}
        return [name for name, suffix in GRAPH_SUFFIX.items() if f"step{suffix}.onnx" in files]

    @property
    def problem(self) -> str:
        """Why an engine is not among ``engines``, and how to get it."""
        if self.engines:
            return f"{self.folder} has graphs of engine={self.engines[0]} only; write both with {self.command}"
        found = "graphs of another model or version" if (self.folder / ABOUT).is_file() else "no graphs"
        return f"{self.folder} has {found}; write them with {self.command}"

    def open(self, engine_name: OnnxEngineName, settings: LoadSettings) -> OnnxModel:
        """Load the model for one of the ``engines``. Raises UserError if files are missing or damaged."""
        if settings.shortlist and not (self.folder / SHORTLIST).is_file():
            raise UserError(
                f"shortlist=true: {self.folder} has no shortlist; write one with {self.command} shortlist=20"
            )
        if any(problems(self.about, About, "")) or not self.checksums:
            raise UserError(f"{self.folder / ABOUT}: not a file that nmt-export writes; write it again")
        about = build(About, self.about)
        if about.encoder == "torch" and self.deployed:
            raise UserError(f"model={self.root}: torch has to encode the source; name the folder of the training run")
        source = Tokenizer.from_file(verified(self.folder / "source.model", self.checksums))
        joint = "target.model" not in self.checksums
        target = source if joint else Tokenizer.from_file(verified(self.folder / "target.model", self.checksums))
        return OnnxModel(
            root=self.root,
            folder=self.folder,
            settings=settings,
            properties=about,
            engine_name=engine_name,
            source=source,
            target=target,
        )


def exported_engines(root: Path) -> list[OnnxEngineName]:
    """Return the ONNX engines that a run's folder or a deployment has graphs for, in the order of ``GRAPH_SUFFIX``.

    Graphs of another model, or of another export format, do not count.
    """
    return _Export(root).engines


def open_preferred(root: Path, settings: LoadSettings) -> OnnxModel | None:
    """Load the export that ``engine=auto`` uses; None if torch has to be used.

    If a run's folder has graphs that cannot be used, a warning says why. Raises UserError instead if the settings ask
    for a shortlist, because torch has none, or if ``root`` is a deployment.
    """
    export = _Export(root)
    if not export.deployed and not (export.folder.is_dir() and (root / MODEL_FILE).is_file()):
        return None
    if (device := settings.device) not in ("auto", "cpu"):
        if export.deployed:
            raise UserError(f"device={device}: {root} holds only ONNX graphs, which run on the CPU; remove device=")
        return None
    try:
        if not export.engines:
            raise UserError(export.problem)
        model = export.open(export.engines[0], settings)
        model.verify()  # loaded later, with as many threads as the work needs
    except UserError as error:
        if export.deployed or (settings.shortlist and export.engines):
            raise
        warnings.warn(f"{error}; engine=auto uses torch", stacklevel=4)
        return None
    return model


def open_onnx(root: Path, settings: LoadSettings) -> OnnxModel:
    """Load the export of a run's folder, or a deployment, for the ONNX engine of the settings.

    Raises UserError if it is missing, damaged or of another model.
    """
    engine = settings.engine
    if settings.device not in ("auto", "cpu"):
        raise UserError(f"device={settings.device}: engine={engine} runs on the CPU; use engine=torch")
    if not root.is_dir():
        raise UserError(f"model={root}: no such folder; name a folder that nmt-train has finished, such as runs/demo")
    export = _Export(root)
    if engine in ("auto", "torch") or engine not in export.engines:
        raise UserError(f"engine={engine}: {export.problem}")
    return export.open(engine, settings)
