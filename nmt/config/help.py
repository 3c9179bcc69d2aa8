"""The answers to ``nmt-train --help`` and ``nmt-train --cfg``, with the comments of the YAML files in conf/."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.config.compose import compose_config, compose_train, hydra_overrides, to_yaml
from nmt.config.overrides import config_dir
from nmt.errors import UserError

CFG = ("--cfg", "-c")
INCLUDED = "@_here_"  # marks an entry of a defaults list whose keys become keys of the file itself
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, nine times as fast; some builds of PyYAML lack it
SELF_ATTENTION = "self_attention"
"""The group of a block inside the blocks of other groups."""
COMMENT = re.compile(r"\s# (.+)$")


def settings_help(arguments: Sequence[str]) -> str:
    """Return the groups with their choices, and the settings that the arguments choose, with descriptions."""
    folders = hydra_overrides(arguments)[1]
    settings = to_yaml(compose_config("train", arguments, lambda config: ()))
    lines = [
        "",
        "Groups, chosen as group=choice (*: the default):",
        "",
        *describe_groups("train", folders),
        "",
        "Settings, given as key=value, such as optimizer.lr=0.001 (a choice such as attention=luong has other keys):",
        "",
    ]
    return "\n".join(lines) + f"\n{commented_yaml(settings, 'train', folders)}"


def checked_settings(arguments: Sequence[str]) -> str:
    """Return the checked configuration of a training run as YAML, with descriptions."""
    return commented_yaml(to_yaml(compose_train(arguments)), "train", hydra_overrides(arguments)[1])


def without_cfg(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without ``--cfg``, which may be followed by ``job``, as in other Hydra programs."""
    kept: list[str] = []
    for previous, word in zip(["", *arguments], arguments, strict=False):
        if previous in CFG and word in ("hydra", "all"):
            raise UserError(f"--cfg {word}: only the job's configuration can be shown; use --cfg job")
        if word not in CFG and not (previous in CFG and word == "job"):
            kept.append(word)
    return kept


class YamlFile:
    """One YAML file of a configuration: its values, its heading, the comment of each key, and the files it extends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8")
        self.own: dict[str, Any] = yaml.load(text, LOADER) or {}
        entries = self.own.pop("defaults", [])
        self.parents = [YamlFile(file) for entry in entries if (file := _parent(path, entry)) is not None]
        pairs = [pair for entry in entries if isinstance(entry, dict) for pair in entry.items()]
        self.chosen = [(group, choice) for group, choice in pairs if not group.endswith(INCLUDED)]
        lines = re.match(r"(?:#.*\n)*", text)[0].splitlines()  # type: ignore[index]
        self.heading = [line.removeprefix("#").strip() for line in lines if "@package" not in line]
        self.comments = dict(_comments(yaml.compose(text, LOADER), text.splitlines(), ""))

    @property
    def about(self) -> str:
        """The comment at the start of the file, as one line."""
        return " ".join(self.heading)

    def value(self, key: str) -> Any:
        """Return the value of a top-level key, here or in a file that this one extends."""
        return self.own[key] if key in self.own else next((parent.value(key) for parent in self.parents), None)

    def comment(self, key: str) -> str | None:
        """Return the comment of a dotted key, here or in a file that this one extends."""
        inherited = (parent.comment(key) for parent in self.parents)
        return self.comments.get(key) or next((comment for comment in inherited if comment), None)


def _parent(path: Path, entry: Any) -> Path | None:
    """Return the file that an entry of the defaults list includes; None for entries that choose a group's file."""
    if isinstance(entry, str) and entry != "_self_":
        files = [folder / f"{entry}.yaml" for folder in (path.parent, config_dir() / path.parent.name)]
    elif isinstance(entry, dict):
        [(group, choice)] = entry.items()
        folder = config_dir() / group.removeprefix("/").removesuffix(INCLUDED)
        files = [folder / f"{choice}.yaml"] if group.endswith(INCLUDED) else []
    else:
        files = []
    return next((file for file in files if file.is_file()), None)


def _comments(node: Any, lines: list[str], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield dotted key and comment of each key of the YAML ``node`` whose line ends in a comment."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            comment = COMMENT.search(lines[key.start_mark.line])
            if comment and not node.flow_style:
                yield f"{prefix}{key.value}", comment[1]
            yield from _comments(value, lines, f"{prefix}{key.value}.")


def group_choices(group: str, folders: Sequence[Path]) -> dict[str, YamlFile]:
    """Return the choices of a group by name, sorted; of two files with the same name that of the first folder.

    A choice in a folder inside the group has the name ``folder/choice``.
    """
    paths = {
        path.relative_to(folder / group).with_suffix("").as_posix(): path
        for folder in reversed(folders)
        for path in (folder / group).rglob("*.yaml")
    }
    return {name: YamlFile(paths[name]) for name in sorted(paths)}


def describe_groups(name: str, folders: Sequence[Path]) -> Iterator[str]:
    """Yield one line per choice of every group of conf/``name``.yaml, and of the experiments."""
    groups = [*YamlFile(config_dir() / f"{name}.yaml").chosen, ("+experiment", None)]
    for group, default in groups:
        files = group_choices(group.lstrip("+"), folders)
        yield from _describe_group(group, default, files)
        inner = {pair for file in files.values() for pair in file.chosen if pair[0].startswith(f"/{SELF_ATTENTION}@")}
        for entry, choice in inner:
            place = f"{group}.{entry.partition('@')[2]}"
            yield from _describe_group(place, choice, group_choices(SELF_ATTENTION, folders))


def _describe_group(group: str, default: Any, files: Mapping[str, YamlFile]) -> Iterator[str]:
    start = group
    if len(group) > 12:
        yield f"  {group}"
        start = ""
    for choice, file in files.items():
        marked = f"{choice} *" if choice == default else choice
        yield f"  {start:12} {marked:20} {file.heading[0] if file.heading else ''}".rstrip()
        start = ""


def commented_yaml(text: str, name: str, folders: Sequence[Path]) -> str:
    """Return the YAML ``text`` of a composed conf/``name``.yaml with the description of each key as a comment."""
    main = YamlFile(config_dir() / f"{name}.yaml")
    groups = [group for group, _ in main.chosen]
    files = {group: sorted(group_choices(group, folders).values(), key=_is_ours) for group in groups}
    lines = text.splitlines()
    inside = [*group_choices(SELF_ATTENTION, folders).values()]
    for line, comment in _described(yaml.compose(text, LOADER), "", [main], files, inside):
        lines[line] += f"  # {comment}"
    return "".join(f"{line}\n" for line in lines)


def _is_ours(file: YamlFile) -> bool:
    return config_dir() in file.path.parents


def _described(
    node: Any,
    key: str,
    files: Sequence[YamlFile],
    groups: Mapping[str, Sequence[YamlFile]],
    inside: Sequence[YamlFile],
) -> Iterator[tuple[int, str]]:
    """Yield line number and description of each key inside ``node``, whose own key, in ``files``, is ``key``.

    A block inside another one is a choice of the same group, such as attention.inner, or one of the files ``inside``.
    """
    for name, value in node.value:
        inner = f"{key}.{name.value}" if key else str(name.value)
        comment = next((comment for file in files if (comment := file.comment(inner))), None)
        if comment and (not isinstance(value, yaml.ScalarNode) or name.start_mark.line == value.end_mark.line):
            yield name.start_mark.line, comment
        if not isinstance(value, yaml.MappingNode):
            continue
        target = next((item.value for entry, item in value.value if entry.value == "_target_"), None)
        if not key and inner in groups:
            yield from _described(value, "", _with_target(groups[inner], target), {inner: groups[inner]}, inside)
        elif target is not None and groups:
            (choices,) = groups.values()
            yield from _described(value, "", _with_target([*choices, *inside], target), groups, inside)
        else:
            yield from _described(value, inner, files, groups, inside)


def _with_target(files: Sequence[YamlFile], target: str | None) -> list[YamlFile]:
    return [file for file in files if file.value("_target_") == target]
