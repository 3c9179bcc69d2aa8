"""The configuration reference: every key with its type, bounds, default and description.

Types and bounds come from the schema and from the signatures of the classes that ``_target_`` names, defaults and
descriptions from the YAML files in conf/. A key without a comment is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from generator.setting_types import block_types, describe, is_group, members

from nmt.config.overrides import config_dir
from nmt.data.filters import Filters
from nmt.data.sources import PreparedData, is_prepared
from nmt.training.settings import Train

COMMENT = re.compile(r"^( *)([\w]+):.*?(?:  # (.+))?$")


class YamlFile:
    """One YAML file of conf/: its keys, the description of each, its heading and the choices of its defaults list."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines()
        self.own: dict[str, Any] = yaml.safe_load("\n".join(lines)) or {}
        entries = self.own.pop("defaults", [])
        pairs = [pair for entry in entries if isinstance(entry, dict) for pair in entry.items()]
        self.chosen = [(group, choice) for group, choice in pairs if not group.endswith("@_here_")]
        heading = takewhile(lambda line: line.startswith("#"), lines)
        self.about = " ".join(line[1:].strip() for line in heading if "@package" not in line)
        included = [path.parent / f"{entry}.yaml" for entry in entries if isinstance(entry, str) and entry != "_self_"]
        included += [
            config_dir() / group[1:].removesuffix("@_here_") / f"{name}.yaml"
            for group, name in pairs
            if group.endswith("@_here_")
        ]
        self.parents = [YamlFile(file) for file in included if file.is_file()]
        self.comments = {key: text for parent in self.parents for key, text in parent.comments.items()}
        place: list[str] = []
        for indent, key, comment in (match.groups() for line in lines if (match := COMMENT.match(line))):
            place = [*place[: len(indent) // 2], key]
            if comment:
                self.comments[".".join(place)] = comment

    def inherited(self, key: str) -> Any:
        """Return the value of a top-level key, here or in a file that this one extends."""
        return self.own.get(key) or next((parent.inherited(key) for parent in self.parents), None)


def choices(group: str) -> dict[str, YamlFile]:
    """Return the choices of a group by name; those in a folder inside it as ``folder/choice``."""
    folder = config_dir() / group
    paths = sorted(folder.rglob("*.yaml"))
    return {path.relative_to(folder).with_suffix("").as_posix(): YamlFile(path) for path in paths}


def command(name: str) -> Iterator[str]:
    """Yield the examples of a command, and a table of the keys that belong to no group."""
    module = import_module(f"nmt.commands.{name}")
    settings: type = Train if name == "train" else getattr(module, f"{name.capitalize()}Options")
    yield from ["```text", module.HELP, "```", ""]
    yield from table(YamlFile(config_dir() / f"{name}.yaml"), get_type_hints(settings, include_extras=True), "")


def groups(_: str = "") -> Iterator[str]:
    """Yield the lines of one section per group of conf/train.yaml, and of the experiments."""
    hints = get_type_hints(Train, include_extras=True)
    for group, default in YamlFile(config_dir() / "train.yaml").chosen:
        yield from [f"### {group}", "", f"The default is `{group}={'null' if default is None else default}`.", ""]
        for file in sorted(choices(group).values(), key=lambda file: file.path.stem != default):
            yield from choice(file, group, hints[group])
        if group == "data":
            yield from ["#### Keys of all data", ""]
            yield from table(YamlFile(config_dir() / "filters/default.yaml"), members(Filters), group)
    yield from ["### self_attention", "", "A block inside `encoder=transformer` and `decoder=transformer`, such as"]
    yield from ["`encoder.self_attention=linear encoder.self_attention.feature_map=taylor`.", ""]
    for file in choices("self_attention").values():
        yield from choice(file, "self_attention", hints["encoder"])
    yield from ["### experiment", "", "An experiment overrides keys of several groups.", ""]
    for name, file in choices("experiment").items():
        yield f"- `+experiment={name}`: {file.about}"
    yield ""


def choice(file: YamlFile, group: str, kind: Any) -> Iterator[str]:
    """Yield title, description and table of one choice of a group."""
    yield from [f"#### {group}={file.path.stem}", ""]
    target = file.inherited("_target_")
    own_class = [f"`{target}`"] if target else []
    yield from [" ".join([*([file.about] if file.about else []), *own_class]), ""]
    if parents := [parent for parent in file.parents if parent.path.parent.name == group]:
        names = " and ".join(f"`{group}={parent.path.stem}`" for parent in parents)
        end = ", with these defaults:" if {*file.own} - {"_target_"} else "."
        yield from [f"It has the keys of {names}{end}", ""]
    if is_prepared({"_target_": target}):
        kind, target = PreparedData, None
    types = block_types(kind, target) if target else members(kind)
    yield from table(file, types, group)


def table(file: YamlFile, types: dict[str, Any], group: str) -> Iterator[str]:
    """Yield the lines of a table with one row per key of the file."""
    entries = [f"`{entry}` chooses the {name} inside" for name, entry in _inner(file, group)]
    settings = list(rows(file, file.own, types, ""))
    if settings:
        prefix = f"{group}." if group else ""
        yield from ["| key | values | default | meaning |", "|---|---|---|---|"]
        for key, values, default, comment in settings:
            yield f"| `{prefix}{key}` | {_cell(values)} | {default} | {_cell(comment)} |"
        yield ""
    yield from [f"{entry}." for entry in entries]
    yield ""


def _inner(file: YamlFile, group: str) -> Iterator[tuple[str, str]]:
    """Yield the group, and the override that chooses it, of each choice inside this one."""
    for entry, name in file.chosen if group else []:
        inner, _, place = entry.removeprefix("/").partition("@")
        if " " in inner:  # override /attention, which the description of the choice says
            continue
        yield inner, f"{group}.{place}={name}" if inner == place else f"{inner}@{group}.{place}={name}"


def rows(file: YamlFile, values: dict[str, Any], types: dict[str, Any], prefix: str) -> Iterator[tuple[str, ...]]:
    """Yield key, possible values, default and description of each setting, also of those inside nested keys."""
    for key, default in values.items():
        name = f"{prefix}{key}"
        kind = types.get(key)
        if key == "_target_":
            continue
        if isinstance(default, dict) and is_group(kind):
            yield from rows(file, default, members(kind), f"{name}.")
            continue
        comment = file.comments.get(name)
        if not (describe(kind) and comment):
            missing = "comment that describes it" if describe(kind) else "type"
            raise ValueError(f"conf/{file.path.relative_to(config_dir())}: {name} has no {missing}")
        yield name, describe(kind), _default(default), comment or ""


def _default(value: Any) -> str:
    text = "required" if value == "???" else yaml.safe_dump(value, default_flow_style=True).splitlines()[0]
    return text if value == "???" else f"`{text}`"


def _cell(text: str) -> str:
    """Return the text with escapes for the characters that Markdown would read as markup."""
    pieces = re.split("(`[^`]*`)", text)
    pieces[::2] = [re.sub(r"[_*<]", r"\\\g<0>", piece) for piece in pieces[::2]]
    return "".join(pieces).replace("|", "\\|")
