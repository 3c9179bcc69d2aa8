"""The answers to ``nmt-train --help`` and ``nmt-train --cfg``, with the comments of the YAML files in conf/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.config.compose import compose_config, compose_train, hydra_overrides, to_yaml
from nmt.config.overrides import config_dir
from nmt.config.yaml_files import LOADER, YamlFile, group_choices
from nmt.errors import UserError

CFG = ("--cfg", "-c")
SELF_ATTENTION = "self_attention"
"""The group of a block inside the blocks of other groups."""


def settings_help(arguments: Sequence[str]) -> str:
    """Return the groups with their choices, and the settings that the arguments choose, with descriptions."""
    folders = hydra_overrides(arguments)[1]
    settings = to_yaml(compose_config("train", arguments, lambda config: ()))
    lines = [
        "",
        "Groups, chosen as group=choice (*: the default):",
        "",
        *describe_groups(folders),
        "",
        "Settings, given as key=value, such as optimizer.lr=0.001 (a choice such as attention=luong has other keys):",
        "",
    ]
    return "\n".join(lines) + f"\n{commented_yaml(settings, folders)}"


def checked_settings(arguments: Sequence[str]) -> str:
    """Return the checked configuration of a training run as YAML, with descriptions."""
    return commented_yaml(to_yaml(compose_train(arguments)), hydra_overrides(arguments)[1])


def without_cfg(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without ``--cfg``, which may be followed by ``job``, as in other Hydra programs."""
    kept: list[str] = []
    for previous, argument in zip(["", *arguments], arguments, strict=False):
        if previous in CFG and argument in ("hydra", "all"):
            raise UserError(f"--cfg {argument}: only the job's configuration can be shown; use --cfg job")
        if argument not in CFG and not (previous in CFG and argument == "job"):
            kept.append(argument)
    return kept


def describe_groups(folders: Sequence[Path]) -> Iterator[str]:
    """Yield one line per choice of every group of conf/train.yaml, and of the experiments."""
    groups = [*YamlFile(config_dir() / "train.yaml").chosen, ("+experiment", None)]
    for group, default in groups:
        files = group_choices(group.lstrip("+"), folders)
        yield from _describe_group(group, default, files)
        inner = {pair for file in files.values() for pair in file.chosen if pair[0].startswith(f"/{SELF_ATTENTION}@")}
        for entry, choice in inner:
            key = f"{group}.{entry.partition('@')[2]}"
            yield from _describe_group(key, choice, group_choices(SELF_ATTENTION, folders))


def _describe_group(group: str, default: Any, files: Mapping[str, YamlFile]) -> Iterator[str]:
    start = group
    if len(group) > 12:
        yield f"  {group}"
        start = ""
    for choice, file in files.items():
        marked = f"{choice} *" if choice == default else choice
        yield f"  {start:12} {marked:20} {file.heading[0] if file.heading else ''}".rstrip()
        start = ""


def commented_yaml(text: str, folders: Sequence[Path]) -> str:
    """Return the YAML ``text`` of a composed conf/train.yaml with the description of each key as a comment."""
    main = YamlFile(config_dir() / "train.yaml")
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
