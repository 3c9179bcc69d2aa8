"""Low-rank adapters of a small classifier: fine-tuned on shifted digits, and trained from scratch.

The experiment of the report on efficient attention, § 3.1: three linear layers with 55,050 weights learn digits.
Adapters of rank 1 to 64, and all weights, then learn the same digits with two greys, turned by 90°, and inverted. "From
scratch" trains adapters of random weights, which stay frozen, as do the biases. Held-out images choose the rate of each
cell.

    python -m benchmarks.papers.lora_digits --data data/mnist    the four files of MNIST, also as .gz
    python -m benchmarks.papers.lora_digits                      scikit-learn's 1,797 digits, enlarged

Every result is one line of results/records/lora_digits.jsonl, and a later call measures only what is missing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measurements import Measurements
from benchmarks.papers import digits
from benchmarks.report import argument_parser, header, save, table, with_range
from nmt.model.adapter import adapt

HIDDEN, BATCH, UPDATES = 64, 64, 1500
RANKS = (1, 2, 4, 8, 16, 32, 64)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
HELD_OUT = 0.15  # share of the training images that chooses the learning rate
ALPHA = 1.0  # the update is B A / r, so that one rate suits several ranks
PLAIN = "as they are"
SHIFTS: dict[str, Callable[[Tensor], Tensor]] = {
    PLAIN: lambda images: images,
    "two greys": lambda images: (images >= 128).to(images) * 255,
    "turned": lambda images: images.rot90(dims=(1, 2)),
    "inverted": lambda images: 255 - images,
}


def main() -> None:
    parser = argument_parser(__doc__, "lora_digits.md", threads=1, seeds=[1, 2, 3])
    parser.add_argument("--data", type=Path, help="folder of MNIST; default: scikit-learn's digits")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = digits.load(args.data)
    name = "MNIST" if args.data else "scikit-learn"
    records = Measurements(args.output.parent / "records" / "lora_digits.jsonl")
    for seed in args.seeds:
        base = train(new_network(seed), data, PLAIN, rate=0.003, seed=seed)
        records.measure(partial(shifted_accuracies, base, data), images=name, start="base", seed=seed)
        for start, shift, rank in cells():
            network = base if start == "fine-tuned" else new_network(seed)
            for rate in RATES:
                cell = {"images": name, "start": start, "shift": shift, "rank": rank, "rate": rate, "seed": seed}
                records.measure(partial(tune, network, data), **cell)
    report(records, args.output, name, args.seeds)


def cells() -> list[tuple[str, str, int | None]]:
    """Return start, shift and rank of each cell; rank None trains all weights."""
    tuned = [("fine-tuned", shift, rank) for shift in SHIFTS if shift != PLAIN for rank in (*RANKS, None)]
    return tuned + [("from scratch", shift, rank) for shift in SHIFTS for rank in (*RANKS, None)]


def new_network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    sizes = (digits.SIDE**2, HIDDEN, HIDDEN, 10)
    layers = [nn.Linear(size, next_size) for size, next_size in zip(sizes, sizes[1:], strict=False)]
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])


def inputs(images: Tensor, shift: str) -> Tensor:
    """Return shifted images as the network reads them (N, 784)."""
    return SHIFTS[shift](images).flatten(1).float() / 127.5 - 1


def held_out(data: digits.Digits) -> int:
    """Return the number of training images that choose the learning rate: the last ones."""
    return int(HELD_OUT * len(data.labels))


def train(network: nn.Sequential, data: digits.Digits, shift: str, *, rate: float, seed: int) -> nn.Sequential:
    """Train all weights of ``network`` that are not frozen, and return it."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    count = len(data.labels) - held_out(data)
    images = inputs(data.images[:count], shift)
    optimizer = torch.optim.Adam(weights, lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, UPDATES)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(UPDATES):
        rows = torch.randint(count, (BATCH,), generator=generator)
        loss = nn.functional.cross_entropy(network(images[rows]), data.labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network


def tune(
    network: nn.Sequential, data: digits.Digits, *, shift: str, rank: int | None, rate: float, seed: int, **_: Any
) -> dict[str, Any]:
    """Train a copy of ``network``, or adapters of it, and return its accuracies and CPU seconds."""
    network = copy.deepcopy(network)
    torch.manual_seed(seed)
    if rank is not None:
        adapt(network, rank=rank, alpha=ALPHA, parts=tuple(name for name, _ in network.named_children()))  # type: ignore[arg-type]
    trained = sum(weight.numel() for weight in network.parameters() if weight.requires_grad)
    started = time.process_time()
    train(network, data, shift, rate=rate, seed=seed)
    seconds = time.process_time() - started
    count = held_out(data)
    return {
        "held_out": accuracy(network, inputs(data.images[-count:], shift), data.labels[-count:]),
        "test": accuracy(network, inputs(data.test_images, shift), data.test_labels),
        "weights": trained,
        "seconds": seconds,
    }


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of the images whose label the network ranks first, in percent."""
    return 100 * float((network(images).argmax(1) == labels).float().mean())


def shifted_accuracies(network: nn.Module, data: digits.Digits, **_: Any) -> dict[str, float]:
    """Return the accuracy of the network on each shifted test set."""
    return {shift: accuracy(network, inputs(data.test_images, shift), data.test_labels) for shift in SHIFTS}


def report(records: Measurements, file: Path, name: str, seeds: list[int]) -> None:
    """Write the tables of accuracy and time."""
    lines = header(
        "Low-rank adapters of a classifier of digits",
        f"digits of {name}; test accuracy in percent, mean (range) over {len(seeds)} seeds",
        f"{UPDATES:,} updates of {BATCH} images, Adam, rate falling linearly to 0",
        f"first rate: the one of {', '.join(map(str, RATES))} with the best accuracy on held-out training images",
        f"measured at {records.commits()}",
    )
    base = records.find(images=name, start="base")
    rows = [
        ["the model itself", "–", *(with_range([record[shift] for record in base], ".1f") for shift in SHIFTS), "–"]
    ]
    for start in ("fine-tuned", "from scratch"):
        for rank in (*RANKS, None):
            label = f"{start}, {'all weights' if rank is None else f'r = {rank}'}"
            row = []
            chosen = []
            for shift in SHIFTS:
                cell = [best(records, name, start, shift, rank, seed) for seed in seeds]
                measured = [record for record in cell if record is not None]
                chosen += measured
                row.append(with_range([record["test"] for record in measured], ".1f") if measured else "–")
            seconds = sum(record["seconds"] for record in chosen) / len(chosen)
            rows.append([label, f"{chosen[0]['weights']:,}", *row, f"{1000 * seconds / UPDATES:.2f}"])
    save(file, [*lines, *table(("trained", "weights", *SHIFTS, "CPU ms per update"), rows)])


def best(
    records: Measurements, name: str, start: str, shift: str, rank: int | None, seed: int
) -> dict[str, Any] | None:
    """Return the record of the rate with the best held-out accuracy, or None if the cell was not measured."""
    measured = records.find(images=name, start=start, shift=shift, rank=rank, seed=seed)
    return max(measured, key=lambda record: record["held_out"], default=None)


if __name__ == "__main__":
    main()
