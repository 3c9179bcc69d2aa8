"""The YAML files of conf/attention as plain dictionaries, read without Hydra because that is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "conf" / "attention"
STEMS = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read_yaml(stem: str) -> dict[str, Any]:
    """Return the content of conf/attention/STEM.yaml, with its ``defaults`` as they stand there."""
    content: dict[str, Any] = yaml.safe_load((FOLDER / f"{stem}.yaml").read_text("utf-8"))
    return content


def parent_of(stem: str) -> str | None:
    """Return the YAML that this one inherits from, if any."""
    parents = [name for name in read_yaml(stem).get("defaults", []) if isinstance(name, str) and name != "_self_"]
    return parents[0] if parents else None


def read_block(stem: str) -> dict[str, Any]:
    """Return all settings of conf/attention/STEM.yaml, inherited ones included, without an ``inner`` attention."""
    settings = {key: value for key, value in read_yaml(stem).items() if key != "defaults"}
    parent = parent_of(stem)
    return settings if parent is None else read_block(parent) | settings
