"""From command-line words to one checked, resolved, plain dictionary, through Hydra's compose API."""

from __future__ import annotations

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

from nmt.config.checks import impossible
from nmt.config.init_from import as_in_the_start
from nmt.config.schema import DATA_KINDS, Train
from nmt.config.validate import problems, suggestion
from nmt.errors import UserError

# Values that Hydra's grammar takes as they are typed.
UNQUOTED = re.compile(
    r"""(?![ ]) [\w/+.$%*@:?| -]* (?<![ ])                # plain: no backslash, which would escape what follows
    | \[.*\] | \{.*\} | .*\$\{.*                          # lists, mappings, interpolations
    | '([^'\\]|\\.)*' | "([^"\\]|\\.)*"                   # quoted already
    """,
    re.ASCII | re.DOTALL | re.VERBOSE,
)


def config_dir() -> Path:
    """The folder of the YAML files: inside an installed package, or beside the package in a checkout."""
    inside = Path(__file__).resolve().parents[1] / "conf"
    return inside if inside.is_dir() else inside.parents[1] / "conf"


Check = Callable[[dict[str, Any]], Iterable[str]]
Change = Callable[[dict[str, Any]], dict[str, Any]]


def train_config(arguments: Sequence[str], *, resumed: Path | None = None) -> dict[str, Any]:
    """The checked configuration of a training run, conf/train.yaml: see ``compose_config``.

    With ``init_from`` the model is that run's, but for what the words say of it; ``resumed`` is the folder of a run
    that goes on.
    """

    def check(config: dict[str, Any]) -> list[str]:
        return [*train_problems(config), *_unread(config, arguments)]

    return compose_config("train", arguments, check, lambda config: as_in_the_start(config, arguments, resumed))


def compose_config(
    name: str, arguments: Sequence[str], check: Check, change: Change = lambda config: config
) -> dict[str, Any]:
    """The configuration ``name`` with the command line's ``key=value`` words, in which ``check`` finds no problem.

    ``change`` completes it before that.

    ``--config-dir FOLDER`` adds a folder of one's own YAML files. Raises UserError that names everything that is wrong.
    """
    overrides, folder = _split(arguments)
    if folder is not None:
        overrides.append(f"hydra.searchpath=[{_in_quotes(f'file://{folder.resolve()}')}]")
    composed, choices = _compose(name, overrides)
    try:
        plain = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(_one_line(error)) from None
    assert isinstance(plain, dict)
    config = change({str(key): value for key, value in plain.items()})
    found = [located(problem, name, choices) for problem in check(config)]
    if found:
        raise UserError("\n       ".join(found))
    return config


def train_problems(config: dict[str, Any]) -> list[str]:
    """One text for each problem of a training configuration; impossible pairs only where each setting is fine."""
    trust = config.get("trust") if isinstance(config.get("trust"), list) else []
    found = [*problems(config, Train, "", trust or []), *data_problems(config["data"])]
    return found or list(impossible(config))


def _unread(config: Mapping[str, Any], arguments: Sequence[str]) -> Iterator[str]:
    """One text for each word about tokenizers where prepared text brings its own."""
    for word in arguments:
        if config["data"].get("kind") == "prepared" and re.match(r"[+~]*tokenizer\b", word):
            yield f"{word}: prepared text brings its own tokenizers; leave it away, or give it to nmt-prepare"


def data_problems(data: dict[str, Any]) -> list[str]:
    """One text for each key of ``data`` that is wrong; its ``kind`` says which keys there are."""
    kind = data.get("kind")
    if kind not in DATA_KINDS:
        return [f"data.kind={kind}: must be {' | '.join(DATA_KINDS)}"]
    return list(problems(data, DATA_KINDS[kind], "data"))


def located(problem: str, name: str, choices: Mapping[str, str]) -> str:
    """The problem with the file where the key that it begins with lives."""
    group = re.split(r"[.=:\[]", problem, maxsplit=1)[0]
    return f"{problem} (conf/{group}/{choices[group]}.yaml)" if group in choices else f"{problem} (conf/{name}.yaml)"


def to_yaml(config: Mapping[str, Any]) -> str:
    return OmegaConf.to_yaml(OmegaConf.create(dict(config)))


def _split(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    words, folder = [], None
    waiting = iter(arguments)
    for word in waiting:
        if word == "--config-dir" or word.startswith("--config-dir="):
            given = word.partition("=")[2] or next(waiting, "")
            folder = Path(given)
            if not given or not folder.is_dir():
                raise UserError(
                    f"--config-dir {given}: no such folder; name one that holds for example attention/mine.yaml"
                )
        elif word.startswith("-"):
            raise UserError(f"{word}: no such option; settings are written key=value (--help shows some)")
        elif "=" not in word:
            raise UserError(f"{word}: settings are written key=value")
        else:
            words.append(_quoted(word))
    return words, folder


def _quoted(word: str) -> str:
    """``key=value`` for Hydra, whose grammar takes no ``jürgen``, ``it's.en`` or ``a,b.en`` without quotes."""
    key, _, value = word.partition("=")
    return word if UNQUOTED.fullmatch(value) else f"{key}={_in_quotes(value)}"


def _in_quotes(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()


def _compose(name: str, overrides: list[str]) -> tuple[DictConfig, dict[str, str]]:
    """The configuration, and the YAML that was chosen for each group."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        try:
            composed = compose(name, overrides, return_hydra_config=True)
            choices = {str(group): str(choice) for group, choice in composed.hydra.runtime.choices.items()}
            with open_dict(composed):
                del composed["hydra"]
            return composed, choices
        except (HydraException, OmegaConfBaseException, ValueError) as error:  # ValueError: attention=null
            raise UserError(_explain(error, name, overrides)) from None


def _explain(error: Exception, name: str, overrides: list[str]) -> str:
    """Hydra's message as one line, with the nearest key or option that there is."""
    text = str(error)
    if found := re.search(r"Could not override '([^']+)'", text):
        if name == "train" and (config_dir() / found[1]).is_dir():  # a group without a default, such as experiment
            word = next(word for word in overrides if word.startswith(f"{found[1]}="))
            return f"{found[1]}: no such key; did you mean +{word}?"
        chosen = [word for word in overrides if "." not in word.partition("=")[0]]  # attention=luong has other keys
        known = list(_keys(OmegaConf.to_container(_whatever_composes(name, chosen), resolve=False), ""))
        return f"{found[1]}: no such key{suggestion(found[1], known)}"
    if found := re.search(r"Could not find '(.+)'", text):
        group, _, option = found[1].partition("/")
        choices = sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))
        return f"{group}={option}: no such choice{suggestion(option, choices) or ';'} there are: {', '.join(choices)}"
    if "Config group override must be" in text:
        groups = [word for word in overrides if (config_dir() / word.partition("=")[0]).is_dir()]
        return f"{' '.join(groups)}: must be the name of a choice, such as attention=none"
    return _one_line(error)


def _whatever_composes(name: str, overrides: list[str]) -> DictConfig:
    try:
        return compose(name, overrides)
    except (HydraException, OmegaConfBaseException, ValueError):  # another word is wrong as well
        return compose(name)


def _keys(tree: Any, prefix: str) -> Any:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
