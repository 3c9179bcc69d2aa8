"""An exported model: ONNX graphs, tokenizers and ``about.json`` in the folder ``onnx`` of a run, or alone.

``encode.onnx`` maps ids to the memory and the first state, ``step.onnx`` adds one piece to every hypothesis, and
``align.onnx`` maps read weights to an alignment. ``search.onnx`` and ``greedy.onnx`` repeat the step, and search for
one sentence. ``*.int8.onnx`` are the same graphs with matrix products in 8-bit integers. ``*.short*.onnx`` take the
output layer's rows for a batch's shortlist as an input; ``shortlist.npz`` holds the shortlist and these rows. Weights
lie beside the graphs, in ``weights*.bin``. ``about.json`` has a checksum of each file, because onnxruntime does not
notice a few changed bytes. A deployment is a folder of these files without ``model.pt`` and without a subfolder.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

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
    EngineName,
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


@dataclass(frozen=True, kw_only=True)
class About(Properties):
    """The content of ``about.json``."""

    format: int
    model: str
    """The fingerprint of the exported model."""
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
    engines: dict[int | None, OnnxEngine] = field(default_factory=dict, init=False, compare=False)
    """The engines that have been loaded, by their number of threads: onnxruntime has no limit of threads per call."""
    versions: dict[Path, Any] = field(default_factory=dict, init=False, compare=False)
    """The files that have been verified, and what changes when a file does."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open_onnx, (self.root, replace(self.settings, engine=self.engine_name))  # sessions cannot be pickled

    @property
    def workers(self) -> int:
        """The number of CPU threads: that of the settings, or of all cores; 1 in a forked child.

        The threads of onnxruntime end in a fork, and a child that gave them work would wait for ever.
        """
        return 1 if os.getpid() != self.process else self.settings.threads or usable_cores()

    @property
    def max_hypotheses(self) -> int:
        return BATCH_HYPOTHESES

    def engine(self, *, trace: bool, beside_others: bool = False, hypotheses: int | None = None) -> OnnxEngine:
        """Return the engine, which supports alignments with or without ``trace``. Its graphs are loaded once."""
        few = hypotheses is not None and hypotheses <= FEW_HYPOTHESES and self.engine_name == "onnx-int8"
        threads = 1 if beside_others or few or self.workers == 1 else self.settings.threads
        with _LOADING:
            if threads not in self.engines:
                self.engines[threads] = self._load(threads)
            return self.engines[threads]

    def load_graphs(self, beam_size: int) -> None:
        """Load the graphs that searches of this size need. Otherwise, each is loaded when it is first needed."""
        for beside_others in (False, True):
            engine = self.engine(trace=False, beside_others=beside_others)
            for kind in ("step", "search", "align", *["greedy"] * (beam_size == 1)):
                engine.graph(kind)

    def graph(self, kind: str) -> Path:
        """Return the file of the graph of this kind: ``encode``, ``step``, ``search``, ``greedy`` or ``align``."""
        if kind == "align":
            return self.folder / ALIGN  # never quantised: its products are too small to matter
        short = ".short" if self.settings.shortlist and kind != "encode" else ""
        return self.folder / f"{kind}{short}{GRAPH_SUFFIX[self.engine_name]}.onnx"

    def verify(self) -> None:
        """Raise UserError if a file that this model needs is missing, damaged or replaced, without loading it.

        A file is read again only if it has changed.
        """
        files = [self.graph(kind) for kind in ("encode", "step", "search", "greedy", "align")]
        names = [f"{WEIGHTS}{GRAPH_SUFFIX[self.engine_name]}.bin", *[SHORTLIST] * self.settings.shortlist]
        for file in (*files, *(self.folder / name for name in names)):
            found = file.stat() if file.is_file() else None
            version = found and (found.st_ino, found.st_size, found.st_mtime_ns)
            if version is None or self.versions.get(file) != version:
                verified(file, self.properties)
                self.versions[file] = version

    def _load(self, threads: int | None) -> OnnxEngine:
        from nmt.inference.onnx.engine import Graph, OnnxEngine, graph_encoder, open_session

        def open_graph(kind: str) -> Graph:
            self.verify()  # a graph of a later export would take the memories of this encoder for its own
            return open_session(self.graph(kind), threads)

        self.verify()
        sizes = {"source_vocabulary": len(self.source), "target_vocabulary": len(self.target)}
        return OnnxEngine(
            graph_encoder(self.graph("encode"), threads),
            open_graph,
            vocabulary=len(self.target),
            shortlist=Shortlist.load(self.folder / SHORTLIST, **sizes) if self.settings.shortlist else None,
            folder=self.folder,
        )


def verified(file: Path, about: About) -> Path:
    """Return ``file`` if its checksum is the recorded one; raise UserError otherwise."""
    return verify_file(file, about.checksums, kind="a part of the model", fix="write it again with nmt-export")


def is_deployment(root: Path) -> bool:
    """Return whether ``root`` is a deployment: an export that needs no ``model.pt``."""
    return (root / ABOUT).is_file() and not (root / MODEL_FILE).is_file()


class _Export:
    """The files of an export, in the folder ``onnx`` of a run or in a deployment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.deployed = is_deployment(root)
        self.folder = root if self.deployed else root / FOLDER
        self.about = self._read_about()
        checksums = {} if self.about is None else self.about.checksums
        self.engines = [name for name, suffix in GRAPH_SUFFIX.items() if f"step{suffix}.onnx" in checksums]
        """The engines that have graphs of this format and of the present model, in the order of ``GRAPH_SUFFIX``."""

    def _read_about(self) -> About | None:
        """Return what ``about.json`` says, or None if it is of another format or of another model."""
        try:
            content = read_json(self.folder / ABOUT)
        except (OSError, ValueError):
            return None
        if not isinstance(content, dict) or content.get("format") != FORMAT or any(problems(content, About)):
            return None
        about = build(About, content)
        model = self.root / MODEL_FILE
        is_current = self.deployed or (model.is_file() and about.model == archive_fingerprint(model))
        return about if is_current else None

    @property
    def command(self) -> str:
        """The command that writes this export."""
        import shlex

        return (
            "nmt-export model=RUN output=FOLDER" if self.deployed else shlex.join(["nmt-export", f"model={self.root}"])
        )

    @property
    def problem(self) -> str:
        """Why an engine is not among ``engines``, and how to get it."""
        if self.engines:
            return f"{self.folder} has graphs of engine={self.engines[0]} only; write both with {self.command}"
        found = "graphs of another model or version" if (self.folder / ABOUT).is_file() else "no graphs"
        return f"{self.folder} has {found}; write them with {self.command}"

    def open(self, engine: EngineName, settings: LoadSettings) -> OnnxModel:
        """Load the model for an engine. Raises UserError if it has none, or if files are missing or damaged."""
        about = self.about
        name = next((name for name in self.engines if engine in ("auto", name)), None)
        if about is None or name is None:
            raise UserError(f"engine={engine}: {self.problem}")
        if settings.shortlist and SHORTLIST not in about.checksums:
            raise UserError(
                f"shortlist=true: {self.folder} has no shortlist; write one with {self.command} shortlist=20"
            )
        source = Tokenizer.from_file(verified(self.folder / "source.model", about))
        joint = "target.model" not in about.checksums
        target = source if joint else Tokenizer.from_file(verified(self.folder / "target.model", about))
        return OnnxModel(
            root=self.root,
            folder=self.folder,
            settings=settings,
            properties=about,
            engine_name=name,
            source=source,
            target=target,
        )


def exported_engines(root: Path) -> list[OnnxEngineName]:
    """Return the ONNX engines that a run's folder or a deployment has graphs for, in the order of ``GRAPH_SUFFIX``.

    Graphs of another model, or of another export format, do not count.
    """
    return _Export(root).engines


def open_onnx(root: Path, settings: LoadSettings) -> OnnxModel | None:
    """Load the export of a run's folder, or a deployment, for the ONNX engine of the settings.

    Raises UserError if it is missing, damaged or of another model. ``engine=auto`` takes the first engine of an export,
    or returns None if torch has to be used. If a run has graphs that cannot be used, a warning says why, or UserError
    if the settings ask for a shortlist, because torch has none.
    """
    export, engine = _Export(root), settings.engine
    needed = engine != "auto" or export.deployed
    if not needed and not (export.folder.is_dir() and (root / MODEL_FILE).is_file()):
        return None
    if (device := settings.device) not in ("auto", "cpu"):
        if needed:
            raise UserError(f"device={device}: ONNX graphs run on the CPU; remove device=, or use engine=torch")
        return None
    if engine != "auto" and not root.is_dir():
        raise UserError(f"model={root}: no such folder; name a folder that nmt-train has finished, such as runs/demo")
    try:
        model = export.open(engine, settings)
        if engine == "auto":
            model.verify()  # loaded later, with as many threads as the work needs
    except UserError as error:
        if needed or (settings.shortlist and export.engines):
            raise
        warnings.warn(f"{error}; engine=auto uses torch", stacklevel=4)
        return None
    return model
