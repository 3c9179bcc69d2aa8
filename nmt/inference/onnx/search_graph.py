"""A graph that runs a whole beam search for one sentence: onnxruntime repeats the decoder step, and chooses hypotheses.

``nmt.search.beam`` does the same in NumPy, for any number of sentences and with all options. For one sentence and a
small model, it spends as much time between two calls of the step graph as in them. This graph saves most of that time.
It computes the same numbers in the same order: translations and scores are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, ValueInfoProto, helper, numpy_helper, parser

from nmt.inference.engines import NEXT, OUTPUT_WEIGHT, SEARCH
from nmt.inference.onnx.rewrites import inputs_of, needed
from nmt.text.specials import BOS, EOS

BEFORE = """
    twice_beam = Add (beam, beam)
    shape = Shape (penalties)
    steps = Squeeze (shape)
"""
"""Computed once. ``penalties`` (steps,) are the length penalties of hypotheses that end at each step; ``beam`` is N."""

AS_ROWS = """
    tokens = Unsqueeze (step_tokens, zero)
    parents = Unsqueeze (step_parents, zero)
"""
"""The decoder reads tokens and parents as arrays (1,n), the search as arrays (n,)."""

SELECTION = """
    bans = Gather (piece_bans, candidates)
    allowed = Add (log_probs, bans)
    gains = Cast <to = 11> (allowed)
    sums = Add (live, gains)
    flat_sums = Reshape (sums, flat)
    ranked, order = TopK (flat_sums, twice_beam)
    flat_candidates = Reshape (candidates, flat)
    ranked_candidates = Gather (flat_candidates, order)
    ranked_tokens = Gather (pieces, ranked_candidates)
    ranked_parents = Div (order, k)
    ends = Equal (ranked_tokens, end)

    others = Where (ends, impossible, ranked)
    live_sums, places = TopK (others, beam)
    live_after = Unsqueeze (live_sums, one)
    step_tokens_after = Gather (ranked_tokens, places)
    step_parents_after = Gather (ranked_parents, places)

    ended = Where (ends, ranked, impossible)
    ended_first = Slice (ended, zero, beam)
    log_prob = ReduceMax <keepdims = 0> (ended_first)
    penalty = Gather (penalties, time)
    score = Div (log_prob, penalty)
    end_ban = Gather (end_bans, time)
    valid_score = Add (score, end_ban)
    best_score_after = Max (best_score, valid_score)

    best_live = Gather (live_sums, first)
    bound = Div (best_live, largest_penalty)
    condition = Greater (bound, best_score_after)
"""
"""A step of the search, after the decoder has given ``log_probs`` and ``candidates`` of the n live hypotheses.

These are arrays (n,k) or (1,n,k). ``live`` (n,1) are the log-probabilities of the hypotheses, and ``best_score`` is
that of the best one that has ended. Bans are 0, or -inf for candidates that no hypothesis may contain, and for steps at
which none may end. A hypothesis that ends too early is ranked as well: of 2 N candidates, at most N end, so N others
stay alive.
"""

OF_STEP = {"tokens", "parents", "k", "log_probs", "candidates"}  # inputs and outputs of the step graph
CARRIED = {
    "step_tokens": np.array([BOS]),
    "step_parents": np.array([0]),
    "live": np.array([[0.0]]),
    "best_score": np.array(-np.inf),
}
"""Values that a step hands to the next one beside the decoder's state, as they are before the first step."""
STEPS = {"ranked": np.float64, "ranked_tokens": np.int64, "ranked_parents": np.int64, "places": np.int64}
"""Values that are kept of every step: the fields of ``OneSearch``."""
CONSTANTS = {
    "end": np.array(EOS),
    "first": np.array(0),
    "zero": np.array([0]),
    "one": np.array([1]),
    "flat": np.array([-1]),
    "impossible": np.array(-np.inf),
}
INPUTS = {
    "piece_bans": np.float32,
    "end_bans": np.float64,
    "penalties": np.float64,
    "largest_penalty": np.float64,
    "beam": np.int64,
    "pieces": np.int64,
}
"""Beside the memory, the first state and k. ``pieces`` (C,) are the target ids of a shortlist."""


def search_graph(step: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph that repeats a step graph, with the same weights."""
    given = {value.name: value for value in step.graph.input if value.name not in OF_STEP - {"k"}}
    state = [value.name.removesuffix(NEXT) for value in step.graph.output if value.name.endswith(NEXT)]
    kinds = {name: given.pop(name).type.tensor_type.elem_type for name in state}
    has_shortlist = OUTPUT_WEIGHT in given
    results = [
        _value("condition", np.bool_),
        *(helper.make_tensor_value_info(f"{name}{NEXT}", kind, None) for name, kind in kinds.items()),
        *(_value(f"{name}_after", first.dtype) for name, first in CARRIED.items()),
        *(_value(name, kind) for name, kind in STEPS.items()),
    ]
    carried = [
        *(_value("time", np.int64, []), _value("goes_on", np.bool_, [])),  # onnxruntime asks for their shapes
        *(helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()),
        *(_value(name, first.dtype) for name, first in CARRIED.items()),
    ]
    selection = SELECTION if has_shortlist else SELECTION.replace("Gather (pieces, ", "Identity (")
    nodes = [*_nodes(AS_ROWS), *_of_one_sentence(step.graph), *_nodes(selection)]
    once, repeated = _split(needed(nodes, (value.name for value in results)), carried)
    read_once = {name for node in once for name in inputs_of(node)}
    body = helper.make_graph(
        repeated,
        "step",
        carried,
        results,
        # Weights are packed for products only in the graph in which the products are.
        [weight for weight in step.graph.initializer if weight.name not in read_once],
    )
    before = [*(_own(name) for name in state), *(_own(f"{name}_before") for name in CARRIED)]
    last = [*(_own(f"{name}_last") for name in (*state, *CARRIED)), *(_own(f"all_{name}") for name in STEPS)]
    loop = helper.make_node("Loop", [_own("steps"), "", *before], last, body=body)
    constants = CONSTANTS | {f"{name}_before": first for name, first in CARRIED.items()}
    graph = helper.make_graph(
        [*_nodes(BEFORE), *once, loop],
        "search",
        [
            *given.values(),
            *(helper.make_tensor_value_info(_own(name), kind, None) for name, kind in kinds.items()),
            *(_value(name, kind) for name, kind in INPUTS.items() if name != "pieces" or has_shortlist),
        ],
        [_value(f"all_{name}", kind) for name, kind in STEPS.items()],
        [
            *(numpy_helper.from_array(array, _own(name)) for name, array in constants.items()),
            *(weight for weight in step.graph.initializer if weight.name in read_once),
        ],
    )
    return helper.make_model(graph, opset_imports=step.opset_import, ir_version=step.ir_version)


def _of_one_sentence(graph: onnx.GraphProto) -> Iterator[NodeProto]:
    """Yield the nodes of a step graph, without what only batches need."""
    producers = {name: node for node in graph.node for name in node.output}
    masks = {"mask": True}  # each has one value everywhere, because a single sentence has no padding
    for node in graph.node:
        source = node.input[0] if node.input else ""
        if source in masks and node.op_type in ("Not", "Reshape", "Unsqueeze"):
            masks[node.output[0]] = masks[source] != (node.op_type == "Not")
        indices = producers.get(node.input[1]) if node.op_type == "GatherND" else None
        scores = producers.get(source) if "log_probs" in node.output else None
        if indices is not None and "parents" in indices.input:
            yield helper.make_node("Gather", [source, _own("step_parents")], node.output, axis=1)
        elif source in masks and node.op_type == "Where":
            yield helper.make_node("Identity", [node.input[1 if masks[source] else 2]], node.output)
        elif scores is not None and scores.op_type == "Reshape":  # from (n,V) to (1,n,V)
            yield helper.make_node("TopK", [scores.input[0], "k"], node.output)
        else:
            yield node


def _split(nodes: list[NodeProto], carried: Iterable[ValueInfoProto]) -> tuple[list[NodeProto], list[NodeProto]]:
    """Return the nodes whose outputs are the same in every step, and the others, which depend on ``carried`` values."""
    names = {value.name for value in carried}
    once: list[NodeProto] = []
    repeated: list[NodeProto] = []
    for node in nodes:
        if names.isdisjoint(inputs_of(node)):
            once.append(node)
        else:
            repeated.append(node)
            names.update(node.output)
    return once, repeated


def _own(name: str) -> str:
    """Return the name that a value of the search has in the graph, where no other value can have it."""
    return name if name in OF_STEP else f"{SEARCH}{name}"


def _nodes(text: str) -> Iterator[NodeProto]:
    """Yield the nodes of a text."""
    for node in parser.parse_graph(f"search () => () {{{text}}}").node:
        node.input[:] = map(_own, node.input)
        node.output[:] = map(_own, node.output)
        yield node


def _value(name: str, kind: Any, shape: list[int] | None = None) -> ValueInfoProto:
    return helper.make_tensor_value_info(_own(name), helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
