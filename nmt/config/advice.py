"""Advice for a run on little text: the experiment with tested settings for its number of training pairs."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.config.overrides import key_of
from nmt.data.sources import DataSettings, PreparedData

EXPERIMENTS = {"little": 3_000, "medium": 20_000}
"""Experiments for own text, and the number of training pairs below which each is advised."""
GENERATED = ("nmt.data.generated.generated", "nmt.data.copy.generate")
# Whoever gives one of these has chosen sizes or updates, or has those of another run.
CHOICES = tuple(
    "experiment --config-dir init_from embeddings encoder decoder batches optimizer schedule training.max_".split()
)


def advice(data: DataSettings | PreparedData, arguments: Sequence[str], pairs: int) -> str | None:
    """Return a line that names the experiment for own text of so few ``pairs``; None if ``arguments`` have settings."""
    generated = not isinstance(data, PreparedData) and data.block["_target_"] in GENERATED
    if generated or any(key_of(argument).startswith(CHOICES) for argument in arguments):
        return None
    name = next((name for name, limit in EXPERIMENTS.items() if pairs < limit), None)
    problem = f"data: {pairs:,} training pairs need smaller batches and more epochs than the default"
    return name and f"{problem}; add +experiment={name}"
