"""Compose the settings of a training run into one checked, plain dictionary.

Hydra composes the YAML files of the chosen groups; the values of single keys are set by ``apply_values``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from nmt.config.checks import conflicts
from nmt.config.init_from import inherit_settings
from nmt.config.overrides import (
    apply_values,
    choice_inside,
    config_dir,
    key_of,
    located,
    require_overrides,
    unknown_choice,
)
from nmt.data.sources import is_prepared
from nmt.errors import UserError
from nmt.settings.build import build, plain, problems
from nmt.training.settings import PreparedTrain, Train

Check = Callable[[dict[str, Any]], Iterable[str]]


class Composed(NamedTuple):
    """A composed configuration, the YAML file chosen for each group, and the folders of the files."""

    config: dict[str, Any]
    choices: dict[str, str]
    folders: list[Path]


class Overrides(NamedTuple):
    """Overrides of the command line: ``group=choice`` as Hydra writes it, and the text of each single key."""

    choices: list[str]
    values: dict[str, str]
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
    default = OmegaConf.load(config_dir() / "train.yaml").defaults[0].data
    keeps_text = composed.choices.get("data") == default and not any(key_of(word) == "data" for word in arguments)
    config = inherit_settings(composed.config, arguments, resumed, text=keeps_text)
    faults = [*train_problems(config), *_ignored_tokenizer(config, arguments)]
    _raise(faults, "train", composed, arguments)
    return config


def compose_config(name: str, arguments: Sequence[str], check: Check) -> dict[str, Any]:
    """Return conf/``name``.yaml with the ``arguments``.

    ``--config-dir FOLDER`` adds a folder of the user's own YAML files. Raises one UserError with everything that is
    wrong: all that Hydra cannot compose, or else all problems that ``check`` finds.
    """
    composed = composed_tree(name, arguments)
    _raise(check(composed.config), name, composed, arguments)
    return composed.config


def _raise(faults: Iterable[str], name: str, composed: Composed, arguments: Sequence[str]) -> None:
    lists = tuple(word for word in arguments if "," in word.partition("=")[2])
    lines = [located(fault, name, composed.choices, composed.folders) for fault in faults]
    if lines:
        raise UserError(
            *(f"{line}; add -m to train once per value" if line.startswith(lists) else line for line in lines)
        )


def _schema(config: Mapping[str, Any]) -> type[Train]:
    data = config.get("data")
    return PreparedTrain if isinstance(data, Mapping) and is_prepared(data) else Train


def train_problems(config: dict[str, Any]) -> list[str]:
    """Return all problems of a training configuration; conflicts are only looked for if every key is valid."""
    stored = config.get("trust")
    trust = [name for name in stored if isinstance(name, str)] if isinstance(stored, list) else []
    schema = _schema(config)
    return list(problems(config, schema, "", trust)) or list(conflicts(config, schema))


def _ignored_tokenizer(config: Mapping[str, Any], arguments: Sequence[str]) -> Iterator[str]:
    for argument in arguments:
        if _schema(config) is PreparedTrain and re.match(r"tokenizer\b", key_of(argument)):
            yield f"{argument}: prepared text has its own tokenizers; remove it, or give it to nmt-prepare"


def to_yaml(config: Mapping[str, Any] | Train) -> str:
    return OmegaConf.to_yaml(OmegaConf.create(plain(config)))


def read_overrides(arguments: Sequence[str]) -> Overrides:
    """Return the arguments as overrides. Raises UserError for everything that is not a setting."""
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
            raise UserError(f"{argument}: Hydra's own settings have an effect only with -m; remove it")
        is_group = any(os.path.isdir(folder / group) for folder in folders)
        if is_group and value != "null" and not value.startswith(("[", "{")):
            choices.append(argument)
        else:
            values[key.lstrip("+")] = value
    return Overrides(choices, values, folders)


def join_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``--config-dir FOLDER`` joined into one, ``--config-dir=FOLDER``."""
    remaining = iter(arguments)
    return [f"{argument}={next(remaining, '')}" if argument == "--config-dir" else argument for argument in remaining]


def in_quotes(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()


def search_path(folders: Sequence[Path]) -> list[str]:
    """Return the override with which Hydra looks for YAML files in the user's folders too."""
    own = [in_quotes(f"file://{folder.resolve()}") for folder in folders if folder != config_dir()]
    return [f"hydra.searchpath=[{','.join(own)}]"] if own else []


def composed_tree(name: str, arguments: Sequence[str]) -> Composed:
    """Return the configuration with the overrides in ``arguments``, unchecked.

    Raises UserError for what Hydra cannot compose.
    """
    choices, values, folders = read_overrides(arguments)
    pairs = [choice.lstrip("+").split("=", 1) for choice in choices]
    if wrong := [problem for group, choice in pairs if (problem := unknown_choice(group, choice, folders))]:
        raise UserError(*wrong)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        try:
            composed = compose(name, [*map(_in_grammar, choices), *search_path(folders)], return_hydra_config=True)
            chosen = {str(group): str(choice) for group, choice in composed.hydra.runtime.choices.items()}
            with open_dict(composed):
                del composed["hydra"]
            tree = OmegaConf.to_container(composed, resolve=True)
        except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
            raise UserError(one_line(error)) from None
    config = {str(key): value for key, value in tree.items()} if isinstance(tree, dict) else {}
    apply_values(config, values)
    return Composed(config, chosen, folders)


def _in_grammar(override: str) -> str:
    """Return ``group=choice`` in Hydra's grammar, which needs quotes, and a plus before a group without a default."""
    group, _, choice = override.partition("=")
    return f"{'+' * (group == 'experiment')}{group}={in_quotes(choice)}"


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())
