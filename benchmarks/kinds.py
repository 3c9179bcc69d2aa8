"""The attentions that ``attentions.py`` and ``cost.py`` compare: every file of conf/attention, and some variants."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

from nmt.attention import KernelAttention, LuongAttention

CONF = Path(__file__).parents[1] / "conf"
LABELS = {"luong": "luong general", "scaled_dot": "luong scaled_dot", "kernel": "kernel elu"}  # with their defaults
LABELS["multi_head"] = "multi_head of luong"
SETTINGS = {"taylor2": ["attention.key_size=16"]}  # as its paper chooses: the slots grow with the square of the keys
CHOICES = {"luong": (LuongAttention, "score"), "kernel": (KernelAttention, "feature_map")}  # a row for each choice
VARIANTS = {"general_covariance": {"general_covariance recall": ["attention.recall=state"]}}
FIRST = (  # the order of the rows
    "none bahdanau luong sparse multi_head hashed memory located_memory low_rank kernel delta covariance"
).split()


def kinds() -> dict[str, list[str]]:
    """Return the settings of each attention by its label, the variants of a kind behind it."""
    names = sorted((path.stem for path in (CONF / "attention").glob("*.yaml")), key=_place)
    settings: dict[str, list[str]] = {}
    for name in names:
        if not name.endswith("_paper"):
            settings[LABELS.get(name, name)] = [f"attention={name}"]
            for label, words in variants(name).items():
                settings.setdefault(label, [f"attention={name}", *words])
    return settings


def variants(name: str) -> dict[str, list[str]]:
    """Return further settings of a kind by label: its listed variants, and each choice of one argument."""
    if name not in CHOICES:
        return VARIANTS.get(name, {})
    kind, argument = CHOICES[name]
    choices = get_args(get_type_hints(kind.__init__)[argument])
    return {f"{name} {choice}": [f"attention.{argument}={choice}", *SETTINGS.get(choice, [])] for choice in choices}


def paper_settings() -> dict[str, list[str]]:
    """Return the experiments with the literal settings of a paper, which set their own learning rate."""
    return {path.stem: [f"+experiment={path.stem}"] for path in sorted((CONF / "experiment").glob("*_paper.yaml"))}


def _place(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)
