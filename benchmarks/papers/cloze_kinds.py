"""The rows of ``cloze.py``: every attention of conf/attention, with the choices and sizes that the task asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml

from nmt.attention.base import Attention
from nmt.config.compose import train_config
from nmt.model.build import ATTENTION
from nmt.settings.plugins import construct, locate

SIZE = 64  # of every state, embedding and key; news have NEWS_SIZE
FOLDER = Path(__file__).parents[2] / "conf" / "attention"
CHOICES = {"kernel": "feature_map", "luong": "score"}  # one row for each choice of this argument
VARIANTS = [
    "abc slots=100",
    "gated_covariance mean=false",
    "general_covariance mean=false",
    "general_covariance mean=false recall=state",
    "general_covariance mean=false recall=value",
    "memory slots=100",
    "memory position_encoding=false",
    "memory slots=100 position_encoding=false",
]


def kinds() -> list[str]:
    """Return the names of all rows: ``STEM`` or ``STEM key=value …`` for conf/attention/STEM.yaml."""
    rows = []
    for stem in sorted(path.stem for path in FOLDER.glob("*.yaml")):
        argument = CHOICES.get(stem)
        if argument is None:
            rows.append(stem)
        else:
            constructor = locate(_block(stem)["_target_"], ATTENTION).__init__
            rows += [f"{stem} {argument}={choice}" for choice in get_args(get_type_hints(constructor)[argument])]
        rows += [variant for variant in VARIANTS if variant.split()[0] == stem]
    return rows


def build(kind: str, *, longest: int, size: int = SIZE) -> Attention:
    """Return the attention of a row; ``longest`` is the number of tokens of the longest document in training."""
    stem, *settings = kind.split()
    words = [f"attention={stem}", *(f"attention.{setting}" for setting in settings)]
    words += [f"attention.key_size={size}"] if "key_size" in _block(stem) else []
    words += [f"{part}.hidden_size={size}" for part in ("encoder", "decoder")]
    block: dict[str, Any] = train_config(words).attention
    attention: Attention = construct(block, ATTENTION, state_size=size, query_size=size, max_length=longest)
    return attention


def _block(stem: str) -> dict[str, Any]:
    block: dict[str, Any] = yaml.safe_load((FOLDER / f"{stem}.yaml").read_text(encoding="utf-8"))
    return block
