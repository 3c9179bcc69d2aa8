"""Complete occluded sequences: softmax against linear self-attention, quality and speed of generation.

A sequence is N / 2 random symbols, followed by the same symbols in the same order. The second half is occluded, and
the network completes it step by step, as Katharopoulos et al. (2020), §4.2, complete images. It has only causal
self-attention, so it has to remember the first half: softmax in a cache that grows, linear in a matrix of constant
size. The script writes a table and two curves against N: the share of right symbols, and symbols generated per CPU
second of one thread.

    python benchmarks/completion.py
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from report import argument_parser, header, save, table
from torch import Tensor, nn

from nmt.model.transformer_layers import EncoderLayer, PositionedEmbeddings
from nmt.self_attention import FeatureMap, Kind

SYMBOLS, SIZE, LAYERS, HEADS = 16, 64, 2, 2
BATCH, TESTS = 32, 64
KINDS: dict[str, tuple[Kind, FeatureMap]] = {
    "softmax": ("softmax", "elu"),
    "linear, elu": ("linear", "elu"),
    "linear, taylor": ("linear", "taylor"),
}


class Result(NamedTuple):
    """One kind and length: the share of right symbols (chance: 1 / SYMBOLS), and symbols per CPU second."""

    kind: str
    length: int
    accuracy: float
    speed: float


class Network(nn.Module):
    """Causal self-attention layers over symbols, which predict the next symbol."""

    def __init__(self, kind: Kind, feature_map: FeatureMap) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, SIZE)
        nn.init.normal_(self.embedding.weight, std=0.1)  # as in ``build_model``: positions stay visible beside symbols
        self.inputs = PositionedEmbeddings(embedding_size=SIZE, size=SIZE)
        settings = {"inner_size": 2 * SIZE, "dropout": 0.0, "kind": kind, "feature_map": feature_map}
        self.layers = nn.ModuleList(EncoderLayer(size=SIZE, heads=HEADS, **settings) for _ in range(LAYERS))
        self.output = nn.Sequential(nn.LayerNorm(SIZE), nn.Linear(SIZE, SYMBOLS))

    def forward(self, symbols: Tensor) -> Tensor:
        """Return logits (B, N, V) of the symbol after each of ``symbols`` (B, N)."""
        states = self.inputs(self.embedding(symbols), torch.arange(symbols.shape[1]))
        for layer in self.layers:
            states = layer.transform(states + layer.self_attention(layer.self_attention_norm(states)))
        return self.output(states)

    @torch.inference_mode()
    def complete(self, seen: Tensor, count: int) -> Tensor:
        """Return the most likely next symbols (B, count) after ``seen`` (B, N), generated step by step."""
        states = [layer.self_attention.start(self.embedding.weight.new_zeros(len(seen), SIZE)) for layer in self.layers]
        outputs, length = [], seen.shape[1]
        for position in range(length + count - 1):
            symbol = seen[:, position] if position < length else outputs[-1]
            x = self.inputs(self.embedding(symbol)[:, None], torch.full((1,), position))
            for number, layer in enumerate(self.layers):
                output, states[number] = layer.self_attention.step(layer.self_attention_norm(x), states[number])
                x = layer.transform(x + output)
            if position >= length - 1:
                outputs.append(self.output(x)[:, 0].argmax(1))
        return torch.stack(outputs, dim=1)


def main() -> None:
    parser = argument_parser(__doc__, "completion.md", threads=None)
    parser.add_argument("--length", type=int, nargs="+", default=[16, 32, 64], help="N; default: %(default)s")
    parser.add_argument("--updates", type=int, default=400, help="of training; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for length in args.length:
        for kind in KINDS:
            results.append(measure(kind, length, args.updates))
            print(f"{kind}, N = {length}: {results[-1].accuracy:.3f}, {results[-1].speed:,.0f} symbols/s", flush=True)
    plot(results, args.output.with_suffix(".png"))
    fact = f"{SYMBOLS} symbols, {LAYERS} layers of {SIZE}, {args.updates} updates of {BATCH} sequences, {TESTS} tests"
    rows = [[kind, f"{length:,}", f"{accuracy:.3f}", f"{speed:,.0f}"] for kind, length, accuracy, speed in results]
    lines = header("Completion of occluded sequences", fact, f"chance is {1 / SYMBOLS:.3f}; one thread, CPU time")
    lines += table(("self-attention", "N", "right symbols", "symbols per s"), rows)
    save(args.output, [*lines, "", "![quality and speed against N](completion.png)"], show=False)


def measure(kind: str, length: int, updates: int) -> Result:
    """Train a network on sequences of this length, and let it complete others."""
    torch.manual_seed(1)
    network = Network(*KINDS[kind])
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, updates, pct_start=0.1)
    half = length // 2
    for _ in range(updates):
        symbols = torch.randint(SYMBOLS, (BATCH, half)).repeat(1, 2)
        logits = network(symbols[:, :-1])[:, half - 1 :]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), symbols[:, half:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    tests = torch.randint(SYMBOLS, (TESTS, half))
    started = time.process_time()
    completed = network.complete(tests, half)
    seconds = time.process_time() - started
    return Result(kind, length, (completed == tests).float().mean().item(), TESTS * (length - 1) / seconds)


def plot(results: list[Result], file: Path) -> None:
    """Draw quality and speed against N."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for kind in KINDS:
        own = [result for result in results if result.kind == kind]
        lengths = [result.length for result in own]
        left.plot(lengths, [result.accuracy for result in own], marker=".", label=kind)
        right.plot(lengths, [result.speed for result in own], marker=".", label=kind)
    left.set(xlabel="N", ylabel="share of right symbols", ylim=(0, 1.02), xscale="log")
    right.set(xlabel="N", ylabel="symbols per CPU second", ylim=(0, None), xscale="log")
    left.legend(frameon=False)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
