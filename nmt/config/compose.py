"""Compose the command line's overrides into one checked, plain dictionary, with Hydra's compose API."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from nmt.config.checks import conflicts
from nmt.config.hints import advice
from nmt.config.init_from import inherit_model, key_of
from nmt.config.schema import PreparedTrain, Train
from nmt.config.validate import problems, suggestion
from nmt.errors import UserError
from nmt.tasks.sources import is_prepared

# Values that Hydra's override grammar accepts unquoted.
UNQUOTED = re.compile(
    r"""(?![ ]) [\w/+.$%*@:?| -]* (?<![ ])                # plain: without a backslash, which escapes
    | \[.*\] | \{.*\} | .*\$\{.*                          # lists, mappings, interpolations
    | '([^'\\]|\\.)*' | "([^"\\]|\\.)*"                   # quoted already
    """,
    re.ASCII | re.DOTALL | re.VERBOSE,
)


def config_dir() -> Path:
    """Return the folder of the YAML files: inside an installed package, beside the package in a checkout."""
    inside = Path(__file__).resolve().parents[1] / "conf"
    return inside if inside.is_dir() else inside.parents[1] / "conf"


Check = Callable[[dict[str, Any]], Iterable[str]]
Change = Callable[[dict[str, Any]], dict[str, Any]]


def train_config(arguments: Sequence[str], *, resumed: Path | None = None) -> dict[str, Any]:
    """Return the checked configuration of a training run, conf/train.yaml: see ``compose_config``.

    With ``init_from`` the model settings are those of that run, unless the arguments override them. ``resumed`` is the
    folder of a run that is being resumed.
    """

    def check(config: dict[str, Any]) -> list[str]:
        return [*train_problems(config), *_ignored_tokenizer(config, arguments)]

    return compose_config("train", arguments, check, lambda config: inherit_model(config, arguments, resumed))


def compose_config(
    name: str, arguments: Sequence[str], check: Check, change: Change = lambda config: config
) -> dict[str, Any]:
    """Return conf/``name``.yaml with the ``key=value`` overrides in ``arguments``, changed by ``change``.

    ``--config-dir FOLDER`` adds a folder of the user's own YAML files. Raises UserError with everything that is wrong,
    and with all problems that ``check`` finds in the changed configuration.
    """
    overrides, folder = _split(arguments)
    if folder is not None:
        overrides.append(f"hydra.searchpath=[{_in_quotes(f'file://{folder.resolve()}')}]")
    folders = [config_dir()] if folder is None else [folder, config_dir()]
    composed, choices = _compose(name, overrides, folders)
    try:
        plain = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(_one_line(error)) from None
    assert isinstance(plain, dict)
    config = change({str(key): value for key, value in plain.items()})
    problems = [located(problem, name, choices, folders) for problem in check(config)]
    if problems:
        raise UserError(*problems)
    return config


def train_problems(config: dict[str, Any]) -> list[str]:
    """Return all problems of a training configuration; conflicts are only looked for if every key is valid."""
    trust = config.get("trust") if isinstance(config.get("trust"), list) else []
    schema = PreparedTrain if is_prepared(config["data"]) else Train
    return list(problems(config, schema, "", trust or [])) or list(conflicts(config))


def _ignored_tokenizer(config: Mapping[str, Any], arguments: Sequence[str]) -> Iterator[str]:
    for word in arguments:
        if is_prepared(config["data"]) and re.match(r"[+~]*tokenizer\b", word):
            yield f"{word}: prepared text has its own tokenizers; remove it, or give it to nmt-prepare"


def located(problem: str, name: str, choices: Mapping[str, str], folders: Sequence[Path]) -> str:
    """Return the problem with the YAML file of its key, searched in ``folders`` in this order."""
    group = re.split(r"[.=:\[]", problem, maxsplit=1)[0]
    file = f"{group}/{choices[group]}.yaml" if group in choices else f"{name}.yaml"
    folder = next((folder for folder in folders if (folder / file).is_file()), config_dir())
    return f"{problem} ({'conf' if folder == config_dir() else folder}/{file})"


def to_yaml(config: Mapping[str, Any]) -> str:
    return OmegaConf.to_yaml(OmegaConf.create(dict(config)))


def _split(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the overrides, quoted for Hydra, and the folder of ``--config-dir``."""
    overrides, folder = [], None
    remaining = iter(arguments)
    for word in remaining:
        if word == "--config-dir" or word.startswith("--config-dir="):
            value = word.partition("=")[2] or next(remaining, "")
            folder = Path(value)
            if not value or not folder.is_dir():
                raise UserError(f"--config-dir {value}: no such folder; name the parent of attention/mine.yaml")
        elif word.startswith("-"):
            raise UserError(f"{word}: no such option; write settings as key=value (--help lists some)")
        elif "=" not in word:
            raise UserError(f"{word}: not a setting; write settings as key=value")
        elif re.match(r"[+~]*hydra\b", word):
            raise UserError(f"{word}: Hydra's own settings have no effect here; remove it")
        elif re.search(r"^[^=]*\s|=$|=\s*=", word) and not re.fullmatch(r"[^\s=]+=", word):
            raise UserError(f"{word}: not a setting; write key=value without spaces")
        else:
            overrides.append(_quoted(word))
    return overrides, folder


def _quoted(word: str) -> str:
    """Quote the value for Hydra, whose grammar rejects a plain ``jürgen``, ``it's.en`` or ``a,b.en``."""
    key, _, value = word.partition("=")
    return word if UNQUOTED.fullmatch(value) else f"{key}={_in_quotes(value)}"


def _in_quotes(text: str) -> str:
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
        # ValueError: attention=null; TypeError: attention=[[luong]]
        except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
            raise UserError(_explain(error, name, overrides, folders)) from None


def _explain(error: Exception, name: str, overrides: list[str], folders: Sequence[Path]) -> str:
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
        group, _, option = match[1].partition("/")
        choices = sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})
        return f"{group}={option}: no such choice{suggestion(option, choices)}; choose from {', '.join(choices)}"
    groups = [word for word in overrides if os.path.isdir(config_dir() / key_of(word))]
    if "Config group override must be" in text or (isinstance(error, TypeError) and groups):
        return f"{' '.join(groups)}: must be the name of a choice, such as attention=none"
    return _one_line(error)


def _compose_if_valid(name: str, overrides: list[str]) -> DictConfig:
    try:
        return compose(name, overrides)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError):  # another override is wrong too
        return compose(name)


def _keys(tree: Any, prefix: str) -> Any:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
