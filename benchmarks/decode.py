"""How fast does each engine decode? Seconds for the same work, the engines in turns, and how near each is to its floor.

The model has the sizes of the reference (two layers, 512, input feeding, 8,000 pieces) and random weights, so every
translation gets the same number of pieces: --steps of them. The floor is the time that the model's products alone would
take at the best rate at which a plain product of each shape ran in the same process.

    python benchmarks/decode.py                                     320 lines of 15 pieces, beam 5, batches of 32
    python benchmarks/decode.py --lines 50 --batch 1                one at a time
    python benchmarks/decode.py --attention memory --lines 100 --length 111 --steps 150
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from machine import provenance
from onnxruntime.quantization import QuantType, quantize_dynamic
from reference import LAYERS, SIZE, VOCABULARY, reference

from nmt.inference.translator import Translator
from nmt.search import SearchOptions
from nmt.search.engine import Engine
from nmt.search.search import search
from nmt.text.specials import EOS

ENGINES = ("torch", "onnx", "onnx-int8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES)
    options.add_argument("--attention", nargs="+", default=["luong"], help="attention= and further words")
    options.add_argument("--lines", type=int, default=320)
    options.add_argument("--length", type=int, default=15, help="source pieces a line, </s> counted")
    options.add_argument("--steps", type=int, default=15, help="target pieces of every line")
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--runs", type=Path, default=Path("runs/decode"))
    options.add_argument("--name", default="decode", help="of the results file")
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    engines = dict(made(asked))
    random = np.random.default_rng(1)
    lines = [[*random.integers(300, VOCABULARY, asked.length - 1).tolist(), EOS] for _ in range(asked.lines)]
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for engine in engines.values():
        decode(engine, lines[: asked.batch], asked)  # what is prepared once is not timed
    for _ in range(asked.rounds):
        for name, engine in engines.items():
            started = time.perf_counter()
            decode(engine, lines, asked)
            seconds[name].append(time.perf_counter() - started)
    report = table(asked, seconds)
    (asked.output / f"{asked.name}.md").write_text("\n".join(report) + "\n", encoding="utf-8")
    print("\n".join(report))


def made(asked: argparse.Namespace) -> Iterator[tuple[str, Engine[Any, Any]]]:
    """The engines asked for, of one model."""
    run = reference(asked.runs, asked.attention)
    for name in asked.engine:
        yield name, Translator.load(run, engine=name, device="auto", threads=asked.threads).runtime.engine(trace=False)


class Endless(NamedTuple):
    """An engine that cannot say ``</s>``, so that all translations become equally long."""

    engine: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def step(self, state: Any, tokens: Any, parents: Any, k: int, banned: Sequence[int] | None = None) -> Any:
        return self.engine.step(state, tokens, parents, k, (*(banned or ()), EOS))


def decode(engine: Any, lines: list[list[int]], asked: argparse.Namespace) -> None:
    options = SearchOptions(beam_size=asked.beam, max_length=asked.steps)
    for first in range(0, len(lines), asked.batch):
        found = search(Endless(engine), lines[first : first + asked.batch], options)
        assert all(len(each[0].tokens) == asked.steps for each in found)


def table(asked: argparse.Namespace, seconds: dict[str, list[float]]) -> list[str]:
    floors = {"torch": floor(asked, ["linear", "product"]), "onnx": floor(asked, ["linear", "product", "onnx"])}
    floors["onnx-int8"] = floor(asked, ["onnx-int8"])
    lines = ["# Decoding", "", *(f"- {line}" for line in provenance()), f"- onnxruntime {onnxruntime.__version__}"]
    lines += [
        f"- {' '.join(asked.attention)}; {asked.lines} lines of {asked.length} pieces, {asked.steps} pieces out, beam "
        f"{asked.beam}, batches of {asked.batch}, {asked.threads} threads, {asked.rounds} rounds in turns",
        "",
        "| engine | median s (quartiles) | first engine / this | pieces out a second | floor, s | floor / time |",
        "|---|---|---|---|---|---|",
    ]
    first = next(iter(seconds.values()))
    for name, found in seconds.items():
        low, _, high = quantiles(found, n=4)
        ratio = median(one / other for one, other in zip(first, found, strict=True))
        rate = asked.lines * asked.steps / median(found)
        row = [name, f"{median(found):.2f} ({low:.2f}–{high:.2f})", f"{ratio:.2f}×", f"{rate:,.0f}"]
        lines.append(f"| {' | '.join([*row, f'{floors[name]:.2f}', f'{floors[name] / median(found):.2f}'])} |")
    return lines


def floor(asked: argparse.Namespace, ways: list[str]) -> float:
    """Seconds that the products of the whole work take, each at the best rate of the ``ways`` to multiply its shape."""
    batches = asked.lines / asked.batch
    rows = asked.batch * asked.beam
    # (rows, in, out, how often a batch): the encoder's two directions by layer, then what every step multiplies
    shapes = [
        (asked.batch * asked.length, SIZE, 4 * SIZE, LAYERS),
        (asked.batch, SIZE // 2, 2 * SIZE, 2 * LAYERS * asked.length),
    ]
    shapes += [(rows, 3 * SIZE, 4 * SIZE, asked.steps), (rows, 2 * SIZE, 4 * SIZE, (LAYERS - 1) * asked.steps)]
    shapes += [(rows, 2 * SIZE, SIZE, asked.steps), (rows, SIZE, VOCABULARY, asked.steps)]
    return batches * sum(count * min(once(way, *shape) for way in ways) for *shape, count in shapes)


def once(way: str, rows: int, width: int, height: int) -> float:
    """Seconds of one product (rows × width) · (width × height), the best of many."""
    x, w = torch.randn(rows, width), torch.randn(height, width)
    if way == "linear":
        return best(lambda: torch.nn.functional.linear(x, w))
    if way == "product":
        turned = x.t().contiguous()
        return best(lambda: w @ turned)
    session = _product(w.t().numpy(), way == "onnx-int8")
    given = {"x": x.numpy()}
    return best(lambda: session.run(None, given))


def _product(weight: np.ndarray, integers: bool) -> onnxruntime.InferenceSession:
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", kind, [None, weight.shape[0]])],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(weight), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    if not integers:
        return onnxruntime.InferenceSession(model.SerializeToString(), options)
    with tempfile.TemporaryDirectory() as folder:
        exact, file = Path(folder) / "exact.onnx", Path(folder) / "integers.onnx"
        onnx.save(model, exact)
        quantize_dynamic(exact, file, weight_type=QuantType.QInt8, per_channel=True)
        return onnxruntime.InferenceSession(str(file), options)


def best(run: Callable[[], Any]) -> float:
    with torch.no_grad():
        found, started = [], time.perf_counter()
        while len(found) < 5 or time.perf_counter() - started < 0.3:
            before = time.perf_counter()
            run()
            found.append(time.perf_counter() - before)
    return min(found)


if __name__ == "__main__":
    main()
