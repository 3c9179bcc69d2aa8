"""Trials that give odd values to the settings of the commands. No command runs: only its settings are read."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from mutations import ODD_TOKENS
from runner import Trial
from stored_kinds import require_one_line

from nmt.commands import prepare
from nmt.commands.align import AlignOptions
from nmt.commands.evaluate import EvaluateOptions
from nmt.commands.export import ExportOptions
from nmt.commands.heatmap import HeatmapOptions
from nmt.commands.translate import TranslateOptions
from nmt.config.compose import compose_config, to_yaml, train_config
from nmt.config.overrides import config_dir
from nmt.config.plain import read_options
from nmt.errors import UserError

TEXT = [f"data.{part}.{side}=text.{side}" for part in ("train", "valid") for side in ("src", "tgt")]
GROUPS = ("attention", "encoder", "optimizer", "schedule", "tokenizer")
COMMANDS: dict[str, tuple[Any, list[str]]] = {
    "align": (AlignOptions, ["model=runs/finished"]),
    "translate": (TranslateOptions, ["model=runs/finished"]),
    "evaluate": (EvaluateOptions, ["model=runs/finished", "src=text.src", "tgt=text.tgt"]),
    "heatmap": (HeatmapOptions, ["model=runs/finished", "src=text.src", "output=x"]),
    "export": (ExportOptions, ["model=runs/finished"]),
    "prepare": (prepare.PrepareOptions, ["data=text", *TEXT, "output=x"]),
}
VALUES = [
    *ODD_TOKENS,
    *("", "true", "false", "none", "off", "0", "-0.0", "1.5", "-2147483648", "1e-400", "1e308", "-1e308", "0.9999999"),
    *("[1,2,3]", "[a,b]", "[nan,inf]", "{a:1}", "{_target_:os.system}", "{a:{b:{c:[]}}}", "???", "x" * 2000, "a=b=c"),
    *"it's|\"|a,b|a b| a|a |\\|${|${x}|${data.x}|$x|(|)|[|{|{a|[1|@x".split("|"),
    *"nmt.attention.LuongAttention|nmt.errors.UserError|os.system|nmt.|.|..|/|memory|!x|# x".split("|"),
]


def read_train(words: list[str]) -> object:
    return to_yaml(train_config(words))


def read_command(name: str, words: list[str]) -> object:
    schema, base = COMMANDS[name]
    return prepare.read_prepare([*base, *words]) if name == "prepare" else read_options(name, schema, [*base, *words])


@functools.cache
def keys(name: str, words: tuple[str, ...]) -> list[str]:
    """Return the dotted names of all settings and groups of settings."""
    return sorted(set(_keys(compose_config(name, words, lambda config: ()), "")))


def _keys(tree: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{key}.")


def settings_trial(folder: Path, name: str) -> Trial:
    """Return the trials of the command ``name``: one or two of its settings get odd values."""
    os.chdir(folder)
    choices = {group: sorted(file.stem for file in (config_dir() / group).glob("*.yaml")) for group in GROUPS}

    def trial(random: Random) -> tuple[str, Callable[[], str]]:
        base = [] if name != "train" else ["data=text", *TEXT]
        if name == "train" and random.random() < 0.8:
            group = random.choice(GROUPS)
            base.append(f"{group}={random.choice(choices[group])}")
        known = keys(name, tuple(base if name == "train" else COMMANDS[name][1]))
        prefix = random.choices(["", "+", "++", "~"], weights=[8, 1, 1, 1])[0]
        chosen = random.sample(known, random.choice([1, 1, 2]))
        words = [f"{prefix}{key}={random.choice(VALUES)}" for key in chosen]

        def run() -> str:
            try:
                _ = read_train([*base, *words]) if name == "train" else read_command(name, words)
            except UserError as error:
                require_one_line(error, ())
                return "refused"
            return "other"

        return f"{' '.join(base)} {words}"[:300], run

    return trial
