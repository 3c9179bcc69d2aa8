"""The answers to ``nmt-train --help`` and ``nmt-train --cfg``."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.config.compose import compose_config, compose_train, hydra_overrides, to_yaml
from nmt.config.describe import commented_yaml, describe_groups
from nmt.errors import UserError

CFG = ("--cfg", "-c")


def settings_help(arguments: Sequence[str]) -> str:
    """Return the groups with their choices, and the settings that the arguments choose, with descriptions."""
    folders = hydra_overrides(arguments)[1]
    settings = to_yaml(compose_config("train", arguments, lambda config: ()))
    lines = [
        "",
        "Groups, chosen as group=choice (*: the default):",
        "",
        *describe_groups("train", folders),
        "",
        "Settings, given as key=value, such as optimizer.lr=0.001 (a choice such as attention=luong has other keys):",
        "",
    ]
    return "\n".join(lines) + f"\n{commented_yaml(settings, 'train', folders)}"


def checked_settings(arguments: Sequence[str]) -> str:
    """Return the checked configuration of a training run as YAML, with descriptions."""
    return commented_yaml(to_yaml(compose_train(arguments)), "train", hydra_overrides(arguments)[1])


def without_cfg(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without ``--cfg``, which may be followed by ``job``, as in other Hydra programs."""
    kept: list[str] = []
    for previous, word in zip(["", *arguments], arguments, strict=False):
        if previous in CFG and word in ("hydra", "all"):
            raise UserError(f"--cfg {word}: only the job's configuration can be shown; use --cfg job")
        if word not in CFG and not (previous in CFG and word == "job"):
            kept.append(word)
    return kept
