"""The settings of a comparison, and its runs: runs whose settings differ only in their seed are one model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from nmt.config.overrides import UNRELATED, flatten, name_problems, read_yaml
from nmt.data.links import Links, parse_links
from nmt.data.text_files import read_lines
from nmt.errors import UserError, counted, print_message, printable
from nmt.files.checksum import stored_code
from nmt.files.reading import read_json
from nmt.inference.engines import stored_tokenizer
from nmt.inference.run_files import (
    CODE_FILE,
    CONFIG_FILE,
    GOLD_LINKS,
    REFERENCES,
    SOURCES,
    SUMMARY_FILE,
    TRANSLATIONS,
)
from nmt.inference.scores import DEFAULT, EvaluationSettings, choose_tokenizer
from nmt.settings.arguments import AtLeast, AtMost, Threads

TEST_FILES = (SOURCES, REFERENCES, GOLD_LINKS)
# Settings in which the runs of one model may differ.
IGNORED = ("seed", *UNRELATED)


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """The settings in conf/compare.yaml."""

    models: list[str] | None
    name: str
    runs: str
    baseline: str | None
    beams: list[Annotated[int, AtLeast(1), AtMost(1000)]]
    engines: list[Literal["torch", "onnx", "onnx-int8"]]
    evaluation: EvaluationSettings
    device: str
    threads: Threads | None
    trust: list[str]

    def __post_init__(self) -> None:
        for problem in name_problems(self.name):
            raise UserError(problem)

    @property
    def folder(self) -> Path:
        return Path(self.runs) / self.name


@dataclass(frozen=True)
class FinishedRun:
    """A finished run with a test set."""

    folder: Path
    config: Mapping[str, Any]
    summary: Mapping[str, Any]

    @property
    def seed(self) -> Any:
        return self.config.get("seed")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings that all runs of a model share, with their text, code and start model, which may change."""
        origin = {key: self.summary.get(key) for key in ("text_checksum", "code")}
        origin["start"] = stored_code(self.folder / CODE_FILE).get("init_from")
        return {key: value for key, value in self.config.items() if key not in IGNORED} | origin

    @cached_property
    def translations(self) -> list[str]:
        return self.lines(TRANSLATIONS)

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file of the test set, none if it is missing."""
        file = self.folder / name
        return list(read_lines(file, allow_empty=True)) if file.is_file() else []


class Model(NamedTuple):
    """One row of the report: runs with the same settings and different seeds."""

    label: str
    runs: list[FinishedRun]


class TestSet(NamedTuple):
    """The test set that all runs share; ``golds`` are its gold links, if it has any.

    BLEU counts the tokens of ``tokenizer``.
    """

    sources: list[str]
    references: list[str]
    golds: list[Links] | None
    tokenizer: str = DEFAULT


def run_folders(folder: Path) -> list[Path]:
    """Return ``folder``, or the folders of the runs in it if it is a sweep."""
    if (folder / CONFIG_FILE).exists():
        return [folder]
    return sorted(file.parent for file in folder.glob(f"*/{CONFIG_FILE}")) or [folder]


def read_run(folder: Path) -> FinishedRun:
    """Read a finished run. Raises UserError, which names the folder, if it is not one."""
    setting, omit = f"models={folder}", "remove it from models="
    config = read_yaml(folder / CONFIG_FILE, setting)
    try:
        summary = read_json(folder / SUMMARY_FILE)
    except (OSError, ValueError):
        raise UserError(f"{setting}: has not finished; resume it with nmt-train resume=true, or {omit}") from None
    if not isinstance(summary, dict) or not isinstance(summary.get("test"), dict):
        raise UserError(f"{setting}: was trained without a test set; train it with one, or {omit}")
    return FinishedRun(folder, config, summary)


def read_test_set(runs: Sequence[FinishedRun], tokenizer: str | None = None) -> TestSet:
    """Return the test set of the runs. Raises UserError if two of them have different ones.

    ``tokenizer`` scores all runs; None: that of the first one.
    """
    sources, references, links = first = [runs[0].lines(name) for name in TEST_FILES]
    for run in runs:
        if [run.lines(name) for name in TEST_FILES] != first:
            raise UserError(
                f"models={run.folder}: has another test set than {runs[0].folder}; compare runs on the same text"
            )
        if not sources or len(run.translations) != len(sources):
            lines = f"{counted(len(run.translations), 'translation')} of {counted(len(sources), 'source')}"
            raise UserError(f"models={run.folder}: {lines}; train it again, with another test set if that is empty")
    choice = choose_tokenizer(references, tokenizer or stored_tokenizer(runs[0].config))
    if choice.reason is not None:
        print_message(choice.reason)
    golds = None
    if links:
        pairs = [*zip(sources, references, strict=True)]
        golds = parse_links(links, str(runs[0].folder / GOLD_LINKS), sentences=pairs)
    return TestSet(sources, references, golds, choice.tokenizer)


def group_runs(runs: Sequence[FinishedRun]) -> list[Model]:
    """Return the models, in the order of their first runs, each with its runs in the order of their seeds.

    Two runs with equal settings and the same seed are two models: the code or the machine may differ.
    """
    groups: list[list[FinishedRun]] = []
    for run in runs:
        for group in groups:
            if group[0].settings == run.settings and (run.seed is None or all(run.seed != r.seed for r in group)):
                group.append(run)
                break
        else:
            groups.append([run])
    labels = [_label(group[0]) for group in groups]
    return [
        Model(
            printable(label if label and labels.count(label) == 1 else str(group[0].folder)),
            sorted(group, key=lambda run: run.seed or 0),
        )
        for label, group in zip(labels, groups, strict=True)
    ]


def differing_settings(runs: Mapping[str, FinishedRun]) -> dict[str, list[str]]:
    """Return by label the settings, as key=value, in which the runs differ. A run may lack some of the keys."""
    texts = {
        label: {
            key: f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key, value in flatten(run.settings).items()
        }
        for label, run in runs.items()
    }
    keys = dict.fromkeys(key for own in texts.values() for key in own)
    differing = [key for key in keys if len({own.get(key) for own in texts.values()}) > 1]
    return {label: [own[key] for key in differing if key in own] for label, own in texts.items()}


def _label(run: FinishedRun) -> str:
    """Return the label of a run: ``attention=none,seed=1``, a job of a sweep, is ``none``."""
    parts = [part for part in run.folder.name.split(",") if not part.startswith("seed=")]
    return ", ".join(part.removeprefix("attention=") for part in parts)


def choose_baseline(models: Sequence[Model], wanted: str | None) -> Model:
    """Return the model that ``wanted`` names by its label or by the folder of a run; by default the first."""
    for model in models:
        folders = [run.folder.resolve() for run in model.runs]
        names = wanted is None or wanted.rstrip("/") in (model.label, f"attention={model.label}")
        if names or Path(str(wanted)).resolve() in folders:
            return model
    labels = " | ".join(model.label for model in models)
    raise UserError(f"baseline={wanted}: not one of the compared models; choose one of {labels}")
