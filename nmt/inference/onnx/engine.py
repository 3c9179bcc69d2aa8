"""The search engine without torch: onnxruntime runs the graphs, and NumPy arrays hold the state between steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

# Otherwise onnxruntime writes an identifier of the machine into the home folder and, as documented, sends events.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

from nmt.errors import SourceTooLong, UserError, reason
from nmt.inference.engines import (
    ALL_LOG_PROBS,
    NEXT,
    OUTPUT_SCALE,
    SEARCH,
    SPARE,
)
from nmt.inference.onnx.shortlist import Shortlist
from nmt.search.engine import Floats, Integers, padded
from nmt.search.one_sentence import OneSearch
from nmt.search.options import SearchOptions
from nmt.search.scoring import length_penalty
from nmt.system.machine import is_out_of_memory, usable_cores

Fields = dict[str, np.ndarray]
SEARCHED = [f"{SEARCH}all_{name}" for name in ("ranked", "ranked_tokens", "ranked_parents", "places")]
MAX_STEPS = 500  # of a search in one call


class Graph(onnxruntime.InferenceSession):  # type: ignore[misc]
    """A graph of ``file``, whose errors name this file. ``inputs`` and ``outputs`` are names."""

    file: Path

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.inputs = [field.name for field in self.get_inputs()]  # fails if a name is not UTF-8
        self.outputs = [field.name for field in self.get_outputs()]

    def run(self, *arguments: Any) -> Any:
        """Return the outputs. Raises UserError, or the error of onnxruntime if there is too little RAM."""
        try:
            return super().run(*arguments)
        except Exception as error:  # onnxruntime's exceptions have no common base class
            if is_out_of_memory(error):
                raise
            if "out of data bounds" in str(error):  # of weights per source position
                raise SourceTooLong("the source is longer than the attention can hold; split it") from None
            raise UserError(f"{self.file}: cannot be run ({reason(error)}); write it again with nmt-export") from None


class OnnxSource(NamedTuple):
    """A batch of encoded sentences; the keys of the dictionaries are the names of the graphs' inputs."""

    fields: Fields  # memory and state
    output: Fields  # the output layer for the candidates of a shortlist; empty without a shortlist
    ids: Integers | None  # (C,) the target ids of these candidates


class OnnxEngine:
    """Search engine (``nmt.search.engine.Engine``) that runs a model's graphs."""

    def __init__(
        self,
        encode: Callable[[Integers], Fields],
        open_graph: Callable[[str], Graph],
        *,
        vocabulary: int,
        shortlist: Shortlist | None,
        folder: Path,
    ) -> None:
        self._encode = encode
        self._open_graph = open_graph
        self._graphs: dict[str, Graph] = {}
        self._lock = Lock()  # threads that need the same graph wait for the first one to load it
        self._vocabulary = vocabulary
        self._shortlist = shortlist
        self._folder = folder  # for messages

    def graph(self, kind: str) -> Graph:
        """Return the graph of this kind, which is loaded on first use."""
        with self._lock:
            if kind not in self._graphs:
                self._graphs[kind] = self._open_graph(kind)
            return self._graphs[kind]

    @cached_property
    def _next(self) -> list[str]:
        """The outputs of the step graph that are fields of the next state."""
        return [name for name in self.graph("step").outputs if name.endswith(NEXT)]

    def _only(self, names: Iterable[str], fields: Fields) -> Fields:
        """Return the fields with these names. Raises UserError if the encoder has not given one of them."""
        try:
            return {name: fields[name] for name in names}
        except KeyError as error:
            fix = "write them again with nmt-export"
            problem = f"graphs that do not fit together ({error.args[0]!r:.40})"
            raise UserError(f"{self._folder}: {problem}; {fix}") from None

    def encode(self, sources: list[list[int]]) -> OnnxSource:
        """Encode ``sources``, lists of piece ids that end in EOS."""
        encoded = self._encode(padded(sources))
        if self._shortlist is None:
            return OnnxSource(encoded, {}, None)
        candidates = self._shortlist.candidates(sources)
        output = self._shortlist.output_layer(candidates, integers=OUTPUT_SCALE in self.graph("step").inputs)
        return OnnxSource(encoded, output, candidates)

    def init(self, source: OnnxSource) -> OnnxSource:
        """Return the state with one empty hypothesis per sentence."""
        return source

    def step(
        self, live: OnnxSource, tokens: Integers, parents: Integers, k: int, banned: Sequence[int] | None = None
    ) -> tuple[OnnxSource, Floats, Integers, Floats]:
        """Return the next state and the k best continuations of each hypothesis.

        These are log-probabilities and ids (B, N, k) and the read weights (B, N, R).
        """
        banned = banned or ()
        if live.ids is not None:  # rising: if it has a banned id, this is one of its first
            first = live.ids[: max(banned, default=0) + 1].tolist()
            banned = [piece for piece in banned if piece in first]
        # The graph cannot ban ids. It returns one more candidate per banned id, so at least k of them are allowed.
        extra = len(banned)
        after, log_probs, ids, weights = self._run("log_probs", live, tokens, parents, k + extra)
        if live.ids is not None:
            ids = live.ids[ids]
        if banned:
            log_probs, ids = _without(banned, log_probs, ids, k)
        return after, log_probs, ids, weights

    def all_log_probs(self, live: OnnxSource, tokens: Integers, parents: Integers) -> tuple[OnnxSource, Floats, Floats]:
        """Return the next state, the log-probabilities of all pieces (B, N, V), and the read weights (B, N, R).

        The engine must not have a shortlist.
        """
        after, log_probs, _, weights = self._run(ALL_LOG_PROBS, live, tokens, parents, -1)
        return after, log_probs, weights

    def _run(
        self, output: str, live: OnnxSource, tokens: Integers, parents: Integers, k: int
    ) -> tuple[OnnxSource, Floats, Integers, Floats]:
        """Run the step graph. Return the next state, this output, the candidates and the read weights."""
        count = np.array([min(k, self._vocabulary if live.ids is None else len(live.ids))])
        graph = self.graph("step")
        inputs = self._only(
            graph.inputs, {**live.fields, **live.output, "tokens": tokens, "parents": parents, "k": count}
        )
        first, ids, weights, *state = graph.run([output, "candidates", "weights", *self._next], inputs)
        after = {name.removesuffix(NEXT): field for name, field in zip(self._next, state, strict=True)}
        return live._replace(fields={**live.fields, **after}), first, ids, weights

    def search_one(self, source: OnnxSource, limit: int, options: SearchOptions) -> OneSearch | None:
        """Search for the only sentence of ``source`` in one call of the search graph (``SearchOne``).

        Return None if the beam is too large for the number of candidates, or if the call could take long: Ctrl-C does
        not end it.
        """
        candidates = self._vocabulary if source.ids is None else len(source.ids)
        beam = options.beam_size
        k = max(beam + SPARE, 2 * beam)
        if limit > MAX_STEPS or candidates < k:
            return None
        piece_bans = np.zeros((2, self._vocabulary), dtype=np.float32)  # where none may end, and where one may
        for row, length in enumerate((0, options.min_length)):
            piece_bans[row, [*options.banned(length)]] = -np.inf
        given: Fields = {
            "piece_bans": piece_bans if source.ids is None else piece_bans.take(source.ids, axis=1),
            "ban_rows": (np.arange(limit + 1) >= options.min_length).astype(np.int64),
            "penalties": length_penalty(np.arange(1, limit + 2), options.length_penalty),
            "beam": np.array([beam]),
            **({} if source.ids is None else {"pieces": source.ids}),
        }
        own = {f"{SEARCH}{name}": field for name, field in {**source.fields, **given}.items()}
        graph = self.graph("search" if beam > 1 else "greedy")
        inputs = self._only(graph.inputs, {**source.fields, **source.output, **own, "k": np.array([k])})
        if beam > 1:
            search = OneSearch(*graph.run(SEARCHED, inputs))
        else:
            log_probs, tokens = (kept.reshape(-1, 1) for kept in graph.run(SEARCHED[:2], inputs))
            search = OneSearch(log_probs.cumsum(axis=0, dtype=np.float64), tokens, *[np.zeros_like(tokens)] * 2)
        return search if search.log_probs.max() < np.inf else None  # NaN is not less either

    def drop(self, live: OnnxSource, keep: Integers) -> OnnxSource:
        """Return the state of the sentences ``keep`` (row numbers) only, in that order."""
        return live._replace(fields={name: field[keep] for name, field in live.fields.items()})

    def align(self, source: OnnxSource, row: int, weights: Floats) -> Floats:
        """Return the raw alignment (T, S) of one sentence, given its read weights (T, R). S includes padding."""
        graph = self.graph("align")
        memory = {name: field[row : row + 1] for name, field in source.fields.items() if name in graph.inputs}
        alignment: Floats = graph.run(None, {**memory, "weights": weights[None].astype(np.float32)})[0][0]
        return alignment


def _without(banned: Sequence[int], log_probs: Floats, ids: Integers, k: int) -> tuple[Floats, Integers]:
    """Return the first k of the candidates (b, N, k') that are not banned; -inf marks a banned one in their place."""
    if ids.min() > max(banned):  # special ids are the smallest
        return log_probs[..., :k], ids[..., :k]
    # Compare with one id after the other: np.isin takes ten times as long for such small arrays.
    is_banned = np.logical_or.reduce([ids == piece for piece in banned])
    if not is_banned[..., :k].any():
        return log_probs[..., :k], ids[..., :k]
    from nmt.search.constraints import first_allowed

    return first_allowed(is_banned, log_probs, ids, k)


def graph_encoder(file: Path, threads: int | None) -> Callable[[Integers], Fields]:
    """Return a function that maps ids (B, S) to memory and state, computed by the graph in ``file``."""
    session = open_session(file, threads)
    return lambda ids: dict(zip(session.outputs, session.run(session.outputs, {"ids": ids}), strict=True))


def open_session(file: Path, threads: int | None) -> Graph:
    """Load a graph into onnxruntime. Raises UserError if it is damaged."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or usable_cores()
    options.log_severity_level = 3
    # Spinning threads block the cores for the threads of the next graph, which halves the speed.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # Without a fallback, because that one prints to stdout, among the translations.
        providers = ["CPUExecutionProvider"]
        # onnxruntime applies it to a step, but not to the same step in a loop, so the last bits would differ.
        disabled = {"MatMulScaleFusion"}
        session = Graph(str(file), options, providers=providers, enable_fallback=0, disabled_optimizers=disabled)
    except Exception as error:  # onnxruntime's exceptions have no common base class
        raise UserError(
            f"{file}: cannot be read as a graph ({reason(error)}); write it again with nmt-export"
        ) from None
    session.file = file
    return session
