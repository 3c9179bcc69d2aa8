"""The folders of training runs: a new one for each, and what an interrupted one goes on with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config.init_from import CONFIG_FILE, key_of, read_yaml
from nmt.errors import UserError

ARGUMENTS = "arguments.json"
# What a run cannot change any more once it has begun: its text, its model, and what its checkpoint brings back.
SETTLED = (
    *("data.", "tokenizer.", "embeddings.", "encoder.", "attention.", "decoder.", "batches.", "seed"),
    *("training.optimizer", "training.lr", "training.betas", "training.weight_decay", "training.schedule"),
    *("training.warmup_steps", "training.decay", "training.patience", "training.monitor", "training.keep_best"),
    "init_from",
)
TRUSTING = ("trust", "--config-dir", "hydra")  # keys that decide whose code runs


def new_folder(runs: Path, name: str) -> Path:
    """``runs/name``, or ``name-2``, ``name-3``, … so that no run is ever overwritten, not even one that starts now."""
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
    """``folder``, an interrupted run's. Raises UserError where it is none."""
    if not folder.is_dir():
        raise UserError(f"resume=true: there is no {folder}; name=RUN says which run to resume")
    if (folder / "summary.json").is_file():
        raise UserError(f"resume=true: {folder} has finished; start a new run from it with init_from={folder}")
    if not (folder / "checkpoints" / "last.ckpt").is_file():
        raise UserError(f"resume=true: {folder} stopped before its first checkpoint; remove it and start again")
    return folder


def as_before(folder: Path, arguments: Sequence[str]) -> list[str]:
    """The words that the run in ``folder`` began with, but for those whose key ``arguments`` say anew, then these.

    Raises UserError where one of them could make the run execute code of others: the folder may be a stranger's.
    """
    before = joined(_words(folder / ARGUMENTS))
    arguments = joined(arguments)
    keys = {key_of(word) for word in arguments}
    kept = [word for word in before if key_of(word) not in keys]
    if again := trusting(kept):
        words = " ".join(again)
        raise UserError(f"resume=true: {folder} began with '{words}'; type it again if you trust what it names")
    return [*kept, *arguments]


def _words(file: Path) -> list[str]:
    try:
        words = json.loads(file.read_bytes())
    except (OSError, ValueError):
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UserError(f"resume=true: {file}: missing or damaged; start a new run")
    return words


def refuse_another_run(config: Mapping[str, Any], folder: Path) -> None:
    """Raises UserError where ``config`` sets what an interrupted run cannot change any more."""
    before = flat(read_yaml(folder / CONFIG_FILE))
    for key, value in flat(config).items():
        if key.startswith(("data.lowercase", "tokenizer.")) and config["data"]["kind"] == "prepared":
            continue  # as it was prepared, whatever the configuration says
        if not key.startswith(SETTLED):
            continue
        if key not in before:
            raise UserError(
                f"resume=true: {folder}/{CONFIG_FILE} says nothing of {key}: damaged, or of another version"
            )
        if value != before[key]:
            raise UserError(
                f"resume=true: {key}={value} is not what {folder} began with ({before[key]}); leave it away, or "
                "start a new run"
            )


def trusting(words: Sequence[str]) -> list[str]:
    """Those of the words that decide whose code runs; nobody but the user says them, each time."""
    return [word for word in joined(words) if key_of(word).startswith(TRUSTING)]


def joined(words: Sequence[str]) -> list[str]:
    """The words with ``--config-dir FOLDER`` as one, ``--config-dir=FOLDER``."""
    rest = iter(words)
    return [f"{word}={next(rest, '')}" if word == "--config-dir" else word for word in rest]


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a.b": value} of nested mappings."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found
