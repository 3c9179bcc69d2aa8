"""Configuration: composed by Hydra, checked, and returned as a plain dictionary."""

from __future__ import annotations

from nmt.config.compose import compose_config, config_dir, to_yaml, train_config
from nmt.config.init_from import read_yaml

__all__ = ["compose_config", "config_dir", "read_yaml", "to_yaml", "train_config"]
