"""The search in one graph gives what the search in NumPy gives, on toy models with ties and many ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from nmt.inference.engines import SPARE
from nmt.inference.onnx.engine import OnnxEngine
from nmt.inference.onnx.search_graph import search_graph
from nmt.search.engine import BANNED
from nmt.search.options import SearchOptions
from nmt.search.search import search
from nmt.text.specials import EOS

VOCABULARY = 12
# The log-probabilities of a piece depend on the two pieces before it: ``table`` has a row for each pair of them.
STEP = """
    axis = Constant <value_ints = [-1]> ()
    last = Unsqueeze (parents, axis)
    second = GatherND <batch_dims = 1> (previous, last)
    rows = Mul (second, size)
    row = Add (rows, tokens)
    scores = Gather (table, row)
    log_probs, candidates = TopK (scores, k)
    weights = Cast <to = 1> (row)
    previous_after = Identity (tokens)
"""


def test_a_hypothesis_has_enough_candidates() -> None:
    assert len({*BANNED, EOS}) + 1 == SPARE


@pytest.mark.parametrize("seed", range(40))
def test_one_graph_equals_single_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(-6, 0, (VOCABULARY**2, VOCABULARY)).astype(np.float32) / 4  # few values, so that many tie
    if seed % 4 == 0:
        table[rng.random(table.shape) < 0.3] = -np.inf
    if seed % 4 == 1:
        table[:, EOS] += rng.integers(-4, 2)
    if seed % 4 == 2:
        table[rng.random(len(table)) < 0.05] = np.nan  # a softmax makes all numbers of a row NaN
    if seed % 8 == 3:
        table[rng.random(table.shape) < 0.01] = np.inf
    engine = toy_engine(table)
    steps: Any = SimpleNamespace(**{name: getattr(engine, name) for name in ("encode", "init", "step", "drop")})
    for options in drawn_options(rng):
        limit = int(options.limits(np.array([3]))[0])
        in_one_call = engine.search_one(engine.encode([[5, 6, EOS]]), limit, options) is not None
        assert in_one_call or not table.max() < np.inf
        assert search(engine, [[5, 6, EOS]], options) == search(steps, [[5, 6, EOS]], options), options


def drawn_options(rng: np.random.Generator) -> Iterator[SearchOptions]:
    for beam_size in (1, 2, 3, 5, VOCABULARY // 2):
        yield SearchOptions(
            beam_size=beam_size,
            length_penalty=float(rng.choice([0.0, 0.4, 1.0, 2.5])),
            min_length=int(rng.integers(0, 4)),
            max_length=int(rng.integers(4, 12)),
            replace_unknown=bool(rng.integers(2)),
        )


def toy_engine(table: np.ndarray) -> OnnxEngine:
    """Return the engine of a model whose log-probabilities stand in a table."""
    constants = {"size": np.array(VOCABULARY), "table": table}
    names = {"tokens": 2, "parents": 2, "previous": 2, "k": 1}
    outputs = {"log_probs": TensorProto.FLOAT, "candidates": TensorProto.INT64, "weights": TensorProto.FLOAT}
    outputs["previous.after"] = TensorProto.INT64
    nodes = list(parser.parse_graph(f"step () => () {{{STEP}}}").node)
    nodes[-1].output[0] = "previous.after"
    graph = helper.make_graph(
        nodes,
        "step",
        [helper.make_tensor_value_info(name, TensorProto.INT64, [None] * rank) for name, rank in names.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    step = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return OnnxEngine(
        lambda ids: {"previous": np.zeros((len(ids), 1), dtype=np.int64)},
        opened(step),
        SimpleNamespace(get_inputs=list),
        open_search=lambda: opened(search_graph(step)),
        vocabulary=VOCABULARY,
        shortlist=None,
        folder=Path("toy"),
    )


def opened(model: onnx.ModelProto) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
