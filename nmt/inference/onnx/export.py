"""Export a trained torch model as ONNX graphs, which ``nmt.inference.onnx.engine`` runs."""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx.external_data_helper import set_external_data
from torch import Tensor, nn

from nmt.errors import UserError, printable
from nmt.files.atomic import replace_folder
from nmt.files.checksum import archive_fingerprint, checksum
from nmt.inference.engines import (
    ABOUT,
    ALL_LOG_PROBS,
    FOLDER,
    FORMAT,
    GRAPH_SUFFIX,
    NEXT,
    OUTPUT_BIAS,
    OUTPUT_WEIGHT,
    SHORTLIST,
    WEIGHTS,
    OnnxEngineName,
)
from nmt.inference.model_folder import TrainedModel
from nmt.inference.onnx.engine import graph_encoder, open_session
from nmt.inference.onnx.graphs import (
    Align,
    Encode,
    Fields,
    K,
    RecurrentStep,
    Step,
    encode_fields,
    example_states,
    keeps_range,
    state_fields,
)
from nmt.inference.onnx.model import About
from nmt.inference.onnx.rewrites import bounded_outputs, fix_summation_order, join_products, quantise
from nmt.inference.onnx.search_graph import KINDS, search_graph
from nmt.inference.onnx.shortlist import LikelyPieces, Shortlist
from nmt.inference.run_files import MODEL_FILE
from nmt.model.decoder import RecurrentDecoder
from nmt.model.seq2seq import Seq2Seq
from nmt.settings.build import plain
from nmt.system.machine import paused_collector
from nmt.text.specials import PAD
from nmt.version import __version__

OPSET = 18
INT8 = GRAPH_SUFFIX["onnx-int8"]
ENGINES = tuple(GRAPH_SUFFIX)
ANY = torch.export.Dim.DYNAMIC
LEAST_SHARED = 1024  # bytes of a weight that lies beside the graphs
ALIGNMENT = 64  # bytes, of weights in a file


def export(
    trained: TrainedModel,
    run: Path,
    likely: LikelyPieces | None = None,
    *,
    engines: Collection[OnnxEngineName] = ENGINES,
    fingerprint: str | None = None,
) -> Path:
    """Write the graphs of ``trained``, the model of the folder ``run``, into ``run``/onnx, atomically.

    ``fingerprint`` is that of the file that ``trained`` was loaded from. Take it before loading, because
    training may replace the file in the meantime. See ``write_export``.
    """
    fingerprint = fingerprint or archive_fingerprint(run / MODEL_FILE)
    with replace_folder(run / FOLDER, mark=ABOUT) as folder:
        write_export(folder, trained, likely, engines=engines, fingerprint=fingerprint)
    return run / FOLDER


@torch.no_grad()
def write_export(
    folder: Path,
    trained: TrainedModel,
    likely: LikelyPieces | None,
    *,
    engines: Collection[OnnxEngineName],
    fingerprint: str,
) -> None:
    """Write the graphs of ``trained`` for these engines, its tokenizers and ``about.json`` into the empty ``folder``.

    ``likely`` are the pieces of a shortlist; with them, graphs that use the shortlist are written too. Raises UserError
    if the exporter fails, or if the graphs compute something else than the model.
    """
    model = deepcopy(trained.model).eval().cpu().float()
    length = max(2, min(7, trained.longest_source // 2))  # twice the length must not be too long for the attention
    suffixes = [GRAPH_SUFFIX[engine] for engine in engines]
    names = ", ".join(trained.config[group]["_target_"] for group in ("encoder", "attention", "decoder"))
    try:
        agrees = _graphs(model, folder, suffixes, short=likely is not None, length=length)
    except OSError:
        raise
    except Exception as error:  # the exporters raise anything
        raise UserError(f"{names}: cannot be exported together ({type(error).__name__}); use engine=torch") from error
    if not agrees:
        raise UserError(f"{names}: the exported graphs compute something else; use engine=torch")
    exact = sorted(folder.glob("step*.onnx"))
    if "onnx-int8" in engines:
        _quantise(folder, exact, model)
    if "onnx" not in engines:
        for file in exact:
            file.unlink()
    for engine in engines:
        _share_weights(folder, GRAPH_SUFFIX[engine])
    if likely is not None:
        weight, bias = (parameter.numpy() for parameter in model.decoder.output.parameters())
        Shortlist(*likely, weight, bias).save(folder / SHORTLIST, integers="onnx" not in engines)
    (folder / "source.model").write_bytes(trained.source.to_bytes())
    if trained.target is not trained.source:
        (folder / "target.model").write_bytes(trained.target.to_bytes())
    about = About(
        format=FORMAT,
        model=fingerprint,
        **vars(trained.properties),
        checksums={file.name: checksum(file) for file in sorted(folder.iterdir())},
    )
    (folder / ABOUT).write_text(json.dumps(plain(about), indent=2) + "\n", encoding="utf-8")


def _graphs(model: Seq2Seq, folder: Path, suffixes: Collection[str], *, short: bool, length: int) -> bool:
    """Write encoders with these suffixes, the exact decoder step, also for a shortlist if ``short``, and ``align``.

    The example sources have ``length`` pieces. Return whether the graphs agree with the model.
    """
    trace = model.attention.needs_trace
    ids = torch.full((3, length), PAD + 5)
    memory, state = encode_fields(model, ids, trace=trace)
    longer, _ = encode_fields(model, ids.repeat(1, 2), trace=trace)
    # The batch axis is dynamic in every field, and so is each axis that grows with the source.
    shapes = _dynamic_axes(memory, longer, 1)
    fields = [*memory, *state]
    for suffix in suffixes:
        encode = Encode(model, trace=trace, constant_range=suffix == INT8)
        file, exact = folder / f"encode{suffix}.onnx", folder / "encode.onnx"
        if exact.is_file() and not encode.constant_range:  # the same graph, which takes seconds to write
            shutil.copyfile(exact, file)
        else:
            write_graph(encode, (ids,), ({0: ANY, 1: ANY},), file, ["ids"], fields)
    before, after, weights = example_states(model, ids, beams=5)
    # The exporter has no operator for the strides of a view, such as one layer of two.
    beams = {name: field.contiguous() for name, field in state_fields(before).items()}
    beams_shapes = _dynamic_axes(beams, state_fields(after), 2)
    tokens = torch.full((3, 4), PAD + 5)
    parents = torch.zeros(3, 4, dtype=torch.int64)
    outputs = ["log_probs", "candidates", "weights", *(f"{name}{NEXT}" for name in state)]
    free = {0: ANY, 1: ANY}
    outputs_of: dict[str, Fields] = {"step.onnx": {}}
    if short:
        weight, bias = model.decoder.output.parameters()
        outputs_of["step.short.onnx"] = {OUTPUT_WEIGHT: weight[:9], OUTPUT_BIAS: bias[:9]}
    step = RecurrentStep if isinstance(model.decoder, RecurrentDecoder) else Step
    for name, rows in outputs_of.items():
        example = (memory, beams, tokens, parents, *rows.values())
        dynamic = (shapes, beams_shapes, free, free, *({0: ANY} for _ in rows))
        write_graph(
            step(model, before), example, dynamic, folder / name, [*fields, "tokens", "parents", *rows], outputs
        )
        _open_k(folder / name)
    *_, other = example_states(model, ids.repeat(1, 2), beams=5)
    write_graph(
        Align(model),
        (memory, weights),
        (shapes, _dynamic_axes({"weights": weights}, {"weights": other}, 2)["weights"]),
        folder / "align.onnx",
        [*memory, "weights"],
        ["alignment"],
    )
    return _agrees(model, folder, ids[:2].repeat(1, 2)[:, 1:], min(suffixes))


def _agrees(model: Seq2Seq, folder: Path, ids: Tensor, suffix: str) -> bool:
    """Return whether the graphs and the model agree about the first pieces for ``ids`` (B, S).

    A subclass may override what the exporter does not trace. ``suffix`` is that of the encoder graph.
    """
    ids[1:, -2:] = PAD
    memory, final = model.encode(ids, ids != PAD, trace=model.attention.needs_trace)
    state = model.decoder.init(final, memory)
    tokens = torch.full((len(ids), 1), PAD + 5)
    expected = model.decoder.step(tokens, state, memory)[0].log_softmax(2).topk(K, dim=2).values
    fields = graph_encoder(folder / f"encode{suffix}.onnx", 1)(ids.numpy())
    step = open_session(folder / "step.onnx", 1)
    fields |= {"tokens": tokens.numpy(), "parents": 0 * tokens.numpy(), "k": np.array([K])}
    feed = {name: fields[name] for name in step.inputs}
    return np.allclose(step.run(["log_probs"], feed)[0], expected.numpy(), rtol=0.01, atol=0.01, equal_nan=True)


def _dynamic_axes(fields: Fields, longer: Fields, count: int) -> Any:
    """Return the first ``count`` axes of each field, and those that have another size for a longer source."""
    return {
        name: {axis: ANY for axis, size in enumerate(field.shape) if axis < count or longer[name].shape[axis] != size}
        for name, field in fields.items()
    }


def _quantise(folder: Path, steps: Iterable[Path], trained: Seq2Seq) -> None:
    """Write the exact graphs of the encoder and of ``steps`` with 8-bit integers."""
    file = folder / f"encode{INT8}.onnx"
    encode = onnx.load(file)
    bounded = bounded_outputs(encode)
    onnx.save(quantise(encode, (), lstms=keeps_range(trained.encoder)), file)
    for step in steps:
        exact = onnx.load(step)
        state = {value.name.removesuffix(NEXT) for value in exact.graph.output}  # the encoder writes its first numbers
        onnx.save(quantise(exact, (bounded - state) | {*trained.decoder.bounded}), step.with_suffix(f"{INT8}.onnx"))


def _share_weights(folder: Path, suffix: str) -> None:
    """Move the weights of the graphs with this suffix into one file, and write search graphs beside the step graphs.

    onnxruntime reads weights in a graph's own file twice, and copies them.
    """
    places: dict[bytes, int] = {}
    weights = folder / f"{WEIGHTS}{suffix}.bin"
    with weights.open("wb") as stream:
        for kind in ("encode", "step", "step.short"):
            file = folder / f"{kind}{suffix}.onnx"
            if not file.is_file():
                continue
            model = onnx.load(file)
            for weight in model.graph.initializer:
                content = weight.raw_data
                if len(content) < LEAST_SHARED:
                    continue
                if content not in places:
                    stream.write(bytes(-stream.tell() % ALIGNMENT))
                    places[content] = stream.tell()
                    stream.write(content)
                set_external_data(weight, weights.name, offset=places[content], length=len(content))
                weight.ClearField("raw_data")
            onnx.save(model, file)
            if kind != "encode":
                for name, search in KINDS.items():
                    onnx.save(search_graph(model, search), folder / file.name.replace("step", name))


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress the logs and warnings of both exporters, which are advice for developers.

    The collector and the cache of fake tensors, which each take a fifth of the time or more, are disabled.
    """
    from torch._dynamo import config  # takes a second

    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), paused_collector(), config.patch(fake_tensor_cache_enabled=False):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def write_graph(
    module: nn.Module, example: tuple[Any, ...], shapes: Any, file: Path, inputs: list[str], outputs: list[str]
) -> None:
    """Trace ``module`` and write its graph to ``file``.

    ``example`` holds example arguments and ``shapes`` their dynamic axes. ``inputs`` and ``outputs`` are the names of
    arguments and results in the graph.
    """
    with _quietly():
        program = torch.onnx.export(
            module.eval(), example, dynamo=True, dynamic_shapes=shapes, opset_version=OPSET, verbose=False
        )
        assert program is not None
        graph = program.model_proto
    join_products(graph.graph)
    fix_summation_order(graph.graph)
    _name(graph.graph, inputs, outputs)
    for node in graph.graph.node:
        del node.metadata_props[:]  # they hold the paths of our source files on this machine
    # Remove the sizes that the exporter inferred from its example: some of them are wrong for other sources.
    del graph.graph.value_info[:]
    for output in graph.graph.output:
        for dim in output.type.tensor_type.shape.dim:
            dim.Clear()
    onnx.save(graph, file)


def _name(graph: onnx.GraphProto, inputs: list[str], outputs: list[str]) -> None:
    """Rename inputs and outputs to these names, and number all other values, so that names are unique.

    An identity node names an output that is also an input or another output.
    """
    assert (len(graph.input), len(graph.output)) == (len(inputs), len(outputs))
    new_names = {value.name: name for value, name in zip(graph.input, inputs, strict=True)}
    new_names |= {weight.name: weight.name for weight in graph.initializer} | {"": ""}
    for value, name in zip(graph.output, outputs, strict=True):
        new_names.setdefault(value.name, name)
    for node in graph.node:
        node.input[:] = [new_names[name] for name in node.input]
        for name in node.output:
            new_names.setdefault(name, f"value_{len(new_names)}")
        node.output[:] = [new_names[name] for name in node.output]
    for value in graph.input:
        value.name = new_names[value.name]
    for value, name in zip(graph.output, outputs, strict=True):
        if new_names[value.name] != name:
            graph.node.append(onnx.helper.make_node("Identity", [new_names[value.name]], [name]))
        value.name = name


OPEN_K = """open_k () => () {{
    k_size = Abs (k)
    k_zero = Constant <value_ints = [0]> ()
    k_is_negative = Less (k, k_zero)
    {all_log_probs} = If (k_is_negative) <
        then_branch = copy () => (float[] k_all) {{ k_all = Identity ({log_probs}) }},
        else_branch = nothing () => (float[] k_all) {{ k_all = Constant <value_floats = [0.0]> () }}
    >
}}"""
"""An output takes memory that other nodes cannot use, so all log-probabilities are an output only for an ensemble."""


def _open_k(file: Path) -> None:
    """Make the number of candidates an input of the graph; -1 is one candidate and ``ALL_LOG_PROBS``."""
    model = onnx.load(file)
    nodes = model.graph.node
    top_k = [node for node in nodes if node.op_type == "TopK"][-1]  # an attention may have a TopK before it
    text = OPEN_K.format(all_log_probs=ALL_LOG_PROBS, log_probs=top_k.input[0])
    size, *others = onnx.parser.parse_graph(text).node
    top_k.input[1] = size.output[0]
    nodes.insert(0, size)
    nodes.extend(others)
    model.graph.input.append(onnx.helper.make_tensor_value_info("k", onnx.TensorProto.INT64, [1]))
    model.graph.output.append(onnx.helper.make_tensor_value_info(ALL_LOG_PROBS, onnx.TensorProto.FLOAT, None))
    onnx.save(model, file)


PACKAGES, SERVER_PACKAGES = (Path(__file__).parents[2] / f"requirements-{use}.txt" for use in ("translate", "serve"))
README = """# {attention} model for nmt-translate

nmt-export of nmt-memory-attention {version} wrote this folder. It is complete: copy it anywhere.

Install with Python 3.11 or newer; torch is not needed. `make wheel` in the toolkit's source builds the wheel:

    pip install -r {packages}
    pip install --no-deps nmt_memory_attention-{version}-py3-none-any.whl

Translate, one sentence per line:

    nmt-translate {model} < in.txt > out.txt

requirements-serve.txt installs what nmt-serve needs instead: nmt-serve {model} languages=en:de

This folder only translates. Everything else needs the folder of the training run.
"""


def write_deployment(
    folder: Path,
    trained: TrainedModel,
    likely: LikelyPieces | None,
    *,
    name: str,
    engines: Collection[OnnxEngineName],
    fingerprint: str,
) -> None:
    """Write everything that nmt-translate needs into the empty ``folder``, which will be called ``name``.

    See ``write_export``.
    """
    write_export(folder, trained, likely, engines=engines, fingerprint=fingerprint)
    packages = PACKAGES.read_text("utf-8")
    (folder / "requirements.txt").write_text(packages, encoding="utf-8")
    (folder / "requirements-serve.txt").write_text(packages + SERVER_PACKAGES.read_text("utf-8"), encoding="utf-8")
    text = README.format(
        attention=trained.properties.attention.name,
        version=__version__,
        packages=shlex.quote(f"{printable(name)}/requirements.txt"),
        model=shlex.quote(f"model={printable(name)}"),
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
