"""Graphs that run a whole search for one sentence: onnxruntime repeats the decoder step, and chooses hypotheses.

``nmt.search.beam`` does the same in NumPy, for any number of sentences and with all options. For one sentence and a
small model, it spends as much time between two calls of the step graph as in them. These graphs save most of that time.
They compute the same numbers in the same order: translations and scores are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import NodeProto, ValueInfoProto, helper, numpy_helper, parser

from nmt.inference.engines import NEXT, OUTPUT_WEIGHT, SEARCH
from nmt.inference.onnx.rewrites import inputs_of, needed
from nmt.text.specials import BOS, EOS

COMMON = """
    shape = Shape (ban_rows)
    steps = Squeeze (shape)
    ban_row = Gather (ban_rows, time)
    step_bans = Gather (piece_bans, ban_row)
"""
"""``ban_rows`` (steps,) are rows of ``piece_bans`` (2,C): 0, or -inf for pieces that no hypothesis may add."""


class Search(NamedTuple):
    """A kind of search: what it adds to the decoder."""

    rows: str
    """Nodes that give the decoder its ``tokens`` and ``parents`` (1,n)."""
    selection: str
    """Nodes after the decoder has given ``all_log_probs`` (n,C) of the n live hypotheses."""
    carried: dict[str, np.ndarray]
    """Values that a step hands to the next one beside the decoder's state, as they are before the first step."""
    kept: dict[str, Any]
    """Values that are kept of every step, and their types."""


KINDS = {
    "search": Search(
        rows="""
            tokens = Unsqueeze (step_tokens, zero)
            parents = Unsqueeze (step_parents, zero)
        """,
        selection="""
            log_probs, candidates = TopK (all_log_probs, k)
            bans = Gather (step_bans, candidates)
            allowed = Add (log_probs, bans)
            gains = Cast <to = 11> (allowed)
            sums = Add (live, gains)
            flat_sums = Reshape (sums, minus_one)
            twice_beam = Add (beam, beam)
            ranked, order = TopK (flat_sums, twice_beam)
            flat_candidates = Reshape (candidates, minus_one)
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
            best_score_after = Max (best_score, score)

            best_live = Gather (live_sums, zero)
            largest_penalty = Gather (penalties, minus_one)
            bound = Div (best_live, largest_penalty)
            condition = Greater (bound, best_score_after)
        """,
        carried={
            "step_tokens": np.array([BOS]),
            "step_parents": np.array([0]),
            "live": np.array([[0.0]]),
            "best_score": np.array(-np.inf),
        },
        kept={"ranked": np.float64, "ranked_tokens": np.int64, "ranked_parents": np.int64, "places": np.int64},
    ),
    "greedy": Search(
        rows="""
            tokens = Identity (step_tokens)
            parents = Unsqueeze (zero, zero)
        """,
        selection="""
            allowed = Add (all_log_probs, step_bans)
            ranked, candidates = TopK (allowed, one)
            ranked_tokens = Gather (pieces, candidates)
            step_tokens_after = Identity (ranked_tokens)
            ends = Equal (ranked_tokens, end)
            condition = Not (ends)
        """,
        carried={"step_tokens": np.array([[BOS]])},
        kept={"ranked": np.float32, "ranked_tokens": np.int64},
    ),
}
"""In ``search``, ``live`` (n,1) are the log-probabilities of the hypotheses, and ``best_score`` is that of the best one
that has ended. ``penalties`` (steps,) are the length penalties of hypotheses that end at each step; ``beam`` is N. Of
2 N candidates, at most N end, so N others stay alive. The kept values are the fields of ``OneSearch``.

``greedy`` does the same for a beam of 1, with a quarter of these nodes. Its ``ranked`` is the log-probability of a
piece, not of the hypothesis.
"""

OF_STEP = {"tokens", "parents", "k", "log_probs", "candidates"}  # inputs and outputs of the step graph
CONSTANTS = {
    "end": np.array(EOS),
    "zero": np.array([0]),
    "one": np.array([1]),
    "minus_one": np.array([-1]),
    "impossible": np.array(-np.inf),
}
INPUTS = {
    "piece_bans": np.float32,
    "ban_rows": np.int64,
    "penalties": np.float64,
    "beam": np.int64,
    "pieces": np.int64,
}
"""Beside the memory, the first state and k. ``pieces`` (C,) are the target ids of a shortlist."""


def search_graph(step: onnx.ModelProto, search: Search) -> onnx.ModelProto:
    """Return the graph of this search that repeats a step graph, with the same weights."""
    given = {value.name: value for value in step.graph.input if value.name not in OF_STEP - {"k"}}
    state = [value.name.removesuffix(NEXT) for value in step.graph.output if value.name.endswith(NEXT)]
    kinds = {name: given.pop(name).type.tensor_type.elem_type for name in state}
    has_shortlist = OUTPUT_WEIGHT in given
    results = [
        _value("condition", np.bool_),
        *(helper.make_tensor_value_info(f"{name}{NEXT}", kind, None) for name, kind in kinds.items()),
        *(_value(f"{name}_after", first.dtype) for name, first in search.carried.items()),
        *(_value(name, kind) for name, kind in search.kept.items()),
    ]
    carried = [
        *(_value("time", np.int64, []), _value("goes_on", np.bool_, [])),  # onnxruntime asks for their shapes
        *(helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()),
        *(_value(name, first.dtype) for name, first in search.carried.items()),
    ]
    nodes = [
        *_nodes(COMMON + search.rows),
        *_of_one_sentence(step.graph, search),
        *_nodes(search.selection if has_shortlist else search.selection.replace("Gather (pieces, ", "Identity (")),
    ]
    once, repeated = _split(needed(nodes, (_own("steps"), *(value.name for value in results))), carried)
    read_once = {name for node in once for name in inputs_of(node)}
    body = helper.make_graph(
        repeated,
        "step",
        carried,
        results,
        # Weights are packed for products only in the graph in which the products are.
        [weight for weight in step.graph.initializer if weight.name not in read_once],
    )
    before = [*(_own(name) for name in state), *(_own(f"{name}_before") for name in search.carried)]
    last = [
        *(_own(f"{name}_last") for name in (*state, *search.carried)),
        *(_own(f"all_{name}") for name in search.kept),
    ]
    loop = helper.make_node("Loop", [_own("steps"), "", *before], last, body=body)
    constants = CONSTANTS | {f"{name}_before": first for name, first in search.carried.items()}
    graph = helper.make_graph(
        [*once, loop],
        "search",
        [
            *given.values(),
            *(helper.make_tensor_value_info(_own(name), kind, None) for name, kind in kinds.items()),
            *(_value(name, kind) for name, kind in INPUTS.items() if name != "pieces" or has_shortlist),
        ],
        [_value(f"all_{name}", kind) for name, kind in search.kept.items()],
        [
            *(numpy_helper.from_array(array, _own(name)) for name, array in constants.items()),
            *(weight for weight in step.graph.initializer if weight.name in read_once),
        ],
    )
    return helper.make_model(graph, opset_imports=step.opset_import, ir_version=step.ir_version)


def _of_one_sentence(graph: onnx.GraphProto, search: Search) -> Iterator[NodeProto]:
    """Yield the nodes of a step graph, without what only batches need. A greedy search has one hypothesis."""
    producers = {name: node for node in graph.node for name in node.output}
    masks = {"mask": True}  # each has one value everywhere, because a single sentence has no padding
    for node in graph.node:
        source = node.input[0] if node.input else ""
        if source in masks and node.op_type in ("Not", "Reshape", "Unsqueeze"):
            masks[node.output[0]] = masks[source] != (node.op_type == "Not")
        indices = producers.get(node.input[1]) if node.op_type == "GatherND" else None
        scores = producers.get(source) if "log_probs" in node.output else None
        if indices is not None and "parents" in indices.input:
            gather = helper.make_node("Gather", [source, _own("step_parents")], node.output, axis=1)
            yield gather if "step_parents" in search.carried else helper.make_node("Identity", [source], node.output)
        elif source in masks and node.op_type == "Where":
            yield helper.make_node("Identity", [node.input[1 if masks[source] else 2]], node.output)
        elif scores is not None:  # a TopK, of a Reshape from (n,V) to (1,n,V)
            yield helper.make_node("Identity", scores.input[:1], [_own("all_log_probs")])
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
