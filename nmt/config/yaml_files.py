"""The YAML files in conf/ as they stand: values, comments, the files that each extends, and the choices of groups.

Nothing here imports Hydra.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.config.overrides import config_dir

INCLUDED = "@_here_"  # marks an entry of a defaults list whose keys become keys of the file itself
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, nine times as fast; some builds of PyYAML lack it
COMMENT = re.compile(r"\s# (.+)$")


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
    """Return the choices of a group by name, sorted. Of two files with one name, that in the first folder counts.

    A choice in a folder inside the group has the name ``folder/choice``.
    """
    paths = {
        path.relative_to(folder / group).with_suffix("").as_posix(): path
        for folder in reversed(folders)
        for path in (folder / group).rglob("*.yaml")
    }
    return {name: YamlFile(paths[name]) for name in sorted(paths)}
