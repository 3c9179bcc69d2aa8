"""Configuration: composed from YAML files and overrides, checked, and returned as dataclasses."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nmt.config.overrides import config_dir

if TYPE_CHECKING:
    from nmt.config.compose import compose_config, compose_train, to_yaml, train_config
    from nmt.config.init_from import read_yaml

__all__ = ["compose_config", "compose_train", "config_dir", "read_yaml", "to_yaml", "train_config"]


def __getattr__(name: str) -> Any:
    # Imported on first use: Hydra takes 0.1 s, and plain settings of most commands do not need it.
    if name in __all__:
        module = "nmt.config.init_from" if name == "read_yaml" else "nmt.config.compose"
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'nmt.config' has no attribute {name!r}")
