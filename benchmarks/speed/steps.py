"""Measure how long one decoder step takes as the target grows, for an LSTM and for Transformers.

Untrained models of equal width decode one source greedily; engine=torch, CPU time of one thread. Each point is the
median of 100 steps, and the median of --rounds rounds, in which the models take turns.

    python -m benchmarks.speed.steps
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import torch
from matplotlib.figure import Figure

from benchmarks.report import argument_parser, header, save, table
from nmt.config.compose import train_config
from nmt.inference.torch_engine import TorchEngine
from nmt.model.build import build_model
from nmt.text.specials import BOS, EOS

WINDOW, VOCABULARY = 100, 1_000
TRANSFORMER = ["encoder=transformer", "decoder=transformer"]
KINDS = {
    "LSTM": ["encoder.hidden_size=256", "decoder.hidden_size=256", "decoder.layers=3"],
    "Transformer, linear": [*TRANSFORMER, "decoder.self_attention=linear"],
    "Transformer, softmax": TRANSFORMER,
}


def main() -> None:
    parser = argument_parser(__doc__, "steps.md", threads=None, rounds=3)
    parser.add_argument("--steps", type=int, default=2_000, help="target pieces; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rounds: dict[str, list[list[float]]] = {name: [] for name in KINDS}
    for _ in range(args.rounds):
        for name, words in KINDS.items():
            rounds[name].append(step_times(words, args.steps))
            print(name, *(f"{milliseconds:.2f}" for milliseconds in rounds[name][-1]), flush=True)
    curves = {name: [median(times) for times in zip(*windows, strict=True)] for name, windows in rounds.items()}
    ends = [WINDOW * (index + 1) for index in range(args.steps // WINDOW)]
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.subplots()
    for name, times in curves.items():
        axis.plot(ends, times, marker=".", label=name)
    axis.set(xlabel="target pieces so far", ylabel="one step, ms", ylim=(0, None))
    axis.legend(frameon=False)
    figure.savefig(args.output.with_suffix(".png"), dpi=110)
    fact = f"three layers of 256, one source, greedy, engine=torch, one thread, CPU ms per step, medians of {WINDOW}, "
    fact += f"{args.rounds} rounds in turns"
    shown = [index for index, end in enumerate(ends) if end in (100, 200, 500, 1_000, 2_000)]
    rows = [
        [name, *(f"{times[index]:.2f}" for index in shown), f"{times[-1] / times[0]:.2f}"]
        for name, times in curves.items()
    ]
    columns = ["decoder", *(f"up to {ends[index]:,}" for index in shown), "last / first"]
    lines = [*header("One decoder step against the target length", fact), *table(columns, rows)]
    save(args.output, [*lines, "", "![time of a step against the number of pieces](steps.png)"])


def step_times(words: list[str], steps: int) -> list[float]:
    """Return the median CPU milliseconds of a step in each window of WINDOW steps."""
    config = train_config(["attention=luong", *words])
    torch.manual_seed(1)
    model = build_model(config, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, longest_source=20)
    engine = TorchEngine(model.eval())
    state = engine.init(engine.encode([[*range(10, 29), EOS]]))
    tokens, parents = np.full((1, 1), BOS), np.zeros((1, 1), dtype=np.int64)
    seconds = []
    for _ in range(steps):
        started = time.process_time()
        state, _, ids, _ = engine.step(state, tokens, parents, 1)
        seconds.append(time.process_time() - started)
        tokens = ids[:, :, 0]
    return [1000 * median(seconds[first : first + WINDOW]) for first in range(0, steps, WINDOW)]


if __name__ == "__main__":
    main()
