"""Show how rounding errors grow if training recovers the covariance C by inverting its updates.

The covariance paper (de Brébisson & Vincent 2016, §4) saves memory by recovering C before each update
C ← α C + β f fᵀ from C after it, as (C − β f fᵀ) / α. The paper prints this inverse with α and β exchanged. Each
inversion divides the rounding errors by α. The toolkit recomputes C from checkpoints instead. The script writes a plot
and a table of the relative error of the recovered C, for α drawn from an interval, and for α, β and f of the untrained
gates of ``general_covariance``.

    python -m benchmarks.papers.inversion
"""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.report import argument_parser, header, row, save, table_head
from nmt.attention import CovarianceAttention

STEPS, SIZE, SEEDS = 200, 64, 5
TABLE_STEPS = [10, 20, 50, 100, 200]
INTERVALS = {"(0.3, 1)": 0.3, "(0.9, 1)": 0.9, "(0.99, 1)": 0.99, "untrained gates": None}
STYLES = ("-", "--", ":", "-.")


def main() -> None:
    args = argument_parser(__doc__, threads=None).parse_args()
    fact = f"C of {SIZE} × {SIZE}, states standard normal; relative error of C after inverting n steps"
    lines = header("Inverting a decaying covariance", fact, f"median of {SEEDS} seeds; inf: above the largest number")
    lines += table_head("α from", "dtype", *(f"n = {n}" for n in TABLE_STEPS))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.subplots()
    for (name, low), style in zip(INTERVALS.items(), STYLES, strict=True):
        for dtype, color in ((torch.float32, "C0"), (torch.float64, "C1")):
            errors = torch.stack([inversion_errors(low, dtype, seed) for seed in range(SEEDS)]).median(0).values
            precision = str(dtype).removeprefix("torch.")
            axis.plot(range(1, STEPS + 1), errors, color=color, linestyle=style, label=f"{precision}, α from {name}")
            lines.append(row(name, precision, *(f"{errors[n - 1]:.0e}" for n in TABLE_STEPS)))
    lines += ["", *lost_digits()]
    axis.axhline(1.0, color="0.7", linewidth=0.8)
    axis.set(yscale="log", ylim=(1e-17, 1e6), xlabel="inverted steps", ylabel="relative error of C")
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(args.output / "inversion.png", dpi=130)
    save(args.output / "inversion.md", [*lines, "", "![error against inverted steps](inversion.png)"])


def lost_digits() -> list[str]:
    """Return after how many steps no digit is left: the error is as large as C itself."""
    lines = []
    for dtype in (torch.float32, torch.float64):
        errors = torch.stack([inversion_errors(0.3, dtype, seed) for seed in range(SEEDS)]).median(0).values
        steps = int((errors >= 1).nonzero()[0]) + 1
        name = str(dtype).removeprefix("torch.")
        lines.append(f"- α from (0.3, 1), {name}: the error is as large as C after {steps} steps")
    return lines


def inversion_errors(low: float | None, dtype: torch.dtype, seed: int) -> Tensor:
    """Return the relative error (STEPS,) of C after inverting the last 1, 2, … steps."""
    torch.manual_seed(seed)
    alphas, betas, values = gates(low, dtype)
    exact = [torch.zeros(SIZE, SIZE, dtype=dtype)]
    for alpha, beta, value in zip(alphas, betas, values, strict=True):
        exact.append(alpha * exact[-1] + beta * torch.outer(value, value))
    covariance, errors = exact[-1], []
    for step in reversed(range(STEPS)):
        covariance = (covariance - betas[step] * torch.outer(values[step], values[step])) / alphas[step]
        errors.append((covariance - exact[step]).norm() / exact[max(step, 1)].norm())
    return torch.stack(errors).double()


@torch.no_grad()
def gates(low: float | None, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return α (STEPS,), β (STEPS,) and f (STEPS, SIZE): α from (low, 1), or from untrained gates if low is None."""
    states = torch.randn(STEPS, SIZE, dtype=dtype)
    if low is not None:
        return torch.empty(STEPS, dtype=dtype).uniform_(low, 1), torch.ones(STEPS, dtype=dtype), states
    attention = CovarianceAttention(state_size=SIZE, query_size=SIZE, gate="all").to(dtype)
    assert attention.gates is not None
    alpha, beta, gate = torch.sigmoid(attention.gates(states)).split([1, 1, SIZE], dim=1)
    return alpha[:, 0], beta[:, 0], gate * states


if __name__ == "__main__":
    main()
