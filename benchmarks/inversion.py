"""Show why the covariance memory is not inverted during training: rounding errors grow with each inverted step.

The gated covariance paper (de Brébisson & Vincent 2016, §4) saves memory by recovering C before each step
C ← α C + f fᵀ from C after it, as (C − f fᵀ) / α. Each inversion divides the rounding errors by α. The toolkit
recomputes from checkpoints instead. The script writes a plot and a table of the relative error of the recovered C,
for α drawn from (0.3, 1) and for α close to 1.

    python benchmarks/inversion.py
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from report import argument_parser, header, row, save, table_head

STEPS, SIZE, SEEDS = 200, 64, 5
TABLE_STEPS = [10, 20, 50, 100, 200]


def main() -> None:
    args = argument_parser(__doc__, threads=None).parse_args()
    fact = f"C of {SIZE} × {SIZE}, f standard normal; relative error of C after inverting n steps, median of {SEEDS}"
    lines = header("Inverting a decaying covariance", fact)
    lines += table_head("α from", "dtype", *(f"n = {n}" for n in TABLE_STEPS))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.subplots()
    for low, style in ((0.3, "-"), (0.9, "--"), (0.99, ":")):
        for dtype, color in ((torch.float32, "C0"), (torch.float64, "C1")):
            errors = torch.stack([inversion_errors(low, dtype, seed) for seed in range(SEEDS)]).median(0).values
            name = str(dtype).removeprefix("torch.")
            axis.plot(range(1, STEPS + 1), errors, color=color, linestyle=style, label=f"{name}, α from ({low}, 1)")
            lines.append(row(f"({low}, 1)", name, *(f"{errors[n - 1]:.0e}" for n in TABLE_STEPS)))
    axis.axhline(1.0, color="0.7", linewidth=0.8)
    axis.set(yscale="log", ylim=(1e-17, 1e6), xlabel="inverted steps", ylabel="relative error of C")
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(args.output / "inversion.png", dpi=130)
    save(args.output / "inversion.md", [*lines, "", "![error against inverted steps](inversion.png)"])


def inversion_errors(low: float, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Return the relative error (STEPS,) of C after inverting the last 1, 2, … steps; α is drawn from (low, 1)."""
    torch.manual_seed(seed)
    alphas = torch.empty(STEPS, dtype=dtype).uniform_(low, 1)
    states = torch.randn(STEPS, SIZE, dtype=dtype)
    exact = [torch.zeros(SIZE, SIZE, dtype=dtype)]
    for alpha, state in zip(alphas, states, strict=True):
        exact.append(alpha * exact[-1] + torch.outer(state, state))
    covariance, errors = exact[-1], []
    for step in reversed(range(STEPS)):
        covariance = (covariance - torch.outer(states[step], states[step])) / alphas[step]
        errors.append((covariance - exact[step]).norm() / exact[max(step, 1)].norm())
    return torch.stack(errors).double()


if __name__ == "__main__":
    main()
