"""The engine that needs no torch: onnxruntime runs the graphs, NumPy holds what goes from step to step."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from nmt.errors import UserError
from nmt.inference.onnx.layout import NEXT
from nmt.inference.onnx.shortlist import Shortlist
from nmt.search.engine import Floats, Integers
from nmt.text.specials import PAD

Fields = dict[str, np.ndarray]


class OnnxSource(NamedTuple):
    """A batch of encoded sentences, by the names that the graphs give their inputs."""

    memory: Fields
    state: Fields
    output: Fields  # the rows of the output layer that this batch may use; empty for all of them
    ids: Integers | None  # (C,) the pieces of these rows


class OnnxEngine:
    """Runs a model's graphs for search: ``nmt.search.engine.Engine``."""

    def __init__(
        self,
        encode: Callable[[Integers], Fields],
        step: Any,
        align: Any,
        *,
        vocabulary: int,
        shortlist: Shortlist | None,
    ) -> None:
        self._encode, self._step, self._align = encode, step, align
        self._vocabulary = vocabulary
        self._shortlist = shortlist
        self._read = {one.name for one in step.get_inputs()}
        self._state = [one.name.removesuffix(NEXT) for one in step.get_outputs() if one.name.endswith(NEXT)]
        self._aligned = {one.name for one in align.get_inputs()}

    def encode(self, sources: list[list[int]]) -> OnnxSource:
        """Memories of ``sources``, piece ids that end in EOS."""
        ids = np.full((len(sources), max(map(len, sources))), PAD, dtype=np.int64)
        for row, source in enumerate(sources):
            ids[row, : len(source)] = source
        found = self._encode(ids)
        state = {name: found.pop(name) for name in self._state}
        if self._shortlist is None:
            return OnnxSource(found, state, {}, None)
        allowed = self._shortlist.candidates(sources)
        output = {"output.weight": self._shortlist.weight[allowed], "output.bias": self._shortlist.bias[allowed]}
        return OnnxSource(found, state, output, allowed)

    def init(self, source: OnnxSource) -> OnnxSource:
        """One empty hypothesis for each sentence."""
        return source

    def step(
        self, live: OnnxSource, tokens: Integers, parents: Integers, k: int, banned: Sequence[int] | None = None
    ) -> tuple[OnnxSource, Floats, Integers, Floats]:
        """The k best continuations of each hypothesis: log-probabilities, ids (B, N, k), read weights (B, N, R)."""
        # The graph knows no banned ids: of so many more candidates, k at least are none.
        spare = len(banned or ())
        count = np.array([min(k + spare, self._vocabulary if live.ids is None else len(live.ids))])
        given = {**live.memory, **live.state, **live.output, "tokens": tokens, "parents": parents, "k": count}
        log_probs, ids, weights, *state = self._step.run(None, {name: given[name] for name in self._read})
        if live.ids is not None:
            ids = live.ids[ids]
        if spare:
            out = np.isin(ids, np.asarray(banned))
            chosen = np.argsort(out, axis=2, kind="stable")[..., :k]
            log_probs = np.take_along_axis(np.where(out, -np.inf, log_probs), chosen, axis=2)
            ids = np.take_along_axis(ids, chosen, axis=2)
        return live._replace(state=dict(zip(self._state, state, strict=True))), log_probs, ids, weights

    def drop(self, live: OnnxSource, keep: Integers) -> OnnxSource:
        """Only the sentences ``keep`` (row numbers), in that order."""
        memory, state = ({name: field[keep] for name, field in part.items()} for part in (live.memory, live.state))
        return live._replace(memory=memory, state=state)

    def align(self, source: OnnxSource, row: int, weights: Floats) -> Floats:
        """Raw alignment (T, S) of one sentence from its read weights (T, R); S counts the batch's padding."""
        one = {name: field[row : row + 1] for name, field in source.memory.items() if name in self._aligned}
        alignment: Floats = self._align.run(None, {**one, "weights": weights[None].astype(np.float32)})[0][0]
        return alignment


def graph_encoder(file: Path, threads: int | None) -> Callable[[Integers], Fields]:
    """From ids (B, S) to memory and state, by the graph in ``file``."""
    session = open_session(file, threads)
    names = [one.name for one in session.get_outputs()]
    return lambda ids: dict(zip(names, session.run(names, {"ids": ids}), strict=True))


def open_session(file: Path, threads: int | None) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or _cores()
    options.log_severity_level = 3
    # Threads that wait by spinning keep the cores from the next graph's threads: half of the speed.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exceptions have no base class of their own
        reason = " ".join(str(error).split())[:120]
        raise UserError(f"{file}: cannot be read as a graph ({reason}); write it again with nmt-export") from None


def _cores() -> int:
    """The cores that this process may use; where the system does not say (macOS, Windows), all that there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
