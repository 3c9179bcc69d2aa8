"""A run that starts from another one's model has that model, but for what is said anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from nmt.errors import UserError

CONFIG_FILE = "config.yaml"  # in a run's folder
# The model, and what its pieces are made of.
PARTS = ("embeddings", "encoder", "attention", "decoder", "tokenizer", "data.lowercase")


def as_in_the_start(config: dict[str, Any], arguments: Sequence[str], resumed: Path | None) -> dict[str, Any]:
    """``config`` with the model of the run in ``init_from``, except where ``arguments`` name a part, or a key of it.

    A run that is ``resumed`` has taken it over already. Raises UserError where that run has no configuration.
    """
    folder = config["init_from"]
    if folder is None:
        return config
    start = OmegaConf.create(read_yaml(Path(resumed or folder) / CONFIG_FILE, "" if resumed else f"init_from={folder}"))
    mine, merged = OmegaConf.create(config), OmegaConf.create(config)
    typed = {key_of(word) for word in arguments}
    for part in PARTS:
        before = OmegaConf.select(start, part)
        if part in typed or before is None or (part == "data.lowercase" and config["data"].get("kind") == "prepared"):
            continue
        OmegaConf.update(merged, part, before, merge=False)
        for key in typed:
            if key.startswith(f"{part}.") and (value := OmegaConf.select(mine, key)) is not None:
                OmegaConf.update(merged, key, value, force_add=True)
    return plain(merged)


def read_yaml(file: Path, place: str = "") -> dict[str, Any]:
    """What ``nmt.config.to_yaml`` wrote. Raises UserError, naming ``place`` or else its folder, where it is damaged."""
    place = place or str(file.parent)
    try:
        return plain(OmegaConf.load(file))
    except FileNotFoundError:
        raise UserError(f"{place}: no {file.name} there; name a folder that nmt-train has finished") from None
    except Exception:  # a damaged one fails in any way
        raise UserError(f"{place}: its {file.name} is damaged; name a folder that nmt-train has finished") from None


def plain(config: Any) -> dict[str, Any]:
    """A plain, resolved dictionary."""
    found = OmegaConf.to_container(config, resolve=True)
    assert isinstance(found, dict)
    return {str(key): value for key, value in found.items()}


def key_of(word: str) -> str:
    """``name`` of ``name=value``, ``+name=value`` and ``++name=value``."""
    return word.partition("=")[0].lstrip("+~")
