"""Compose the command line's overrides into one checked, plain dictionary, with Hydra's compose API."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from nmt.config.checks import conflicts
from nmt.config.init_from import inherit_settings
from nmt.config.overrides import (
    MISSING,
    NAMES,
    QUOTED,
    choice_inside,
    config_dir,
    key_of,
    located,
    put,
    require_override,
    split_list,
    unknown_choice,
    unknown_key,
    value_at,
)
from nmt.data.sources import is_prepared
from nmt.errors import UserError
from nmt.settings.build import build, plain, problems
from nmt.training.settings import PreparedTrain, Train

# Text that Hydra's override grammar accepts unquoted: without a backslash, which escapes.
PLAIN = re.compile(r"(?! )[\w/+.$%*@:?| -]*(?<! )", re.ASCII)
KEY = re.compile(r"[^:,]*: *")  # of an element of a mapping
# ValueError: attention=null; TypeError: attention=[[luong]]
ERRORS = (HydraException, OmegaConfBaseException, ValueError, TypeError)
# Launchers and sweepers, and the extra of this package that installs each.
EXTRAS = {"launcher/joblib": "sweeps", "launcher/submitit": "submitit", "sweeper/optuna": "optuna"}
LISTED = re.compile(r"[^=,]+=([\w.-]+(,[\w.-]+)+|(choice|range|glob)\(.*\))")  # several values for a sweep
# Settings of Hydra's multirun; nmt-train refuses Hydra's other settings, because they would have no effect.
NEEDS_MULTIRUN = re.compile(r"[+~]*hydra[/.](launcher|sweeper|sweep|callbacks)\b|[+~]*hydra\.job\.env_set\b")


Check = Callable[[dict[str, Any]], Iterable[str]]
Quoting = Callable[[str], str]
Change = Callable[[dict[str, Any]], dict[str, Any]]


def train_config(arguments: Sequence[str], *, resumed: Path | None = None) -> Train:
    """Return the checked settings of a training run: see ``compose_train``."""
    config = compose_train(arguments, resumed=resumed)
    return build(_schema(config), config)


def compose_train(arguments: Sequence[str], *, resumed: Path | None = None) -> dict[str, Any]:
    """Return conf/train.yaml with the ``arguments``, checked: see ``compose_config``.

    With ``init_from`` the model and the text are those of that run, unless the arguments override them. ``resumed`` is
    the folder of a run that is being resumed.
    """

    def inherit(config: dict[str, Any]) -> dict[str, Any]:
        text = config["init_from"] is not None and not _chooses_text(config, arguments)
        return inherit_settings(config, arguments, resumed, text=text)

    def check(config: dict[str, Any]) -> list[str]:
        return [*train_problems(config), *_ignored_tokenizer(config, arguments)]

    try:
        return compose_config("train", arguments, check, inherit)
    except UserError as error:
        raise UserError(*(_with_advice(problem, arguments) for problem in error.problems)) from None


def _schema(config: Mapping[str, Any]) -> type[Train]:
    data = config.get("data")  # data=[] removes it
    return PreparedTrain if isinstance(data, Mapping) and is_prepared(data) else Train


def _with_advice(problem: str, arguments: Sequence[str]) -> str:
    """Return the problem, with advice if it concerns a value such as ``1,2``, or the keys of an overridden class."""
    for argument in arguments:
        group, target, _ = argument.partition("._target_=")
        if target and re.match(rf"{re.escape(group)}\.[\w.]+(=.*: no such key|: missing)", problem):
            return f"{problem}; {group}._target_= keeps all other keys of this file: write another YAML for your class"
    lists = [argument for argument in arguments if LISTED.fullmatch(argument)]
    return f"{problem}; to train once per value, add -m" if problem.startswith(tuple(lists)) else problem


def compose_config(
    name: str, arguments: Sequence[str], check: Check, change: Change = lambda config: config
) -> dict[str, Any]:
    """Return conf/``name``.yaml with the ``key=value`` overrides in ``arguments``, changed by ``change``.

    ``--config-dir FOLDER`` adds a folder of the user's own YAML files. Raises UserError with everything that is wrong,
    and with all problems that ``check`` finds in the changed configuration.
    """
    overrides, folders = hydra_overrides(arguments)
    try:
        composed, choices = _compose(name, overrides, folders)
    except UserError as error:  # Hydra stops at the first override that it cannot apply
        raise UserError(*error.problems, *_other_problems(error, name, arguments, check, change)) from None
    try:
        plain = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(one_line(error)) from None
    assert isinstance(plain, dict)
    config, faults = _as_typed({str(key): value for key, value in plain.items()}, arguments, check, change)
    if faults:
        raise UserError(*(located(problem, name, choices, folders) for problem in faults))
    return config


def _other_problems(
    error: UserError, name: str, arguments: Sequence[str], check: Check, change: Change
) -> Sequence[str]:
    """Return the problems besides an unknown key of a group, which ``error`` reports.

    Without a wrong choice, or an argument that may name a group, the other arguments would belong to other choices.
    """
    unknown = re.match(r"([\w.]+): no such key(?:.*did you mean ([\w.]+)\?)?", error.problems[0])
    if unknown is None or ("." not in unknown[1] and (not unknown[2] or os.path.isdir(config_dir() / unknown[2]))):
        return []
    rest = [argument for argument in arguments if key_of(argument) != unknown[1]]
    if len(rest) == len(arguments):
        return []
    try:
        compose_config(name, rest, check, change)
    except UserError as others:  # ``change`` may compose all arguments again
        return [problem for problem in others.problems if problem not in error.problems]
    return []


def _as_typed(
    composed: dict[str, Any], arguments: Sequence[str], check: Check, change: Change
) -> tuple[dict[str, Any], list[str]]:
    """Return the changed configuration with the arguments as typed where text is needed, and its problems.

    Hydra reads ``1e5``, ``1_000`` and ``true`` as a number or a truth value, also where they are names.
    """
    config = change(deepcopy(composed))
    faults = list(check(config))
    typed = {key_of(argument): argument for argument in arguments}  # the last one of a key counts
    for key, argument in typed.items():
        text = argument.partition("=")[2]
        wrong = re.compile(rf"{re.escape(key)}(\[\d+\])?=.*: must be text", re.DOTALL)
        if not any(map(wrong.match, faults)):
            continue
        if (value := value_at(composed, key)) is not MISSING:
            put(composed, key, _typed(value, text))
            config = change(deepcopy(composed))
            faults = list(check(config))
    return config, faults


def _typed(value: Any, text: str) -> Any:
    """Return the ``text`` that was read as ``value``, for each element of a list."""
    if isinstance(value, list):
        elements = split_list(text[1:-1])
        fits = len(elements) == len(value)
        return [_typed(item, element) for item, element in zip(value, elements, strict=True)] if fits else value
    return text if isinstance(value, bool | int | float) else value


def _chooses_text(config: Mapping[str, Any], arguments: Sequence[str]) -> bool:
    """Return whether an argument or an experiment chose the ``data`` of ``config``, composed from ``arguments``.

    Arguments such as ``data.max_length=50`` change the text of any source, and choose none.
    """
    overrides, folders = hydra_overrides(arguments)
    if any(key_of(argument) == "data" for argument in overrides):
        return True
    changes = [argument for argument in overrides if key_of(argument).startswith(("data.", "hydra.searchpath"))]
    default, _ = _compose("train", changes, folders)
    return bool(OmegaConf.to_container(default.data, resolve=True) != config["data"])


def train_problems(config: dict[str, Any]) -> list[str]:
    """Return all problems of a training configuration; conflicts are only looked for if every key is valid."""
    stored = config.get("trust")
    trust = [name for name in stored if isinstance(name, str)] if isinstance(stored, list) else []
    schema = _schema(config)
    return list(problems(config, schema, "", trust)) or list(conflicts(config, schema))


def _ignored_tokenizer(config: Mapping[str, Any], arguments: Sequence[str]) -> Iterator[str]:
    for argument in arguments:
        if _schema(config) is PreparedTrain and re.match(r"[+~]*tokenizer\b", argument):
            yield f"{argument}: prepared text has its own tokenizers; remove it, or give it to nmt-prepare"


def to_yaml(config: Mapping[str, Any] | Train) -> str:
    return OmegaConf.to_yaml(OmegaConf.create(plain(config)))


def quoted(argument: str) -> str:
    """Quote the value for Hydra, whose grammar rejects a plain ``jürgen``, ``it's.en`` or ``[ü.en,tr.en]``."""
    key, _, value = argument.partition("=")
    return f"{key}={in_grammar(value)}"


def in_grammar(value: str) -> str:
    """Return the value in Hydra's grammar. A comma separates the elements of a list unless it is in quotes."""
    if PLAIN.fullmatch(value) or QUOTED.fullmatch(value) or "${" in value:  # an interpolation is left to Hydra
        return value
    if value.startswith("[") and value.endswith("]"):
        return f"[{','.join(map(in_grammar, split_list(value[1:-1])))}]"
    if value.startswith("{") and value.endswith("}"):
        items = [item.partition(":") for item in split_list(value[1:-1], KEY)]
        if value == "{}" or all(colon for _, colon, _ in items):
            return "{" + ",".join(f"{key}{colon}{in_grammar(text.strip())}" for key, colon, text in items) + "}"
    return in_quotes(value)


def hydra_overrides(arguments: Sequence[str], quote: Quoting = quoted) -> tuple[list[str], list[Path]]:
    """Return the overrides for Hydra, each after ``quote``, and the folders of the YAML files."""
    overrides = []
    folder = None
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--config-dir" or argument.startswith("--config-dir="):
            value = argument.partition("=")[2] or next(remaining, "")
            folder = Path(value)
            if not value or not folder.is_dir():
                raise UserError(f"--config-dir {value}: no such folder; name the parent of attention/mine.yaml")
        elif not argument.startswith("-") and re.match(r"[+~]*hydra\b.*=", argument):
            if NEEDS_MULTIRUN.match(argument):
                raise UserError(f"{argument}: has an effect only in a sweep; add -m to nmt-train, or remove it")
            raise UserError(f"{argument}: Hydra's own settings have no effect here; remove it")
        else:
            require_override(argument)
            overrides.append(choice_inside(quote(argument)))
    if folder is None:
        return overrides, [config_dir()]
    search_path = f"hydra.searchpath=[{in_quotes(f'file://{folder.resolve()}')}]"
    return [*overrides, search_path], [folder, config_dir()]


def in_quotes(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()


def _compose(name: str, overrides: list[str], folders: Sequence[Path]) -> tuple[DictConfig, dict[str, str]]:
    """Return the configuration, and the YAML chosen for each group."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        try:
            composed = compose(name, overrides, return_hydra_config=True)
            choices = {str(group): str(choice) for group, choice in composed.hydra.runtime.choices.items()}
            with open_dict(composed):
                del composed["hydra"]
            return composed, choices
        except ERRORS as error:
            raise UserError(explain(error, name, overrides, folders)) from None


def explain(error: Exception, name: str, overrides: list[str], folders: Sequence[Path]) -> str:
    """Return Hydra's message as one line, with the most similar key or choice of the YAML ``folders``."""
    text = str(error)
    if match := re.search(r"Could not override '([^']+)'", text):
        key = key_of(match[1])
        if (
            name == "train" and key not in NAMES and os.path.isdir(config_dir() / key)
        ):  # a group without a default, such as experiment
            argument = next(argument for argument in overrides if argument.startswith(f"{key}="))
            return f"{key}: no such key; did you mean +{argument}?"
        # attention=luong has other keys.
        groups = [argument for argument in overrides if "." not in argument.partition("=")[0]]
        composed = OmegaConf.to_container(_compose_if_valid(name, groups), resolve=False)
        assert isinstance(composed, dict)
        return unknown_key(key, {str(name): value for name, value in composed.items()}, folders)
    if match := re.search(r"Could not find '(.+)'", text):
        if match[1].startswith("hydra/"):
            return _explain_plugin(match[1].removeprefix("hydra/"), text)
        group, _, option = match[1].partition("/")
        entry = next(
            (key_of(argument) for argument in overrides if argument.startswith(f"{group}@") and option in argument),
            group,
        )
        return unknown_choice(group, option, folders).replace(group, entry, 1)
    groups = [argument for argument in overrides if os.path.isdir(config_dir() / key_of(argument))]
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


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())
