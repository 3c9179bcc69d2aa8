"""Compare forms of 8-bit graphs: BLEU, chrF, equal lines, seconds, and how often 16-bit sums saturate.

"As exported" are the graphs of nmt-export: signed 7-bit weights, and inputs rounded row by row. The other forms round
inputs by the range of the whole batch, with onnxruntime's ``quantize_dynamic``.

Processors with AVX2 but without integer dot products multiply unsigned activations by signed weights and add pairs of
products in 16 bits. A pair outside ±32,767 saturates silently. "Pairs saturated" is the share of such pairs in the
products of real translations, on any processor. "Sums affected" is the share of results with at least one such pair.

    python -m benchmarks.speed.integers --model runs/multi30k/m30k-memory-s1 --data data/multi30k
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.report import argument_parser, header, row, save, table_head
from benchmarks.speed.engines import in_turns, quality
from nmt.data.text_files import read_lines
from nmt.files.checksum import checksum
from nmt.inference.engines import ABOUT, LoadSettings
from nmt.inference.onnx.model import open_onnx
from nmt.inference.translator import Translator

ROWS_PER_CALL, CALLS = 4, 12  # input rows that are kept of each product
QUANTISED = ["MatMul", "Gemm", "LSTM"]
EXPORTED = "as exported"
LINES = 40  # source lines for the saturation counts


class Form(NamedTuple):
    """Type of the weights, and whether they use only 7 bits."""

    kind: QuantType
    reduced: bool


FORMS = {
    "signed, 8 bits": Form(QuantType.QInt8, False),
    "signed, 7 bits": Form(QuantType.QInt8, True),
    "unsigned, 8 bits": Form(QuantType.QUInt8, False),
    "unsigned, 7 bits": Form(QuantType.QUInt8, True),
}
COLUMNS = ("model", "weights", "BLEU", "chrF", "lines equal to float32", "s", "pairs saturated", "sums affected")


def main() -> None:
    parser = argument_parser(__doc__, "integers.md", rounds=3, data="data/multi30k")
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="exported models")
    parser.add_argument("--part", default="test2016", help="default: %(default)s")
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # the quantiser logs advice for its developers
    source, target = (list(read_lines(args.data / f"{args.part}.{side}.gz")) for side in ("en", "de"))
    references = [line.lower() for line in target]
    conditions = f"{args.part}, beam 5, lower-cased, {args.threads} threads, least of {args.rounds} rounds in turns"
    lines = [*header("8-bit integers", conditions), *table_head(*COLUMNS)]
    for model in args.model:
        lines += [row(model.name, *cells) for cells in compare_forms(model, source, references, args)]
    save(args.output, lines)


def compare_forms(model: Path, source: list[str], references: list[str], args: argparse.Namespace) -> list[list[str]]:
    """Return the cells of float32 and of each form for one model."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: quantised_copy(model, Path(folder) / name, form) for name, form in FORMS.items()}
        runs[EXPORTED] = model
        translators = {"float32": Translator(open_onnx(model, LoadSettings(engine="onnx", threads=args.threads)))}
        for name, run in runs.items():
            translators[name] = Translator(open_onnx(run, LoadSettings(engine="onnx-int8", threads=args.threads)))
        translations, seconds = in_turns(translators, args.rounds, lambda name: translators[name].texts(source))
        rows = []
        for name, texts in translations.items():
            signed = name == EXPORTED or (name in FORMS and FORMS[name].kind == QuantType.QInt8)
            shares = saturation(runs[name], source[:LINES]) if signed else ("–", "–")
            cells = quality(texts, references, translations["float32"])
            rows.append([name, *cells, f"{seconds[name]:.2f}", *shares])
        return rows


def quantised_copy(model: Path, run: Path, form: Form) -> Path:
    """Copy the exported model to ``run`` and quantise its float32 graphs to this form."""
    shutil.copytree(model, run, ignore=shutil.ignore_patterns("checkpoints", "data", "tensorboard"))
    for name in ("encode", "step"):
        float_file, integer_file = (run / "onnx" / f"{name}{ending}.onnx" for ending in ("", ".int8"))
        options = {"weight_type": form.kind, "reduce_range": form.reduced}
        quantize_dynamic(float_file, integer_file, per_channel=True, op_types_to_quantize=QUANTISED, **options)
        about = json.loads((run / "onnx" / ABOUT).read_text(encoding="utf-8"))
        about["checksums"][integer_file.name] = checksum(integer_file)
        (run / "onnx" / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    return run


def saturation(run: Path, lines: list[str]) -> tuple[str, str]:
    """Return the shares of saturated pairs and of affected sums in the decoder steps, in percent."""
    graph = onnx.load(run / "onnx" / "step.int8.onnx")
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    products = [node for node in graph.graph.node if node.op_type.startswith("MatMulInteger")]
    inputs = record_inputs(run, graph, [node.input[0] for node in products], lines)
    pairs = saturated = sums = affected = 0
    for node in products:
        weight = weights[node.input[1]].astype(np.int32)
        for rows in inputs[node.input[0]]:
            terms = rows.astype(np.int32)[:, :, None] * weight[None]  # (rows, in, out)
            pair_sums = terms[:, 0::2] + terms[:, 1::2]
            outside = (pair_sums > np.iinfo(np.int16).max) | (pair_sums < np.iinfo(np.int16).min)
            pairs, saturated = pairs + outside.size, saturated + int(outside.sum())
            sums, affected = sums + outside[:, 0].size, affected + int(outside.any(1).sum())
    return f"{100 * saturated / pairs:.4f} %", f"{100 * affected / sums:.2f} %"


def record_inputs(run: Path, graph: onnx.ModelProto, names: list[str], lines: list[str]) -> dict[str, list[np.ndarray]]:
    """Translate the lines and return some rows of the tensors ``names`` of the step graph."""
    for name in names:
        graph.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, None))
    options = onnxruntime.SessionOptions()
    # Graph optimisation would fuse the products and hide their inputs.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    translator = Translator(open_onnx(run, LoadSettings(engine="onnx-int8", threads=1)))
    engine: Any = translator.loaded_model.engine(trace=False)
    outputs = [output.name for output in engine._step.get_outputs()]
    recorder = Recorder(onnxruntime.InferenceSession(graph.SerializeToString(), options), names, outputs)
    engine._step = recorder
    translator.texts(lines)
    return recorder.rows


class Recorder:
    """A session that also keeps some rows of the tensors ``names``."""

    def __init__(self, session: Any, names: list[str], outputs: list[str]) -> None:
        self.session, self.names, self.outputs = session, names, outputs
        self.rows: dict[str, list[np.ndarray]] = {name: [] for name in names}

    def run(self, _: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        (*values,) = self.session.run([*self.outputs, *self.names], inputs)
        for name, tensor in zip(self.names, values[len(self.outputs) :], strict=True):
            rows = tensor.reshape(-1, tensor.shape[-1])
            self.rows[name] += [rows[:ROWS_PER_CALL]] if len(self.rows[name]) < CALLS else []
        return values[: len(self.outputs)]


if __name__ == "__main__":
    main()
