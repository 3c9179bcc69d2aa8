"""Settings and help of a command, the model that it loads, and the new folder that it writes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nmt.commands.streams import GROUP, require_stdout
from nmt.config.overrides import config_dir, read_options
from nmt.errors import UserError, print_message
from nmt.inference.engines import EngineName, LoadSettings
from nmt.inference.sentences import say_split
from nmt.inference.translation import CUT, cuts
from nmt.search.options import SearchOptions
from nmt.settings.arguments import Threads
from nmt.system.machine import paused_collector
from nmt.system.progress import Progress

Options = TypeVar("Options")
Command = Callable[[list[str]], None]

if TYPE_CHECKING:
    from nmt.inference.translation import Translation
    from nmt.inference.translator import Translator


def command(
    help_text: str, schema: type[Options] | Callable[[list[str]], Options]
) -> Callable[[Callable[[Options], None]], Command]:
    """Return a decorator that turns a function of settings into a function of command-line arguments.

    ``schema`` is the dataclass of the settings in the command's YAML file, or a function that reads the arguments.
    The command raises UserError for errors the user can fix.
    """

    def decorate(function: Callable[[Options], None]) -> Command:
        name = function.__name__

        @wraps(function)
        def run(arguments: list[str]) -> None:
            if not {"--help", "-h"}.isdisjoint(arguments):
                show_help(help_text, name, arguments)
            else:
                function(read_options(name, schema, arguments) if isinstance(schema, type) else schema(arguments))

        return run

    return decorate


def show_help(text: str, name: str, arguments: Sequence[str] = ()) -> None:
    """Print ``text``, then the YAML files that define and explain the settings: conf/``name``.yaml and its groups.

    Of each group, the file that the ``arguments`` choose, or else the default.
    """
    require_stdout()
    chosen = {key: choice for key, _, choice in (argument.partition("=") for argument in arguments)}
    settings = (config_dir() / f"{name}.yaml").read_text(encoding="utf-8")
    print(f"{text}\n\nSettings, given as key=value, with defaults (conf/{name}.yaml; ???: required):\n\n{settings}")
    for group, default in re.findall(r"^  - (\w+): (\w+)", settings, re.MULTILINE):
        files = {file.stem: file for file in sorted((config_dir() / group).glob("*.yaml"))}
        choice = chosen[group] if chosen.get(group) in files else default
        print(f"{group}= {' | '.join(files)}")
        if choice in files:
            print(f"Settings of {group}={choice}, given as {group}.key=value:\n\n{_with_included(files[choice])}")


def _with_included(file: Path) -> str:
    """Return a YAML file, followed by those that its defaults list includes."""
    text = file.read_text(encoding="utf-8")
    entries = re.findall(r"^  - (?:/(\w+)@_here_: )?(\w+)$", text, re.MULTILINE)
    included = [config_dir() / (group or file.parent.name) / f"{name}.yaml" for group, name in entries]
    return "\n".join([text, *(_with_included(parent) for parent in included if parent.is_file())])


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The settings with which a command loads a model."""

    device: str
    threads: Threads | None
    trust: list[str]

    @property
    def load_settings(self) -> LoadSettings:
        """These settings in the form that ``load_model`` takes."""
        return LoadSettings(engine="torch", device=self.device, threads=self.threads, trust=self.trust)


@dataclass(frozen=True, kw_only=True)
class EngineOptions(ModelOptions):
    """The settings with which a command translates on any engine."""

    search: SearchOptions
    engine: EngineName
    shortlist: bool

    @property
    def load_settings(self) -> LoadSettings:
        return replace(super().load_settings, engine=self.engine, shortlist=self.shortlist)


def refuse_both(options: object, key: str, *others: str) -> None:
    """Raise UserError if the setting ``key`` is given, and one of the ``others`` too."""
    value = getattr(options, key)
    for other in others:
        given = getattr(options, other)
        if value is not None and given is not None:
            raise UserError(f"{key}={value}: {other}={given} is given too; give only one of them")


def require_with(options: object, key: str, *others: str) -> None:
    """Raise UserError if the setting ``key`` is given, but one of the ``others`` is not."""
    value = getattr(options, key)
    for other in others if value is not None else ():
        if getattr(options, other) is None:
            raise UserError(f"{other}=null: needed with {key}={value}; add {other}=FILE")


def load_model(folder: str | list[str], settings: LoadSettings) -> Translator:
    """Load the translator of ``folder``, or of an ensemble.

    If ``auto`` selects an ONNX engine, its name is printed to stderr. Raises UserError if a folder holds no model for
    this engine.
    """
    with paused_collector():
        # Imported here, after the arguments were checked: torch takes seconds to import.
        from nmt.inference.load import load
        from nmt.inference.onnx.model import OnnxModel
        from nmt.inference.translator import Translator

        model = load(folder, settings)
    if settings.engine == "auto" and isinstance(model, OnnxModel):
        print_message(f"engine: {model.engine_name}")
    return Translator(model)


def refuse_same_files(paths: Mapping[str, str | None]) -> None:
    """Raise UserError if two of the settings name one file, which the command would overwrite."""
    keys: dict[str, str] = {}
    for key, path in paths.items():
        if path is not None and (other := keys.setdefault(os.path.realpath(path), key)) != key:
            raise UserError(f"{key}={path}: same file as {other}={paths[other]}; choose two different files")


EMPTY = "its translation is empty"


def warn_of_line(name: str, consequence: str, *, first: int = 0, separator: str = ":") -> Callable[[int, str], None]:
    """Return a function for ``on_failure``, which gets a row and a reason, and prints a warning to stderr.

    ``name`` is the file of the lines, ``first`` the number of lines before them. ``separator`` stands between the file
    and the number of the line.
    """

    def warn(row: int, reason: str) -> None:
        what = reason if reason == CUT else f"{reason}; {consequence}"
        print_message(f"warning: {name}{separator}{first + row + 1}: {what}")

    return warn


def translate_lines(
    translator: Translator,
    lines: Sequence[str],
    search: SearchOptions,
    *,
    on_failure: Callable[[int, str], None],
    alignments: bool = False,
    markup: bool = False,
    unit: str = "line",
) -> list[Translation]:
    """Translate the lines, and show progress in this ``unit``; see ``Translator.translate``.

    ``on_failure`` is also called for translations that were cut.
    """
    progress = Progress(unit, total=lambda: len(lines))
    translations: list[Translation] = []
    groups = ([*lines[first : first + GROUP]] for first in range(0, len(lines), GROUP))
    translated = translator.translate_groups(
        groups, search, alignments=alignments, markup=markup, on_failure=on_failure
    )
    with closing(translated):  # ends the threads at once after an error
        for group in translated:
            for row, reason in cuts(group, len(translations)):
                on_failure(row, reason)
            translations += group
            progress.show(len(translations))
    progress.close()
    say_split(translator.split_lines)
    return translations
