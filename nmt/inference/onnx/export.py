"""From a trained torch model to the ONNX graphs that ``nmt.inference.onnx.engine`` runs."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import nn

from nmt.attention.base import Memory
from nmt.inference.model_folder import MODEL_FILE, TrainedModel
from nmt.inference.onnx.graphs import Align, Encode, Fields, Step, encoded, needs_trace
from nmt.inference.onnx.layout import ABOUT, FOLDER, FORMAT, GRAPH_SUFFIX, NEXT, SHORTLIST
from nmt.inference.onnx.shortlist import Shortlist
from nmt.model.seq2seq import Seq2Seq
from nmt.storage import archive_fingerprint, checksum, replace_folder
from nmt.text.specials import PAD

OPSET = 18
QUANTISED = ["MatMul", "Gemm", "LSTM"]
ANY = torch.export.Dim.DYNAMIC


@torch.no_grad()
def export(
    trained: TrainedModel,
    run: Path,
    lists: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    model_identity: str | None = None,
) -> Path:
    """Write the graphs of ``trained``, the model of the folder ``run``, into ``run``/onnx, whole or not at all.

    With ``lists``, ``best`` and ``frequent`` of a shortlist, those that use it as well. An attention that writes one
    source state after the other has no graph to encode with: torch will. ``model_identity`` is that of the file
    that ``trained`` was loaded from, taken before it was: training may write another one meanwhile.
    """
    model_identity = model_identity or archive_fingerprint(run / MODEL_FILE)
    model = trained.model.eval().cpu().float()
    with replace_folder(run / FOLDER) as folder:
        _graphs(model, folder, short=lists is not None)
        if lists is not None:
            weight, bias = (each.numpy() for each in model.decoder.output.parameters())
            Shortlist(*lists, weight, bias).save(folder / SHORTLIST)
        for file in [*folder.glob("encode.onnx"), *folder.glob("step*.onnx")]:
            _quantise(file, file.with_suffix(f"{GRAPH_SUFFIX['onnx-int8']}.onnx"))
        (folder / "source.model").write_bytes(trained.source.to_bytes())
        if trained.target is not trained.source:
            (folder / "target.model").write_bytes(trained.target.to_bytes())
        about = {
            "format": FORMAT,
            "model": model_identity,
            "lowercase": trained.lowercase,
            "attention": trained.attention._asdict(),
            "encoder": "torch" if model.attention.sequential else "onnx",
            "checksums": {file.name: checksum(file) for file in sorted(folder.iterdir()) if file.name != SHORTLIST},
        }
        (folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return run / FOLDER


def _graphs(model: Seq2Seq, folder: Path, *, short: bool) -> None:
    trace = needs_trace(model)
    ids = torch.full((3, 7), PAD + 5)
    memory, state = encoded(model, ids, trace=trace)
    longer, _ = encoded(model, ids.repeat(1, 2), trace=trace)
    # What grows with the source is dynamic there; all is so in its rows.
    shapes: Any = {
        name: {0: ANY} | {at: ANY for at, size in enumerate(field.shape) if at and longer[name].shape[at] != size}
        for name, field in memory.items()
    }
    into = [*memory, *state]
    if not model.attention.sequential:
        write_graph(Encode(model, trace=trace), (ids,), ({0: ANY, 1: ANY},), folder / "encode.onnx", ["ids"], into)
    beams = {name: field.expand(-1, 5, -1).contiguous() for name, field in state.items()}
    tokens, parents = torch.full((3, 4), PAD + 5), torch.zeros(3, 4, dtype=torch.int64)
    found = ["log_probs", "candidates", "weights", *(f"{name}{NEXT}" for name in state)]
    file, given = folder / "step.onnx", [*into, "tokens", "parents"]
    free = {0: ANY, 1: ANY}
    example, dynamic = (memory, beams, tokens, parents), (shapes, dict.fromkeys(beams, free), free, free)
    write_graph(Step(model), example, dynamic, file, given, found)
    _open_k(file)
    if short:
        weight, bias = model.decoder.output.parameters()
        few, rows = (*example, weight[:9], bias[:9]), (*dynamic, {0: ANY}, {0: ANY})
        file, given = folder / "step.short.onnx", [*given, "output.weight", "output.bias"]
        write_graph(Step(model), few, rows, file, given, found)
        _open_k(file)
    weights = model.attention.read(torch.zeros(3, 4, model.decoder.lstm.hidden_size), Memory(**memory))[1]
    grows = {2: ANY} if weights.shape[2] != _read_size(model, longer) else {}
    file, given = folder / "align.onnx", [*memory, "weights"]
    write_graph(Align(model), (memory, weights), (shapes, {0: ANY, 1: ANY} | grows), file, given, ["alignment"])


def _read_size(model: Seq2Seq, memory: Fields) -> int:
    size = model.decoder.lstm.hidden_size
    return model.attention.read(torch.zeros(3, 1, size), Memory(**memory))[1].shape[2]


def _quantise(exact: Path, file: Path) -> None:
    """The graph with products of 8-bit integers: weights scaled by column, what they meet by its range, each time.

    Weights take 7 bits: processors without integer dot products (AVX2 alone) add products in pairs of 16 bits, and
    two of 255 · 127 would be cut off. It costs no accuracy that could be measured (benchmarks/integers.py).
    """
    with _quietly():
        quantize_dynamic(
            exact,
            file,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            op_types_to_quantize=QUANTISED,
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the advice that both exporters have for developers, in logs and in warnings."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def write_graph(
    module: nn.Module, example: tuple[Any, ...], shapes: Any, file: Path, inputs: list[str], outputs: list[str]
) -> None:
    """One graph; ``inputs`` and ``outputs`` are its names, in the order of the module's arguments and results."""
    with _quietly():
        program = torch.onnx.export(
            module.eval(), example, dynamo=True, dynamic_shapes=shapes, opset_version=OPSET, verbose=False
        )
        assert program is not None
        program.optimize()
        graph = program.model_proto
    _name(graph.graph, inputs, outputs)
    # Sizes that the exporter inferred from its example are left out: they are not always of the source at hand.
    del graph.graph.value_info[:]
    for one in graph.graph.output:
        for dim in one.type.tensor_type.shape.dim:
            dim.Clear()
    onnx.save(graph, file)


def _name(graph: onnx.GraphProto, inputs: list[str], outputs: list[str]) -> None:
    """Call inputs and outputs by these names, and all that lies between by numbers, so that no two are alike.

    An output is named by an identity, for it may be an input, or another output, as well.
    """
    assert (len(graph.input), len(graph.output)) == (len(inputs), len(outputs))
    ours = {one.name: name for one, name in zip(graph.input, inputs, strict=True)}
    ours |= {one.name: one.name for one in graph.initializer} | {"": ""}
    for node in graph.node:
        node.input[:] = [ours[name] for name in node.input]
        for name in node.output:
            ours.setdefault(name, f"value_{len(ours)}")
        node.output[:] = [ours[name] for name in node.output]
    for one in graph.input:
        one.name = ours[one.name]
    for one, name in zip(graph.output, outputs, strict=True):
        graph.node.append(onnx.helper.make_node("Identity", [ours[one.name]], [name]))
        one.name = name


def _open_k(file: Path) -> None:
    """Make the number of candidates an input of the graph."""
    graph = onnx.load(file)
    chosen = [node for node in graph.graph.node if node.op_type == "TopK"][-1]  # attention may choose before it
    chosen.input[1] = "k"
    graph.graph.input.append(onnx.helper.make_tensor_value_info("k", onnx.TensorProto.INT64, [1]))
    onnx.save(graph, file)
