"""Measure whether a unit that reads C h (de Brébisson & Vincent 2016, §6) learns longer dependencies than a GRU.

A sequence starts with one of 10 symbols, and noise follows. The last state has to tell the first symbol. Each unit is
trained for each distance between the two, with the same sequences. A second table holds the norm of the loss's gradient
for the input at each distance, relative to that for the last input, before any training. ``GRU and C h`` is a GRU whose
last state also reads the covariance of all states, as attention does in the paper.

    python -m benchmarks.papers.dependencies
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.report import argument_parser, header, save, table, with_range
from nmt.model import CovarianceGRUEncoder, GRUEncoder

SIZE, SYMBOLS, ROWS, RATE = 32, 10, 32, 0.005
DISTANCES = [10, 30, 100]
GRADIENTS = [1, 10, 50, 100, 200]
UNITS: dict[str, Callable[..., nn.Module]] = {
    "GRU": partial(GRUEncoder, bidirectional=False),
    "GRU and C h": partial(GRUEncoder, bidirectional=False),
    "covariance GRU": CovarianceGRUEncoder,
    "covariance GRU, not scaled": partial(CovarianceGRUEncoder, scaled=False),
}


class Recaller(nn.Module):
    """Embeddings, an encoder, and a softmax over the symbols, given the last state."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2 * SYMBOLS, SIZE)
        self.encoder = UNITS[name](embedding_size=SIZE, hidden_size=SIZE, dropout=0.0)
        self.reads = name == "GRU and C h"
        self.output = nn.Linear(2 * SIZE if self.reads else SIZE, SYMBOLS)

    def forward(self, embedded: Tensor) -> Tensor:
        """Return scores (B, symbols) for embedded (B, T, X)."""
        states, _ = self.encoder(embedded, torch.ones_like(embedded[..., 0], dtype=torch.bool))
        last = states[:, -1]
        if not self.reads:
            return self.output(last)
        read = torch.einsum("bsi,bsj,bj->bi", states, states, last) / states.shape[1]
        return self.output(torch.cat([last, read], dim=1))


def main() -> None:
    parser = argument_parser(__doc__, "dependencies.md", threads=1, seeds=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=300, help="updates of each training; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    shares: dict[str, list[str]] = {}
    norms: dict[str, list[str]] = {}
    for name in UNITS:
        started = time.process_time()
        accuracies = [[train(name, distance, args.updates, seed) for seed in args.seeds] for distance in DISTANCES]
        seconds = time.process_time() - started
        shares[name] = [*(with_range([100 * x for x in values], ".0f") for values in accuracies), f"{seconds:.0f}"]
        gradients = [gradient_norms(name, seed) for seed in args.seeds]
        norms[name] = [f"{torch.stack(values).median():.0e}" for values in zip(*gradients, strict=True)]
        print(name, shares[name], norms[name], flush=True)
    lines = header(
        "Dependencies of recurrent units",
        f"states and embeddings of {SIZE}; {args.updates} updates of {ROWS} sequences; Adam, rate {RATE}",
        f"accuracy in % for 1,000 new sequences; mean (lowest–highest) of {len(args.seeds)} seeds; chance: 10",
        "s: processor seconds of all trainings of a row, on a core that other programs shared",
    )
    columns = ["unit", *(f"distance {distance}" for distance in DISTANCES), "s"]
    lines += [*table(columns, ([name, *cells] for name, cells in shares.items())), ""]
    lines += [
        "Norm of the gradient at a distance, divided by that at the last input, untrained; median of the seeds:",
        "",
    ]
    columns = ["unit", *map(str, GRADIENTS)]
    save(args.output, lines + table(columns, ([name, *cells] for name, cells in norms.items())))


def draw(generator: torch.Generator, rows: int, distance: int) -> tuple[Tensor, Tensor]:
    """Return ids (rows, distance + 1) and their first symbols."""
    first = torch.randint(SYMBOLS, (rows, 1), generator=generator)
    noise = torch.randint(SYMBOLS, 2 * SYMBOLS, (rows, distance), generator=generator)
    return torch.cat([first, noise], dim=1), first[:, 0]


def train(name: str, distance: int, updates: int, seed: int) -> float:
    """Return the accuracy after the training."""
    torch.manual_seed(seed)
    model = Recaller(name)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(updates):
        ids, symbols = draw(generator, ROWS, distance)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(model.embedding(ids)), symbols).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    ids, symbols = draw(generator, 1_000, distance)
    with torch.no_grad():
        return (model(model.embedding(ids)).argmax(1) == symbols).double().mean().item()


def gradient_norms(name: str, seed: int) -> list[Tensor]:
    """Return the norms of the gradient for the inputs at the distances of ``GRADIENTS`` from the last one."""
    torch.manual_seed(seed)
    model = Recaller(name)
    ids, symbols = draw(torch.Generator().manual_seed(seed), ROWS, max(GRADIENTS))
    embedded = model.embedding(ids).detach().requires_grad_()
    nn.functional.cross_entropy(model(embedded), symbols).backward()
    assert embedded.grad is not None
    norms = embedded.grad.norm(dim=2).mean(0)
    return [norms[-1 - distance] / norms[-1] for distance in GRADIENTS]


if __name__ == "__main__":
    main()
