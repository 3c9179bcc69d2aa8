"""A run that starts from another one's model has that model, but for what is said anew."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nmt.errors import UserError

CONFIG_FILE = "config.yaml"  # in a run's folder
# The model, and what its pieces are made of.
PARTS = ("embeddings", "encoder", "attention", "decoder", "tokenizer", "data.lowercase")
MISSING = object()


def as_in_the_start(config: dict[str, Any], arguments: Sequence[str], resumed: Path | None) -> dict[str, Any]:
    """``config`` with the model of the run in ``init_from``, except where ``arguments`` name a part, or a key of it.

    A run that is ``resumed`` has taken it over already. Raises UserError where that run has no configuration.
    """
    folder = config["init_from"]
    if folder is None:
        return config
    start = read_yaml(Path(resumed or folder) / CONFIG_FILE, "" if resumed else f"init_from={folder}")
    merged, typed = deepcopy(config), {key_of(word) for word in arguments}
    for part in PARTS:
        before = _value(start, part)
        prepared = part == "data.lowercase" and config["data"].get("kind") == "prepared"  # which says it itself
        if part in typed or before is MISSING or prepared:
            continue
        _put(merged, part, before)
        for key in typed:
            if key.startswith(f"{part}.") and (value := _value(config, key)) is not MISSING:
                _put(merged, key, value)
    return merged


def _value(tree: Any, key: str) -> Any:
    """What stands at ``a.b`` of nested dictionaries."""
    for name in key.split("."):
        tree = tree.get(name, MISSING) if isinstance(tree, dict) else MISSING
    return tree


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for name in path:
        tree = tree.setdefault(name, {})
    tree[last] = value


def read_yaml(file: Path, place: str = "") -> dict[str, Any]:
    """What ``nmt.config.to_yaml`` wrote. Raises UserError, naming ``place`` or else its folder, where it is damaged.

    It may be a stranger's: what looks like ``${oc.env:…}`` stays text.
    """
    place = place or str(file.parent)
    try:
        config = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
        assert isinstance(config, dict)
    except FileNotFoundError:
        raise UserError(f"{place}: no {file.name} there; name a folder that nmt-train has finished") from None
    except Exception:  # a damaged one fails in any way
        raise UserError(f"{place}: its {file.name} is damaged; name a folder that nmt-train has finished") from None
    return {str(key): value for key, value in config.items()}


def key_of(word: str) -> str:
    """``name`` of ``name=value``, ``+name=value`` and ``++name=value``."""
    return word.partition("=")[0].lstrip("+~")
