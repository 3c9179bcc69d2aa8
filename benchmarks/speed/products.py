"""Compare libraries for matrix products: billions of operations per second of one product on this machine.

torch x @ wᵀ is torch.nn.functional.linear, torch w @ xᵀ the transposed product, oneDNN the product that
``nmt.kernels.products`` uses, onnxruntime the one of exported graphs, in float32 and in 8-bit integers.

    python -m benchmarks.speed.products
"""

from __future__ import annotations

import torch

from benchmarks.report import argument_parser, header, row, save, table_head
from benchmarks.speed.floor import FLOAT_METHODS, product_seconds

METHODS = (*FLOAT_METHODS, "onnx-int8")
NAMES = ("torch x @ wᵀ", "torch w @ xᵀ", "oneDNN", "onnxruntime", "onnxruntime, 8 bits")
SHAPES = [
    *((rows, 512, 8000) for rows in (1, 5, 32, 160, 1920)),
    (1920, 8000, 512),
    (512, 1920, 8000),
    (128, 1024, 2048),
]


def main() -> None:
    args = argument_parser(__doc__, "products.md").parse_args()
    torch.set_num_threads(args.threads)
    fact = f"10⁹ operations per second, two per multiplication; {args.threads} threads, the best of many runs"
    lines = [*header("Products", fact), *table_head("rows × width → height", *NAMES)]
    for shape in SHAPES:
        rows, width, height = shape
        rates = (2e-9 * rows * width * height / product_seconds(method, *shape) for method in METHODS)
        lines.append(row(f"{rows} × {width} → {height}", *(f"{rate:.0f}" for rate in rates)))
    save(args.output, lines)


if __name__ == "__main__":
    main()
