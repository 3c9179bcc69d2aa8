"""Overrides on the command line, ``key=value`` and ``group=choice``, and settings that are composed without Hydra.

A value is ``null``, ``true`` or ``false``, a number, a list such as ``[a,b]``, or text. Where the default is text,
``1e5`` and ``true`` are text too, and quotes make text of anything. Of a key that is given twice, the last one counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

from nmt.errors import UserError
from nmt.files.reading import read_text, require_plain
from nmt.settings.arguments import suggestion, type_hints
from nmt.settings.build import build, problems

Options = TypeVar("Options")
MISSING = object()
INSIDE = "self_attention@"
# Settings that do not change the model, except by rounding.
UNRELATED = ("name", "runs", "resume", "trust", "export", "logger", "threads", "device")


# Most files in conf/ have only keys with a word, groups of them, and a list of defaults.
_END = r"(?: +#.*)?\n"
_KEY = rf"\w+: (?:[-+.\w]*\w|\?{{3}}|\[\]){_END}"
_LIST = rf"defaults:{_END}(?:  - \w+(?:: \w+)?{_END})+"
_SIMPLE = rf"(?:#.*\n|\n|{_KEY}|{_LIST}|(?!defaults)\w+:{_END}(?:  {_KEY})+)*"


def load_yaml(text: str) -> Any:
    """Return what YAML without aliases says. Only null, true and false are special words: no and off remain text."""
    import yaml  # slow to import, so most files and values are read without it

    return yaml.load(text, _plain_loader())


@cache
def _plain_loader() -> type[Any]:
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("contains an alias")
            return super().compose_node(parent, index)

    for kind, pattern in {
        "null": r"null|NULL|Null",
        "bool": r"(?i:true|false)",
        "int": r"[-+]?(0|[1-9][0-9]*)",
        "float": r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|nan)",
    }.items():
        PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})$"), None)
    return PlainLoader


def config_dir() -> Path:
    """Return the folder of the YAML files: inside an installed package, beside the package in a checkout."""
    inside = Path(__file__).resolve().parents[1] / "conf"
    return inside if inside.is_dir() else inside.parents[1] / "conf"


def key_of(argument: str) -> str:
    """Return ``name`` of ``name=value``, ``+name=value``, ``++name=value``, and of what ``choice_inside`` returns."""
    return argument.partition("=")[0].lstrip("+~").removeprefix(INSIDE)


def group_of(argument: str) -> str:
    """Return the first part of the setting's key, such as ``attention`` for ``attention.slots=8``."""
    return key_of(argument).partition(".")[0]


def choice_inside(argument: str) -> str:
    """Return ``encoder.self_attention=name`` as Hydra writes the choice of a block that is inside another one."""
    is_choice = re.fullmatch(r"(encoder|decoder)\.self_attention=(?!null$)[\w/,-]+", argument)
    return INSIDE + argument if is_choice else argument


def require_overrides(arguments: Sequence[str]) -> None:
    """Raise UserError unless all ``arguments`` are ``key=value``."""
    wrong = [argument for argument in arguments if not re.match(r"[^-=\s][^=\s]*=", argument)]
    variables = [argument for argument in arguments if "${" in argument]
    if variables:
        raise UserError(*(f"{argument:.80}: variables are not replaced; write the value" for argument in variables))
    if wrong:
        raise UserError(*(f"{argument:.80}: not a setting; write key=value (see --help)" for argument in wrong))


def name_problems(name: str) -> Iterator[str]:
    """Yield a message unless ``name`` can be that of a folder."""
    if name.strip() in ("", "..") or Path(name).name != name:
        yield f"name={name}: must be the name of a folder, such as name=mine; use runs=FOLDER for its parent"


def parse_value(text: str, default: Any) -> Any:
    """Return the value of an override, as YAML reads it; where the ``default`` is text, plain text remains text."""
    if re.fullmatch(r"null|true|false|\[\]|(0|[1-9][0-9]*)(\.[0-9]+)?", text):
        value = json.loads(text)
    elif not re.match(r"""[\[{'"]|(?i:null|true|false)$|[-+.\d][-+.\w]*\w$""", text):
        return text
    else:
        import yaml

        try:
            value = load_yaml(text)
        except yaml.YAMLError:
            return text
    return text if isinstance(default, str) and isinstance(value, bool | int | float) else value


def unknown_choice(group: str, choice: str, folders: Sequence[Path]) -> str | None:
    """Return a message unless one of the ``folders`` has the YAML file of this ``choice``."""
    entry, group = group, group.partition("@")[0]
    choices = {
        path.relative_to(folder / group).with_suffix("").as_posix()
        for folder in folders
        for path in (folder / group).rglob("*.yaml")
    }
    if choice in choices:
        return None
    advice = f"{suggestion(choice, choices)}; choose from {', '.join(sorted(choices))}"
    return f"{entry.removeprefix(INSIDE)}={choice}: no such choice{advice}"


def located(problem: str, name: str, choices: Mapping[str, str], folders: Sequence[Path]) -> str:
    """Return the problem with the YAML file of its key, searched in ``folders`` in this order."""
    group = re.split(r"[.=:\[]", problem, maxsplit=1)[0]
    files = [(folder, f"{group}/{choices.get(group)}.yaml") for folder in folders] + [(config_dir(), f"{name}.yaml")]
    folder, file = next((folder, file) for folder, file in files if (folder / file).is_file())
    return f"{problem} ({'conf' if folder == config_dir() else folder}/{file})"


def value_at(tree: Any, key: str) -> Any:
    """Return the value at the dotted key of nested dictionaries, or ``MISSING``."""
    for name in key.split("."):
        tree = tree.get(name, MISSING) if isinstance(tree, dict) else MISSING
    return tree


def put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the value at the dotted key of nested dictionaries, which may be new."""
    *path, last = key.split(".")
    for name in path:
        if not isinstance(tree.get(name), dict):
            tree[name] = {}
        tree = tree[name]
    tree[last] = value


def apply_values(config: dict[str, Any], values: Mapping[str, str]) -> None:
    """Put the override of each dotted key into ``config``; the check of the configuration finds unknown keys."""
    for key, text in values.items():
        put(config, key, parse_value(text, value_at(config, key)))


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
        config = require_plain(load_yaml(text))
        assert isinstance(config, dict) and "${" not in text  # which OmegaConf would replace
    except (FileNotFoundError, NotADirectoryError):
        problem = f"has no {file.name}" if file.parent.is_dir() else "no such folder"
        raise UserError(f"{name}: {problem}; name a folder that nmt-train has finished") from None
    except Exception:  # a damaged file raises any exception
        raise UserError(f"{name}: its {file.name} is damaged; name a folder that nmt-train has finished") from None
    return {str(key): value for key, value in config.items()}


def read_options(name: str, schema: type[Options], arguments: Sequence[str]) -> Options:
    """Return conf/``name``.yaml with the overrides in ``arguments`` as an instance of the dataclass ``schema``.

    Raises one UserError that lists every unknown key, missing key and wrong value, or else every key without effect:
    ``schema.OWNERS`` maps settings to others, of which one must be given.
    """
    require_overrides(arguments)
    overrides = dict(argument.split("=", 1) for argument in arguments)
    choices: dict[str, str] = {}
    file = config_dir() / f"{name}.yaml"
    config = _load(file, overrides, choices)
    values = {key: text for key, text in overrides.items() if key not in choices}
    apply_values(config, values)
    faults = [located(problem, name, choices, [config_dir()]) for problem in problems(config, schema)]
    if faults := faults or [*_unused(schema, config, overrides, file)]:
        raise UserError(*faults)
    if config.get("output") == "-" and "input" not in config:
        raise UserError("output=-: this command writes a folder, not stdout; name the folder")
    for key in ("input", "output"):
        if config.get(key) == "-" and NoneType in get_args(type_hints(schema)[key]):
            config[key] = None  # stdin or stdout, as for other Unix commands
    return build(schema, config)


def _load(file: Path, overrides: Mapping[str, str], choices: dict[str, str]) -> dict[str, Any]:
    """Return the content of a YAML file, merged with its defaults. Stores the choice of each group in ``choices``."""
    content = parse_settings(file.read_text(encoding="utf-8"))
    merged: dict[str, Any] = {}
    for entry in content.pop("defaults", ["_self_"]):
        if entry == "_self_":
            _merge(merged, content)
        elif isinstance(entry, str):
            _merge(merged, _load(file.parent / f"{entry}.yaml", overrides, choices))
        else:
            ((group, default),) = entry.items()
            choice = choices[group] = overrides.get(group, default)
            if problem := unknown_choice(group, choice, [config_dir()]):
                raise UserError(problem)
            _merge(merged, {group: _load(config_dir() / group / f"{choice}.yaml", overrides, choices)})
    return merged


def parse_settings(text: str) -> Any:
    """Return what YAML says. It takes longer to import than to read, so simple files are read without it."""
    if not re.fullmatch(_SIMPLE, text):
        return load_yaml(text)
    content: dict[str, Any] = {}
    group: Any = content
    for place, key, word in re.findall(r"^(  - |  |)(\w+):? ?([^ #\n]*)", text, re.MULTILINE):
        value = parse_value(word, None)
        if place == "  - ":
            group.append({key: value} if word else key)
        elif place:
            group[key] = value
        elif word:
            content[key] = value
        else:
            group = content[key] = [] if key == "defaults" else {}
    return content


def _merge(tree: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def _unused(schema: type[Any], config: Mapping[str, Any], overrides: Mapping[str, str], file: Path) -> Iterator[str]:
    """Yield a message for each override that changes a setting of ``file`` whose owners are not given."""
    for key, text in overrides.items():
        group = group_of(key)
        owners = getattr(schema, "OWNERS", {}).get(group, ())
        if owners and all(config[owner] is None for owner in owners) and config[group] != _load(file, {}, {})[group]:
            names = " or ".join(f"{owner}=" for owner in owners)
            yield f"{key}={text}: has an effect only with {names}; add it, or remove {key}="
