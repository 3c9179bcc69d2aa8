"""Which 8-bit integers? BLEU, chrF, equal lines and seconds of four forms of the same graphs, and what is cut off.

Processors without integer dot products (AVX2 alone) multiply unsigned activations with signed weights two pairs at a
time, in 16 bits: a pair of products beyond ±32,767 is cut off, silently. ``cut off`` counts such pairs in what real
translations multiply, whatever processor this runs on; ``sums touched``: results with one such pair at least.

    python benchmarks/integers.py --model runs/multi30k/m30k-memory --data data/multi30k
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from machine import provenance, writable
from onnxruntime.quantization import QuantType, quantize_dynamic

from nmt.evaluation import corpus_scores
from nmt.inference.onnx.export import QUANTISED
from nmt.inference.onnx.folder import open_onnx
from nmt.inference.onnx.layout import ABOUT
from nmt.inference.translator import Translator
from nmt.storage import checksum
from nmt.text.files import read_lines

SAMPLE = 4  # rows looked at in each product


class Form(NamedTuple):
    kind: QuantType
    reduced: bool


FORMS = {
    "signed, 8 bits": Form(QuantType.QInt8, False),
    "signed, 7 bits": Form(QuantType.QInt8, True),
    "unsigned, 8 bits": Form(QuantType.QUInt8, False),
    "unsigned, 7 bits": Form(QuantType.QUInt8, True),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, nargs="+", required=True, help="exported")
    options.add_argument("--data", type=Path, default=Path("data/multi30k"))
    options.add_argument("--part", default="test2016")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results" / "integers.md")
    asked = options.parse_args()
    logging.disable(logging.WARNING)  # advice for developers
    source, target = (list(read_lines(asked.data / f"{asked.part}.{side}.gz")) for side in ("en", "de"))
    report = ["# 8-bit integers", "", *(f"- {line}" for line in provenance())]
    report += [
        f"- {asked.part}, beam 5, lower-cased, {asked.threads} threads, least of {asked.rounds} rounds in turns",
        "",
    ]
    report += ["", "| model | weights | BLEU | chrF | lines as float32 has them | s | pairs cut off | sums touched |"]
    report += ["|---" * 8 + "|"]
    for model in asked.model:
        report += [f"| {model.name} | {row}" for row in rows(model, source, [line.lower() for line in target], asked)]
    asked.output.write_text("\n".join(report) + "\n", encoding="utf-8")
    print("\n".join(report))


def rows(model: Path, source: list[str], target: list[str], asked: argparse.Namespace) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: quantised(model, Path(folder) / name, form) for name, form in FORMS.items()}
        translators = {"float32": Translator(open_onnx(model, "onnx", threads=asked.threads))}
        translators |= {
            name: Translator(open_onnx(run, "onnx-int8", threads=asked.threads)) for name, run in runs.items()
        }
        texts, seconds = {}, dict.fromkeys(translators, float("inf"))
        for _ in range(asked.rounds):
            for name, translator in translators.items():
                started = time.perf_counter()
                texts[name] = translator.texts(source)
                seconds[name] = min(seconds[name], time.perf_counter() - started)
        found = []
        for name, lines in texts.items():
            scores = corpus_scores(lines, target, lowercase=True)
            equal = sum(one == other for one, other in zip(lines, texts["float32"], strict=True)) / len(lines)
            signed = name in FORMS and FORMS[name].kind == QuantType.QInt8
            cut = cut_off(runs[name], source[:40]) if signed else ("–", "–")
            row = [name, f"{scores.bleu:.2f}", f"{scores.chrf:.2f}", f"{100 * equal:.1f} %", f"{seconds[name]:.2f}"]
            found.append(f"{' | '.join([*row, *cut])} |")
        return found


def quantised(model: Path, run: Path, form: Form) -> Path:
    """A copy of the exported model whose integers have this form."""
    shutil.copytree(model, run, ignore=shutil.ignore_patterns("checkpoints", "data", "tensorboard"))
    for name in ("encode", "step"):
        exact, file = (run / "onnx" / f"{name}{ending}.onnx" for ending in ("", ".int8"))
        form_of = {"weight_type": form.kind, "reduce_range": form.reduced}
        quantize_dynamic(exact, file, per_channel=True, op_types_to_quantize=QUANTISED, **form_of)
        about = json.loads((run / "onnx" / ABOUT).read_text(encoding="utf-8"))
        about["checksums"][file.name] = checksum(file)
        (run / "onnx" / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    return run


def cut_off(run: Path, lines: list[str]) -> tuple[str, str]:
    """Shares of pairs of products beyond 16 bits, and of sums that hold one, in the decoder's steps."""
    graph = onnx.load(run / "onnx" / "step.int8.onnx")
    weights = {one.name: onnx.numpy_helper.to_array(one) for one in graph.graph.initializer}
    products = [node for node in graph.graph.node if node.op_type == "MatMulInteger"]
    names = [node.input[0] for node in products]
    for name in names:
        graph.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, None))
    translator = Translator(open_onnx(run, "onnx-int8", threads=1))
    engine: Any = translator.runtime.engine(trace=False)
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # fused, they show nothing
    watching = Watching(onnxruntime.InferenceSession(graph.SerializeToString(), settings), names)
    plain, engine._step = engine._step, watching
    watching.outputs = [one.name for one in plain.get_outputs()]
    translator.texts(lines)
    pairs = cut = sums = touched = 0
    for node, name in zip(products, names, strict=True):
        weight = weights[node.input[1]].astype(np.int32)
        for rows in watching.seen[name]:
            each = rows.astype(np.int32)[:, :, None] * weight[None]  # (rows, in, out)
            both = each[:, 0::2] + each[:, 1::2]
            beyond = (both > np.iinfo(np.int16).max) | (both < np.iinfo(np.int16).min)
            pairs, cut = pairs + beyond.size, cut + int(beyond.sum())
            sums, touched = sums + beyond[:, 0].size, touched + int(beyond.any(1).sum())
    return f"{100 * cut / pairs:.4f} %", f"{100 * touched / sums:.2f} %"


class Watching:
    """A session that keeps some rows of what the integer products are given."""

    def __init__(self, session: Any, names: list[str]) -> None:
        self.session, self.names = session, names
        self.outputs: list[str] = []
        self.seen: dict[str, list[np.ndarray]] = {name: [] for name in names}

    def run(self, _: Any, given: dict[str, np.ndarray]) -> list[np.ndarray]:
        (*found,) = self.session.run([*self.outputs, *self.names], given)
        for name, rows in zip(self.names, found[len(self.outputs) :], strict=True):
            rows = rows.reshape(-1, rows.shape[-1])
            self.seen[name] += [rows[:SAMPLE]] if len(self.seen[name]) < 12 else []
        return found[: len(self.outputs)]


if __name__ == "__main__":
    main()
