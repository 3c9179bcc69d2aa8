"""An exported model that onnxruntime runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from nmt.files.checksum import verify_file
from nmt.inference.engines import GRAPH_SUFFIX, OnnxEngineName
from nmt.inference.onnx.layout import SHORTLIST
from nmt.inference.onnx.shortlist import Shortlist
from nmt.inference.runtime import AttentionFacts
from nmt.machine import usable_cores
from nmt.text.invisible import Invisible
from nmt.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nmt.inference.onnx.engine import OnnxEngine

ALIGN = "align.onnx"
FEW_HYPOTHESES = 10
"""Up to this number of hypotheses, 8-bit products take less time than waking a second thread."""
_LOADING = [Lock()]  # threads that ask for the same engine wait for the first one to load it


def _forget_loading() -> None:
    """Replace the lock in a forked child: a thread of the parent may have held it."""
    _LOADING[0] = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loading)


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
    remove_invisible: Invisible | None = None
    score_tokenizer: str | None = None
    process: int = field(default_factory=os.getpid, init=False, compare=False)
    """The process that loaded the model."""

    @property
    def thread_count(self) -> int:
        """The number of CPU threads: ``threads``, or that of all cores; 1 in a forked child.

        The threads of onnxruntime end in a fork, and a child that gave them work would wait for ever.
        """
        if os.getpid() != self.process:
            return 1
        return self.threads or usable_cores()

    @property
    def workers(self) -> int:
        # The kernels of torch reuse buffers, so that only one batch at a time may be encoded.
        return 1 if self.torch_encodes else self.thread_count

    def engine(self, *, trace: bool, beside_others: bool = False, hypotheses: int | None = None) -> OnnxEngine:
        """Return the engine, which is created once. Its graphs support alignments with or without ``trace``.

        Each of the two kinds loads the graphs when it is first used: onnxruntime has no thread limit per call.
        """
        few = hypotheses is not None and hypotheses <= FEW_HYPOTHESES
        # The number of threads of torch belongs to the process, so an encoder in torch keeps all threads.
        one_is_faster = few and self.engine_name == "onnx-int8" and not self.torch_encodes
        single = beside_others or one_is_faster or self.thread_count == 1
        with _LOADING[0]:
            return self._single_thread if single else self._all_threads

    @cached_property
    def step_name(self) -> str:
        """The name of the step graph's file."""
        return f"{'step.short' if self.shortlist else 'step'}{GRAPH_SUFFIX[self.engine_name]}.onnx"

    @cached_property
    def encode_name(self) -> str:
        """The name of the encoder's file."""
        return f"encode{GRAPH_SUFFIX[self.engine_name]}.onnx"

    def verify(self) -> None:
        """Raise UserError if a file that this model needs is missing or damaged, without loading it."""
        names = [self.step_name, ALIGN, *([] if self.torch_encodes else [self.encode_name])]
        for name in names + ([SHORTLIST] if self.shortlist else []):
            verified(self.folder / name, self.checksums)

    @cached_property
    def _all_threads(self) -> OnnxEngine:
        return self._load(self.threads)

    @cached_property
    def _single_thread(self) -> OnnxEngine:
        return self._load(1)

    def _load(self, threads: int | None) -> OnnxEngine:
        from nmt.inference.onnx.engine import OnnxEngine, graph_encoder, open_session

        self.verify()
        if self.torch_encodes:
            from nmt.inference.onnx.torch_encoder import torch_encoder

            encode = torch_encoder(self.folder.parent, threads=threads, trust=self.trust)
        else:
            encode = graph_encoder(self.folder / self.encode_name, threads)
        return OnnxEngine(
            encode,
            open_session(self.folder / self.step_name, threads),
            # This graph is never quantised: its products are too small to matter.
            open_session(self.folder / ALIGN, threads),
            vocabulary=len(self.target),
            shortlist=self._load_shortlist() if self.shortlist else None,
            folder=self.folder,
        )

    def _load_shortlist(self) -> Shortlist:
        sizes = {"source_vocabulary": len(self.source), "target_vocabulary": len(self.target)}
        return Shortlist.load(self.folder / SHORTLIST, **sizes)


def verified(file: Path, checksums: Mapping[str, int]) -> Path:
    """Return ``file`` if its checksum is the recorded one; raise UserError otherwise."""
    kind = {".onnx": "a graph", ".npz": "a shortlist"}.get(file.suffix, "a tokenizer")
    return verify_file(file, checksums, kind=kind, fix="write it again with nmt-export")
