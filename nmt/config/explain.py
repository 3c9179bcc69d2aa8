"""Explain Hydra's errors in one line, with the most similar key or choice."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.config.hints import advice
from nmt.config.init_from import key_of
from nmt.config.plain import config_dir
from nmt.settings.arguments import suggestion

# ValueError: attention=null; TypeError: attention=[[luong]]
ERRORS = (HydraException, OmegaConfBaseException, ValueError, TypeError)
# Launchers and sweepers, and the extra of this package that installs each.
EXTRAS = {"launcher/joblib": "sweeps", "launcher/submitit": "submitit", "sweeper/optuna": "optuna"}


def explain(error: Exception, name: str, overrides: list[str], folders: Sequence[Path]) -> str:
    """Return Hydra's message as one line, with the most similar key or choice of the YAML ``folders``."""
    text = str(error)
    if match := re.search(r"Could not override '([^']+)'", text):
        key = match[1]
        if name == "train" and os.path.isdir(config_dir() / key):  # a group without a default, such as experiment
            word = next(word for word in overrides if word.startswith(f"{key}="))
            return f"{key}: no such key; did you mean +{word}?"
        groups = [word for word in overrides if "." not in word.partition("=")[0]]  # attention=luong has other keys
        known = list(_keys(OmegaConf.to_container(_compose_if_valid(name, groups), resolve=False), ""))
        return f"{key}: no such key{advice(key, known, folders)}"
    if match := re.search(r"Could not find '(.+)'", text):
        if match[1].startswith("hydra/"):
            return _explain_plugin(match[1].removeprefix("hydra/"), text)
        group, _, option = match[1].partition("/")
        choices = sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})
        return f"{group}={option}: no such choice{suggestion(option, choices)}; choose from {', '.join(choices)}"
    groups = [word for word in overrides if os.path.isdir(config_dir() / key_of(word))]
    if "Config group override must be" in text or (isinstance(error, TypeError) and groups):
        return f"{' '.join(groups)}: must be the name of a choice, such as attention=none"
    return one_line(error)


def _explain_plugin(choice: str, text: str) -> str:
    """Return advice about a launcher or sweeper that Hydra did not find. ``text`` is Hydra's message."""
    kind, _, name = choice.partition("/")
    extra = next((extra for prefix, extra in EXTRAS.items() if choice.startswith(prefix)), None)
    if extra is not None:
        return f"hydra/{kind}={name}: needs the extra {extra}; in the clone: pip install '.[{extra}]'"
    choices = re.findall(r"^\t(\w+)$", text, re.MULTILINE)
    return f"hydra/{kind}={name}: no such choice; choose from {', '.join(choices)}"


def _compose_if_valid(name: str, overrides: list[str]) -> DictConfig:
    try:
        return compose(name, overrides)
    except ERRORS:  # another override is wrong too
        return compose(name)


def _keys(tree: Any, prefix: str) -> Any:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())
