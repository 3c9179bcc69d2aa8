"""Why the covariance memory is not run backwards: digits that undoing C ← α C + f fᵀ, step by step, leaves.

The gated covariance paper proposes to recover C before each step from C after it, (C − f fᵀ) / α, so that training
need keep no memory (de Brébisson & Vincent 2016, §4). Each undoing divides rounding errors by α. Writes a picture and a
table of the relative error of the C so recovered, α drawn from (0.3, 1) or close to 1; the toolkit recomputes from
checkpoints instead.

    python benchmarks/inversion.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from machine import provenance, writable
from matplotlib.figure import Figure

STEPS, SIZE, SEEDS = 200, 64, 5
SHOWN = [10, 20, 50, 100, 200]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    lines = ["# Running a decaying covariance backwards", "", *(f"- {line}" for line in provenance())]
    lines += [
        f"- C of {SIZE} × {SIZE}, f standard normal; relative error of C after undoing n steps, median of {SEEDS}"
    ]
    lines += ["", f"| α from | numbers | {' | '.join(f'n = {n}' for n in SHOWN)} |", "|---" * (len(SHOWN) + 2) + "|"]
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.subplots()
    for low, style in ((0.3, "-"), (0.9, "--"), (0.99, ":")):
        for kind, color in ((torch.float32, "C0"), (torch.float64, "C1")):
            errors = torch.stack([undone(low, kind, seed) for seed in range(SEEDS)]).median(0).values
            name = str(kind).removeprefix("torch.")
            axis.plot(range(1, STEPS + 1), errors, color=color, linestyle=style, label=f"{name}, α from ({low}, 1)")
            lines.append(f"| ({low}, 1) | {name} | {' | '.join(f'{errors[n - 1]:.0e}' for n in SHOWN)} |")
    axis.axhline(1.0, color="0.7", linewidth=0.8)
    axis.set(yscale="log", ylim=(1e-17, 1e6), xlabel="steps undone", ylabel="relative error of C")
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(asked.output / "inversion.png", dpi=130)
    lines += ["", "![error against steps undone](inversion.png)"]
    (asked.output / "inversion.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def undone(low: float, kind: torch.dtype, seed: int) -> torch.Tensor:
    """Relative error (STEPS,) of C after undoing 1, 2, … of the last steps."""
    torch.manual_seed(seed)
    alpha = torch.empty(STEPS, dtype=kind).uniform_(low, 1)
    f = torch.randn(STEPS, SIZE, dtype=kind)
    passed = [torch.zeros(SIZE, SIZE, dtype=kind)]
    for a, one in zip(alpha, f, strict=True):
        passed.append(a * passed[-1] + torch.outer(one, one))
    covariance, errors = passed[-1], []
    for step in reversed(range(STEPS)):
        covariance = (covariance - torch.outer(f[step], f[step])) / alpha[step]
        errors.append((covariance - passed[step]).norm() / passed[max(step, 1)].norm())
    return torch.stack(errors).double()


if __name__ == "__main__":
    main()
