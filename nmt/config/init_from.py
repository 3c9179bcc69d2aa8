"""Inherit model and text of the run in ``init_from``, unless the command line overrides them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from nmt.config.overrides import MISSING, PlainLoader, key_of, put, value_at
from nmt.data.sources import is_prepared
from nmt.errors import UserError
from nmt.files.reading import read_text, require_plain
from nmt.inference.run_files import CONFIG_FILE
from nmt.settings.build import MODEL_GROUPS, plain
from nmt.training.settings import Train

# Changes of the text, which a prepared folder has made already.
TEXT_CHANGES = ("data.lowercase", "data.remove_invisible")
# Settings of the model, of its vocabulary and of its scores.
INHERITED = (*MODEL_GROUPS, "tokenizer", *TEXT_CHANGES, "evaluation")
GIVEN_ANEW = ("name", "runs", "resume", "trust", "logger")  # not read from a run's folder, which may be a stranger's
# Settings that do not change the model, except by rounding.
UNRELATED = ("name", "runs", "resume", "trust", "export", "logger", "threads", "device")


def inherit_settings(
    config: dict[str, Any], arguments: Sequence[str], resumed: Path | None, *, text: bool
) -> dict[str, Any]:
    """Return ``config`` with the model settings of the run in ``init_from``, and with its data source if ``text``.

    A ``resumed`` run inherits all its own settings but those that only the user may give: which code is trusted, and
    who gets the logs. A part or key that ``arguments`` set keeps its new value. Raises UserError where the run has no
    configuration.
    """
    folder = resumed or config["init_from"]
    if resumed is None and not isinstance(folder, str):
        return config  # null, or a wrong type, which the check of the configuration reports
    start = read_yaml(Path(folder) / CONFIG_FILE, "" if resumed else f"init_from={folder}")
    parts: Sequence[str] = INHERITED
    if resumed or text:
        start["data"] = _stored_text(start, folder)
        parts = [key for key in start if key not in GIVEN_ANEW] if resumed else ("data", *INHERITED)
    merged = deepcopy(config)
    overridden = {key_of(argument) for argument in arguments}
    for part in parts:
        inherited = value_at(start, part)
        known_from_data = part in TEXT_CHANGES and is_prepared(merged["data"])
        if part in overridden or inherited is MISSING or known_from_data:
            continue
        put(merged, part, deepcopy(inherited))
        for key in overridden:
            if key.startswith(f"{part}.") and (value := value_at(config, key)) is not MISSING:
                put(merged, key, value)
    return merged


def trains_on_the_same_text(config: Train) -> bool:
    """Return whether ``config`` has the data source of the run in ``init_from``. Pairs from Python are always new."""
    folder = config.init_from
    data = plain(config.data)
    if folder is None or data["_target_"] == "nmt.data.from_python.from_python":
        return False
    start = read_yaml(Path(folder) / CONFIG_FILE, f"init_from={folder}")
    return isinstance(start.get("data"), dict) and _without_case(start["data"]) == data


def _stored_text(config: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """Return the data source of the configuration that is stored in ``folder``."""
    if not isinstance(config.get("data"), dict):
        raise UserError(f"init_from={folder}: its {CONFIG_FILE} names no text; choose one with data=")
    return _without_case(config["data"])


def _without_case(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data source without the changes of prepared text, which a run adds to its configuration."""
    return (
        {key: value for key, value in data.items() if f"data.{key}" not in TEXT_CHANGES} if is_prepared(data) else data
    )


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return {"a.b": value} of nested mappings."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def read_yaml(file: Path, name: str = "") -> dict[str, Any]:
    """Read what ``to_yaml`` wrote. Raises UserError, naming ``name`` or the folder, where it is damaged.

    The file may come from a stranger: it has no aliases, which could multiply, and no variables.
    """
    name = name or str(file.parent)
    try:
        text = read_text(file)
        config = require_plain(yaml.load(text, PlainLoader))
        assert isinstance(config, dict) and "${" not in text  # which OmegaConf would replace
    except (FileNotFoundError, NotADirectoryError):
        problem = f"has no {file.name}" if file.parent.is_dir() else "no such folder"
        raise UserError(f"{name}: {problem}; name a folder that nmt-train has finished") from None
    except Exception:  # a damaged file raises any exception
        raise UserError(f"{name}: its {file.name} is damaged; name a folder that nmt-train has finished") from None
    return {str(key): value for key, value in config.items()}
