"""The attentions that ``attentions.py`` and ``cost.py`` compare: every file of conf/attention, and some variants."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

from nmt.attention import KernelAttention

CONF = Path(__file__).parents[1] / "conf"
LABELS = {"luong": "luong general", "kernel": "kernel elu", "multi_head": "multi_head of luong"}  # with their defaults
FEATURE_MAPS = [name for name in get_args(get_type_hints(KernelAttention.__init__)["feature_map"]) if name != "elu"]
VARIANTS = {
    "luong": {"luong dot": ["attention.score=dot"], "luong concat": ["attention.score=concat"]},
    "kernel": {f"kernel {name}": [f"attention.feature_map={name}"] for name in FEATURE_MAPS},
    "general_covariance": {"general_covariance recall": ["attention.recall=true"]},
}
FIRST = "none bahdanau luong sparse multi_head local memory low_rank kernel delta covariance".split()  # order of rows


def kinds() -> dict[str, list[str]]:
    """Return the settings of each attention by its label, the variants of a kind behind it."""
    names = sorted((path.stem for path in (CONF / "attention").glob("*.yaml")), key=_place)
    settings: dict[str, list[str]] = {}
    for name in names:
        if not name.endswith("_paper"):
            settings[LABELS.get(name, name)] = [f"attention={name}"]
            settings |= {label: [f"attention={name}", *words] for label, words in VARIANTS.get(name, {}).items()}
    return settings


def paper_settings() -> dict[str, list[str]]:
    """Return the experiments with the literal settings of a paper, which set their own learning rate."""
    return {path.stem: [f"+experiment={path.stem}"] for path in sorted((CONF / "experiment").glob("*_paper.yaml"))}


def _place(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)
