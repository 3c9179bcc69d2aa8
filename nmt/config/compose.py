"""Compose the settings of a training run into one checked, plain dictionary.

Hydra composes the YAML files of the chosen groups; the values of single keys are set by ``apply_values``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from nmt.config.checks import conflicts
from nmt.config.overrides import (
    MISSING,
    apply_values,
    choice_inside,
    config_dir,
    key_of,
    located,
    put,
    read_yaml,
    require_overrides,
    unknown_choice,
    value_at,
)
from nmt.data.sources import is_prepared
from nmt.errors import UserError
from nmt.inference.run_files import CONFIG_FILE
from nmt.settings.build import MODEL_GROUPS, build, plain, problems
from nmt.training.settings import PreparedTrain, Train

Check = Callable[[dict[str, Any]], Iterable[str]]
# Changes of the text, which a prepared folder has made already.
TEXT_CHANGES = ("data.lowercase", "data.remove_invisible")
# Settings of the model, of its vocabulary and of its scores.
INHERITED = (*MODEL_GROUPS, "tokenizer", *TEXT_CHANGES, "evaluation")
NOT_INHERITED = ("name", "runs", "resume", "trust", "logger")  # not read from a run's folder, which may be a stranger's


class Composed(NamedTuple):
    """A composed configuration, the YAML file chosen for each group, and the folders of the files."""

    config: dict[str, Any]
    choices: dict[str, str]
    folders: list[Path]


def train_config(arguments: Sequence[str], *, resumed: Path | None = None) -> Train:
    """Return the checked settings of a training run: see ``compose_train``."""
    config = compose_train(arguments, resumed=resumed)
    return build(_schema(config), config)


def compose_train(arguments: Sequence[str], *, resumed: Path | None = None) -> dict[str, Any]:
    """Return conf/train.yaml with the ``arguments``, checked.

    With ``init_from`` the model and the text are those of that run, unless the arguments override them. ``resumed`` is
    the folder of a run that is being resumed, whose stored settings count unless the arguments override them.
    """
    composed = composed_tree("train", arguments)
    default = read_yaml(config_dir() / "train.yaml")["defaults"][0]["data"]
    keeps_text = composed.choices.get("data") == default and not any(key_of(word) == "data" for word in arguments)
    config = inherit_settings(composed.config, arguments, resumed, text=keeps_text)
    faults = [*train_problems(config), *_ignored_tokenizer(config, arguments)]
    _raise(faults, "train", composed, arguments, config, f"{resumed or config['init_from']}/{CONFIG_FILE}")
    return config


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
        parts = [key for key in start if key not in NOT_INHERITED] if resumed else ("data", *INHERITED)
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


def _stored_text(config: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """Return the data source that is stored in ``folder``, without the changes of prepared text, which a run adds."""
    data = config.get("data")
    if not isinstance(data, dict):
        raise UserError(f"init_from={folder}: its {CONFIG_FILE} names no text; choose one with data=")
    removed = TEXT_CHANGES if is_prepared(data) else ()
    return {key: value for key, value in data.items() if f"data.{key}" not in removed}


def compose_config(name: str, arguments: Sequence[str], check: Check) -> dict[str, Any]:
    """Return conf/``name``.yaml with the ``arguments``.

    ``--config-dir FOLDER`` adds a folder of the user's own YAML files. Raises one UserError with everything that is
    wrong: all that Hydra cannot compose, or else all problems that ``check`` finds.
    """
    composed = composed_tree(name, arguments)
    _raise(check(composed.config), name, composed, arguments, composed.config, "")
    return composed.config


def _raise(
    faults: Iterable[str],
    name: str,
    composed: Composed,
    arguments: Sequence[str],
    config: Mapping[str, Any],
    stored: str,
) -> None:
    """Raise one UserError with all ``faults``, and the file of each: ``stored`` has what ``config`` changes."""
    lists = tuple(word for word in arguments if "," in word.partition("=")[2])
    lines = [
        f"{fault} ({stored})"
        if value_at(config, key := UserError(fault).key) != value_at(composed.config, key)
        else located(fault, name, composed.choices, composed.folders)
        for fault in faults
    ]
    if lines:
        raise UserError(
            *(f"{line}; add -m to train once per value" if line.startswith(lists) else line for line in lines)
        )


def _schema(config: Mapping[str, Any]) -> type[Train]:
    data = config.get("data")
    return PreparedTrain if isinstance(data, Mapping) and is_prepared(data) else Train


def train_problems(config: dict[str, Any]) -> list[str]:
    """Return all problems of a training configuration; conflicts are only looked for if every key is valid."""
    schema = _schema(config)
    return list(problems(config, schema)) or list(conflicts(config, schema))


def _ignored_tokenizer(config: Mapping[str, Any], arguments: Sequence[str]) -> Iterator[str]:
    given = (
        "prepared text" if _schema(config) is PreparedTrain else "the model in init_from" if config["init_from"] else ""
    )
    for argument in arguments:
        if given and re.match(r"tokenizer\b", key_of(argument)):
            yield f"{argument}: {given} has its own tokenizers; remove it"


def to_yaml(config: Mapping[str, Any] | Train) -> str:
    return OmegaConf.to_yaml(OmegaConf.create(plain(config)))


def _overrides(arguments: Sequence[str]) -> tuple[list[str], dict[str, str], list[Path]]:
    """Return each ``group=choice``, the text of each single key, and the folders of the YAML files.

    Raises UserError for everything that is not a setting.
    """
    folders = [config_dir()]
    settings = []
    for argument in join_options(arguments):
        option, _, value = argument.partition("=")
        if option != "--config-dir":
            settings.append(argument)
        elif Path(value).is_dir() and value:
            folders.insert(0, Path(value))
        else:
            raise UserError(f"--config-dir {value}: no such folder; name the parent of attention/mine.yaml")
    require_overrides(settings)
    choices, values = [], {}
    for argument in map(choice_inside, settings):
        key, _, value = argument.partition("=")
        group = key.lstrip("+").partition("@")[0]
        if re.match(r"[+~]*hydra\b", argument):
            raise UserError(f"{argument}: Hydra's own settings have no effect; remove it")
        is_group = any(os.path.isdir(folder / group) for folder in folders)
        if is_group and value != "null" and not value.startswith(("[", "{")):
            choices.append(argument)
        else:
            values[key.lstrip("+")] = value
    return choices, values, folders


def join_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``--config-dir FOLDER`` joined into one, ``--config-dir=FOLDER``."""
    remaining = iter(arguments)
    return [f"{argument}={next(remaining, '')}" if argument == "--config-dir" else argument for argument in remaining]


def _in_quotes(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()


def composed_tree(name: str, arguments: Sequence[str]) -> Composed:
    """Return the configuration with the overrides in ``arguments``, unchecked.

    Raises UserError for what Hydra cannot compose.
    """
    choices, values, folders = _overrides(arguments)
    pairs = [choice.lstrip("+").split("=", 1) for choice in choices]
    if wrong := [problem for group, choice in pairs if (problem := unknown_choice(group, choice, folders))]:
        raise UserError(*wrong)
    own = [_in_quotes(f"file://{folder.resolve()}") for folder in folders if folder != config_dir()]
    words = [*map(_in_grammar, choices), f"hydra.searchpath=[{','.join(own)}]"]
    # The user may edit files of other folders between two calls.
    tree, chosen = (_compose.__wrapped__ if own else _compose)(name, *words)
    config = deepcopy(tree)
    apply_values(config, values)
    return Composed(config, {**chosen}, folders)


@cache
def _compose(name: str, *words: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what Hydra composes of these words, and the choice of each group. Hydra takes 0.2 s."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        try:
            composed = compose(name, [*words], return_hydra_config=True)
            chosen = {str(group): str(choice) for group, choice in composed.hydra.runtime.choices.items()}
            with open_dict(composed):
                del composed["hydra"]
            tree = OmegaConf.to_container(composed, resolve=True)
        except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
            raise UserError(" ".join(str(error).split())) from None
    return {str(key): value for key, value in tree.items()} if isinstance(tree, dict) else {}, chosen


def _in_grammar(override: str) -> str:
    """Return ``group=choice`` in Hydra's grammar, which needs quotes, and a plus before a group without a default."""
    group, _, choice = override.partition("=")
    return f"{'+' * (group == 'experiment')}{group}={_in_quotes(choice)}"
