"""Folders of training runs: a new one for each run, and the settings with which an interrupted run continues."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config.compose import config_dir
from nmt.config.init_from import CONFIG_FILE, key_of, read_yaml
from nmt.errors import UserError
from nmt.reading import read_json, refuse_links
from nmt.tasks.sources import is_prepared

ARGUMENTS = "arguments.json"
# Settings that a run cannot change once it has started: text, model, and everything that the checkpoint restores.
FIXED = (
    *("data.", "tokenizer.", "embeddings.", "encoder.", "attention.", "decoder.", "batches.", "seed"),
    *("optimizer.", "schedule.", "training.patience", "training.monitor", "training.keep_best", "init_from"),
)
TRUSTING = ("trust", "--config-dir", "hydra")  # keys that decide whose code runs
INTERPOLATION = re.compile(r"""\$[\\'"\s]*\{""")  # Hydra removes backslashes: $\{oc.env:HOME\} too is replaced


def new_folder(runs: Path, name: str) -> Path:
    """Create and return ``runs/name``, or ``name-2``, … where it exists, even if another run is starting right now."""
    runs.mkdir(parents=True, exist_ok=True)
    folder, number = runs / name, 1
    while True:
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1
            folder = runs / f"{name}-{number}"


def run_to_resume(folder: Path) -> Path:
    """Return ``folder``. Raises UserError where it is not the folder of an interrupted run."""
    if not folder.is_dir():
        raise UserError(f"resume=true: {folder} does not exist; set name=RUN to the run to resume")
    if (folder / "summary.json").is_file():
        raise UserError(f"resume=true: {folder} has finished; start a new run from it with init_from={folder}")
    if not (folder / "checkpoints" / "last.ckpt").is_file():
        raise UserError(f"resume=true: {folder} stopped before its first checkpoint; remove it and start again")
    refuse_links(folder)
    return folder


def resumed_arguments(folder: Path, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with which the run in ``folder`` started, followed by ``arguments``, which override them.

    Raises UserError where a stored argument could make the run execute other code, or store an environment variable or
    a file in the folder: the folder may be a stranger's.
    """
    stored = _join_options(_read_arguments(folder / ARGUMENTS))
    arguments = _join_options(arguments)
    overridden = {key_of(word) for word in arguments}
    kept = [word for word in stored if key_of(word) not in overridden]
    if trusting := trust_arguments(kept):
        words = " ".join(trusting)
        raise UserError(f"resume=true: {folder} was started with '{words}'; repeat it if you trust what it names")
    return [*kept, *arguments]


def _read_arguments(file: Path) -> list[str]:
    try:
        words = read_json(file)
    except (OSError, ValueError):
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UserError(f"resume=true: {file}: missing or damaged; start a new run")
    return words


def refuse_changed_settings(config: Mapping[str, Any], folder: Path) -> None:
    """Raise UserError where ``config`` changes a setting that the run in ``folder`` cannot change any more."""
    stored = _flatten(read_yaml(folder / CONFIG_FILE))
    for key, value in _flatten(config).items():
        if key.startswith(("data.lowercase", "tokenizer.")) and is_prepared(config["data"]):
            continue  # the prepared folder decides, whatever the configuration says
        if not key.startswith(FIXED):
            continue
        if key not in stored:
            raise UserError(
                f"resume=true: {folder}/{CONFIG_FILE} has no {key}: damaged or of another version; start a new run"
            )
        if value != stored[key]:
            raise UserError(
                f"resume=true: {key}={value}: {folder} was started with {key}={stored[key]}; "
                "remove it or start a new run"
            )


def trust_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that decide whose code runs or what is read; only the user may give them, each time."""
    return [word for word in _join_options(arguments) if key_of(word).startswith(TRUSTING) or _reads(word)]


def _reads(word: str) -> bool:
    """Return whether Hydra may replace the value by an environment variable or by a YAML file outside conf/."""
    value = word.partition("=")[2]
    group = config_dir() / key_of(word).partition("@")[0]
    return bool(INTERPOLATION.search(word)) or (".." in value and group.is_dir())


def _join_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``--config-dir FOLDER`` joined into one, ``--config-dir=FOLDER``."""
    remaining = iter(arguments)
    return [f"{word}={next(remaining, '')}" if word == "--config-dir" else word for word in remaining]


def _flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return {"a.b": value} of nested mappings."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
