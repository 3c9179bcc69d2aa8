"""Which library multiplies fastest? Billions of operations a second of one product on this machine.

torch x @ wᵀ is what torch.nn.functional.linear does, torch w @ xᵀ the same turned round, oneDNN what this project's
linear asks for, onnxruntime what runs exported graphs, in float32 and with 8-bit integers.

    python benchmarks/products.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from floor import FLOAT_WAYS, once
from machine import provenance, writable

WAYS = (*FLOAT_WAYS, "onnx-int8")
NAMES = ("torch x @ wᵀ", "torch w @ xᵀ", "oneDNN", "onnxruntime", "onnxruntime, 8 bits")
SHAPES = [
    *((rows, 512, 8000) for rows in (1, 5, 32, 160, 1920)),
    (1920, 8000, 512),
    (512, 1920, 8000),
    (128, 1024, 2048),
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results" / "products.md")
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    report = ["# Products", "", *(f"- {line}" for line in provenance())]
    report += [f"- 10⁹ operations a second, two for each multiplication; {asked.threads} threads, best of many", ""]
    report += [f"| rows × width → height | {' | '.join(NAMES)} |", "|---" * (1 + len(NAMES)) + "|"]
    for rows, width, height in SHAPES:
        rates = (2e-9 * rows * width * height / once(way, rows, width, height) for way in WAYS)
        report.append(f"| {rows} × {width} → {height} | {' | '.join(f'{rate:.0f}' for rate in rates)} |")
    asked.output.write_text("\n".join(report) + "\n", encoding="utf-8")
    print("\n".join(report))


if __name__ == "__main__":
    main()
