"""A graph that runs a whole beam search for one sentence: onnxruntime repeats the decoder step, and chooses hypotheses.

``nmt.search.beam`` does the same in NumPy, for any number of sentences and with all options. For one sentence and a
small model, it spends as much time between two calls of the step graph as in them. This graph saves most of that time.
It computes the same numbers in the same order: translations and scores are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, ValueInfoProto, helper, numpy_helper, parser

from nmt.inference.engines import NEXT, OUTPUT_WEIGHT, SEARCH, SPARE
from nmt.text.specials import BOS, EOS

BEFORE = """
    twice_beam = Add (beam, beam)
    k = Add (beam, spare)
    is_beam = Greater (beam, one)
    largest_penalty = Gather (penalties, last)
    shape = Shape (penalties)
    steps = Squeeze (shape)
"""
"""Computed once. ``penalties`` (steps,) are the length penalties of hypotheses that end at each step; ``beam`` is N."""

IDS = "ids = Gather (pieces, candidates)"
ALL_IDS = "ids = Identity (candidates)"
SELECTION = """
    piece_allowed = Gather (allowed, ids)
    is_end = Equal (ids, end)
    is_early = Less (time, min_length)
    ends_early = And (is_end, is_early)
    may_end = Not (ends_early)
    is_allowed = And (piece_allowed, may_end)
    is_number = Less (log_probs, infinity)
    is_possible = And (is_allowed, is_number)
    gains_32 = Where (is_possible, log_probs, impossible_32)
    gains = Cast <to = 11> (gains_32)
    before = Unsqueeze (live, last)
    sums = Add (before, gains)
    flat_sums = Reshape (sums, one_row)
    flat_ids = Reshape (ids, one_row)
    flat_count = Shape <start = 1, end = 2> (flat_sums)

    count = Min (flat_count, twice_beam)
    ranked, order = TopK (flat_sums, count)
    ranked_tokens = GatherElements <axis = 1> (flat_ids, order)
    ranked_parents = Div (order, k)
    ends = Equal (ranked_tokens, end)

    others = Where (ends, impossible, ranked)
    live_after, places = TopK (others, beam)
    tokens_after = GatherElements <axis = 1> (ranked_tokens, places)
    parents_after = GatherElements <axis = 1> (ranked_parents, places)

    first_sums = Slice (ranked, zero, beam, last)
    first_ends = Slice (ends, zero, beam, last)
    penalty = Gather (penalties, time)
    first_scores = Div (first_sums, penalty)
    scores = Where (first_ends, first_scores, impossible)
    score, place = TopK (scores, one)
    log_prob = GatherElements <axis = 1> (first_sums, place)
    slot = GatherElements <axis = 1> (ranked_parents, place)
    is_better = Greater (score, best_score)
    best_score_after = Where (is_better, score, best_score)
    best_log_prob_after = Where (is_better, log_prob, best_log_prob)
    best_length_after = Where (is_better, time, best_length)
    best_slot_after = Where (is_better, slot, best_slot)

    best_live = Slice (live_after, zero, one, last)
    bound = Div (best_live, largest_penalty)
    can_win = Greater (bound, best_score_after)
    has_none = Equal (best_score_after, impossible)
    needs_more = Or (has_none, is_beam)
    may_go_on = And (can_win, needs_more)
    condition = Squeeze (may_go_on)
    step_tokens = Identity (tokens_after)
    step_parents = Identity (parents_after)
    step_log_probs = Identity (live_after)
"""
"""A step of the search, after the decoder has given ``log_probs`` and ``ids`` (1,n,k) of the n live hypotheses.

``live`` (1,n) are their log-probabilities. ``best_score`` and its like (1,1) describe the best hypothesis that has
ended. Greedy search, with N = 1, stops at the first end.
"""

OF_STEP = {"tokens", "parents", "k", "log_probs", "candidates"}  # inputs and outputs of the step graph
CARRIED = {
    "tokens": np.array([[BOS]]),
    "parents": np.array([[0]]),
    "live": np.array([[0.0]]),
    "best_score": np.array([[-np.inf]]),
    "best_log_prob": np.array([[0.0]]),
    "best_length": np.array([[-1]]),  # none has ended
    "best_slot": np.array([[0]]),
}
"""Values that a step hands to the next one beside the decoder's state, as they are before the first step."""
STEPS = {"tokens": np.int64, "parents": np.int64, "log_probs": np.float64}
"""Values that are kept of every step: arrays (T,1,N)."""
CONSTANTS = {
    "end": np.array(EOS),
    "zero": np.array([0]),
    "one": np.array([1]),
    "last": np.array([-1]),
    "one_row": np.array([1, -1]),
    "spare": np.array([SPARE]),
    "infinity": np.array(np.inf, dtype=np.float32),
    "impossible_32": np.array(-np.inf, dtype=np.float32),
    "impossible": np.array(-np.inf),
}
INPUTS = {"allowed": np.bool_, "min_length": np.int64, "penalties": np.float64, "beam": np.int64, "pieces": np.int64}
"""Beside the memory and the first state. ``allowed`` (V,) is False for pieces that no hypothesis may contain, and
``pieces`` (C,) are the target ids of a shortlist."""
BEST = ("best_log_prob", "best_length", "best_slot")


def search_graph(step: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph that repeats a step graph, with the same weights."""
    given = {value.name: value for value in step.graph.input if value.name not in OF_STEP}
    state = [value.name.removesuffix(NEXT) for value in step.graph.output if value.name.endswith(NEXT)]
    kinds = {name: given.pop(name).type.tensor_type.elem_type for name in state}
    has_shortlist = OUTPUT_WEIGHT in given
    body = helper.make_graph(
        [*step.graph.node, *_nodes(IDS if has_shortlist else ALL_IDS), *_nodes(SELECTION)],
        "step",
        [
            *(_value("time", np.int64, []), _value("goes_on", np.bool_, [])),  # onnxruntime asks for their shapes
            *(helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()),
            *(_value(name, first.dtype) for name, first in CARRIED.items()),
        ],
        [
            _value("condition", np.bool_),
            *(helper.make_tensor_value_info(f"{name}{NEXT}", kind, None) for name, kind in kinds.items()),
            *(_value(f"{name}_after", first.dtype) for name, first in CARRIED.items()),
            *(_value(f"step_{name}", kind) for name, kind in STEPS.items()),
        ],
        step.graph.initializer,  # packed for products in this place only
    )
    before = [*(_own(name) for name in state), *(_own(f"{name}_before") for name in CARRIED)]
    last = [*(_own(f"{name}_last") for name in (*state, *CARRIED)), *(_own(f"all_{name}") for name in STEPS)]
    loop = helper.make_node("Loop", [_own("steps"), "", *before], last, body=body)
    constants = CONSTANTS | {f"{name}_before": first for name, first in CARRIED.items()}
    graph = helper.make_graph(
        [*_nodes(BEFORE), loop],
        "search",
        [
            *given.values(),
            *(helper.make_tensor_value_info(_own(name), kind, None) for name, kind in kinds.items()),
            *(_value(name, kind) for name, kind in INPUTS.items() if name != "pieces" or has_shortlist),
        ],
        [
            *(_value(f"{name}_last", CARRIED[name].dtype) for name in BEST),
            *(_value(f"all_{name}", kind) for name, kind in STEPS.items()),
        ],
        [numpy_helper.from_array(array, _own(name)) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=step.opset_import, ir_version=step.ir_version)


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
