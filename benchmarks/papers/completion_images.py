"""Complete the lower half of images of 784 pixels: softmax against linear self-attention, as two texts report it.

Networks with causal self-attention learn images of digits, pixel by pixel, as in Katharopoulos et al. (2020), §4.2.
Then they draw the hidden half of test images. The table has bits per hidden pixel, the CPU seconds of one thread for
100, 200 and 300 images, and the accuracy of a classifier on the completed images, beside that on the images themselves.

    python -m benchmarks.papers.completion_images --data data/mnist    the four files of MNIST, also as .gz
    python -m benchmarks.papers.completion_images                      scikit-learn's 1,797 digits, enlarged

Every result is one line of results/records/completion_images.jsonl, and a later call measures only what is missing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measurements import Measurements
from benchmarks.papers import digits, lora_digits
from benchmarks.papers.completion_network import (
    BATCH,
    LAYERS,
    PAPER,
    SIZE,
    complete,
    drawn,
    loss_of,
    new_network,
    train,
)
from benchmarks.report import argument_parser, header, save, table, with_range
from nmt.kernels.process import keep_freed_memory

GREYS, PIXELS, AT_ONCE, SHOWN = 16, digits.SIDE**2, 100, 8
COUNTS = (100, 200, 300)  # images that are completed; the last ones repeat the first where there are too few
HALF = PIXELS // 2


def main() -> None:
    parser = argument_parser(__doc__, "completion_images.md", threads=1, seeds=[1, 2, 3])
    parser.add_argument("--data", type=Path, help="folder of MNIST; default: scikit-learn's digits")
    parser.add_argument("--updates", type=int, default=1000, help="of training; default: %(default)s")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    data = digits.load(args.data)
    name = "MNIST" if args.data else "scikit-learn"
    records = Measurements(args.output.parent / "records" / "completion_images.jsonl")
    for seed in args.seeds:
        for kind in PAPER:
            measure = partial(completed, data)
            records.measure(measure, images=name, kind=kind, seed=seed, updates=args.updates)
            report(records, args.output, name, args.updates)


def completed(data: digits.Digits, *, kind: str, seed: int, updates: int, **_: Any) -> dict[str, Any]:
    """Train a network of this kind, complete test images, and return quality and time."""
    training, tests = (symbols(images) for images in (data.images, data.test_images))

    def batches() -> Iterator[Tensor]:
        while True:
            yield training[torch.randint(len(training), (BATCH,))]

    network = new_network(kind, GREYS, seed)
    started = time.process_time()
    train(network, batches(), updates, 1)
    training_s = time.process_time() - started
    with torch.inference_mode():
        losses = [loss_of(network, part, HALF).item() * len(part) for part in tests[: max(COUNTS)].split(BATCH)]
    bits = sum(losses) / len(tests[: max(COUNTS)]) / math.log(2)
    rows = torch.arange(max(COUNTS)) % len(tests)
    halves = []
    seconds = {}
    started = time.process_time()
    for part in rows.split(AT_ONCE):
        halves.append(complete(network, tests[part, :HALF], PIXELS - HALF, drawn))
        seconds[str(sum(map(len, halves)))] = time.process_time() - started
    filled = torch.cat([tests[rows, :HALF], torch.cat(halves)], dim=1)
    classifier = lora_digits.train(lora_digits.new_network(seed), data, lora_digits.PLAIN, rate=0.003, seed=seed)
    accuracies = {
        name: lora_digits.accuracy(
            classifier, lora_digits.inputs(greys(images), lora_digits.PLAIN), data.test_labels[rows]
        )
        for name, images in (("completed", filled), ("original", tests[rows]))
    }
    drawings = {"shown": tests[:SHOWN].tolist(), "drawn": filled[:SHOWN].tolist()}
    return {"bits": bits, "training_s": training_s, "seconds": seconds, "accuracy": accuracies, **drawings}


def symbols(images: Tensor) -> Tensor:
    """Return images (N, 28, 28) as sequences (N, 784) of 16 greys."""
    return images.flatten(1).long() * GREYS // 256


def greys(sequences: Tensor) -> Tensor:
    """Return sequences (N, 784) of 16 greys as images (N, 28, 28) uint8."""
    return (sequences * 255 // (GREYS - 1)).to(torch.uint8).view(-1, digits.SIDE, digits.SIDE)


def report(records: Measurements, file: Path, name: str, updates: int) -> None:
    """Write the table and the picture of the finished measurements."""
    rows = []
    pictures = []
    for kind in PAPER:
        measured = records.find(images=name, kind=kind, updates=updates)
        if not measured:
            rows.append([kind, 0, *["not run"] * (len(COUNTS) + 4)])
            continue
        accuracy = [
            with_range([record["accuracy"][of] for record in measured], ".1f") for of in ("completed", "original")
        ]
        bits = with_range([record["bits"] for record in measured])
        seconds = [with_range([record["seconds"][str(count)] for record in measured], ".1f") for count in COUNTS]
        minutes = with_range([record["training_s"] / 60 for record in measured], ".1f")
        rows.append([kind, len(measured), bits, *accuracy, *seconds, minutes])
        pictures.append((kind, measured[0]))
    columns = ["self-attention", "seeds", "bits per hidden pixel", "accuracy, completed", "accuracy, originals"]
    columns += [f"CPU s for {count} images" for count in COUNTS] + ["training, CPU min"]
    facts = (
        f"digits of {name}, 28 × 28 pixels, {GREYS} greys; {LAYERS} layers of {SIZE}; mean (range) over seeds",
        f"{updates:,} updates of {BATCH} images; {AT_ONCE} images are completed at once, by drawing each pixel",
        f"measured at {records.commits()}",
    )
    picture = file.with_suffix(".png")
    lines = [*header("Completion of images of 784 pixels", *facts), *table(columns, rows), ""]
    save(file, [*lines, f"![images and their completions]({picture.name})"])
    if pictures:
        rows = [("image", pictures[0][1]["shown"]), *((kind, record["drawn"]) for kind, record in pictures)]
        digits.draw_rows(rows, picture, greys=GREYS, dpi=80)


if __name__ == "__main__":
    main()
