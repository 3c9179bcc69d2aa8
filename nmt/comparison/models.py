"""The settings of a comparison, and its runs: runs whose settings differ only in their seed are one model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from nmt.config.overrides import MISSING, UNRELATED, flatten, name_problems, read_yaml
from nmt.data.links import Links, parse_links
from nmt.data.sources import is_prepared
from nmt.data.text_files import read_lines
from nmt.errors import UserError, counted, print_message, printable
from nmt.files.reading import read_json
from nmt.inference.engines import stored_tokenizer
from nmt.inference.run_files import (
    CONFIG_FILE,
    GOLD_LINKS,
    MODEL_FILE,
    REFERENCES,
    SOURCES,
    SUMMARY_FILE,
    TRANSLATIONS,
    has_adapter,
)
from nmt.inference.scores import DEFAULT, EvaluationSettings, choose_tokenizer
from nmt.settings.arguments import AtLeast, AtMost, Count, Threads

if TYPE_CHECKING:
    from nmt.inference.translator import Translator

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
    rounds: Count
    sentences: Count | None
    examples: Annotated[int, AtLeast(0), AtMost(100)]
    evaluation: EvaluationSettings
    device: str
    threads: Threads | None
    trust: list[str]

    def __post_init__(self) -> None:
        for problem in name_problems(self.name):
            raise UserError(problem)
        for key, values in (("beams", self.beams), ("engines", self.engines)):
            if len({*values}) < len(values):
                raise UserError(f"{key}=[{','.join(map(str, values))}]: names a value twice; remove one")
        if self.models is not None and not self.models:
            raise UserError("models=[]: names no run; give folders, such as models=[runs/a,runs/b]")

    @property
    def folder(self) -> Path:
        return Path(self.runs) / self.name


@dataclass(frozen=True)
class FinishedRun:
    """A finished run with a test set."""

    folder: Path
    config: Mapping[str, Any]
    summary: Mapping[str, Any]

    @cached_property
    def fingerprint(self) -> str:
        """A text that changes with the weights of the model."""
        from nmt.inference.model_folder import model_fingerprint

        return model_fingerprint(self.folder)

    @property
    def seed(self) -> Any:
        return self.config.get("seed")

    def translator(self, trust: Sequence[str]) -> Translator:
        from nmt.inference.model_folder import load_folder
        from nmt.inference.translator import Translator

        return Translator(load_folder(self.folder, trust=trust))

    @cached_property
    def translations(self) -> list[str]:
        return list(read_lines(self.folder / TRANSLATIONS, allow_empty=True))


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
    setting = f"models={folder}"
    omit = "remove it from models="
    if not folder.is_dir():
        raise UserError(f"{setting}: no such folder; name folders that nmt-train has finished, such as runs/demo")
    config = read_yaml(folder / CONFIG_FILE, setting)
    try:
        summary = read_json(folder / SUMMARY_FILE)
    except FileNotFoundError:
        raise UserError(f"{setting}: has not finished; resume it with nmt-train resume=true, or {omit}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{setting}: {SUMMARY_FILE} cannot be read ({error}); train it again, or {omit}") from None
    if not isinstance(summary, dict) or not isinstance(summary.get("test"), dict):
        raise UserError(f"{setting}: was trained without a test set; train it with one, or {omit}")
    for name in (SOURCES, REFERENCES, TRANSLATIONS, *([] if has_adapter(folder) else [MODEL_FILE])):
        if not (folder / name).is_file():
            raise UserError(f"{setting}: has no {name}; name a folder that nmt-train has finished")
    return FinishedRun(folder, config, summary)


def read_test_set(runs: Sequence[FinishedRun], tokenizer: str | None = None) -> TestSet:
    """Return the test set of the runs. Raises UserError if two of them have different texts, gold links or tokenizers.

    ``tokenizer`` scores all runs; None: that of the runs.
    """
    texts = [[list(read_lines(run.folder / name, allow_empty=True)) for name in (SOURCES, REFERENCES)] for run in runs]
    for run, text in zip(runs, texts, strict=True):
        if text != texts[0]:
            raise UserError(
                f"models={run.folder}: has another test set than {runs[0].folder}; compare runs on the same text"
            )
        if len(run.translations) != len(text[0]):
            lines = counted(len(run.translations), "translation")
            raise UserError(f"models={run.folder}: {lines} of {counted(len(text[0]), 'source')}; train it again")
    sources, references = texts[0]
    if not sources:
        raise UserError(f"models={runs[0].folder}: its test set is empty; train with another one")
    files = [run.folder / GOLD_LINKS for run in runs if (run.folder / GOLD_LINKS).is_file()]
    pairs = [*zip(sources, references, strict=True)]
    golds = [parse_links(list(read_lines(file, allow_empty=True)), str(file), pairs) for file in files]
    for file, links in zip(files, golds, strict=True):
        if links != golds[0]:
            raise UserError(
                f"models={file.parent}: has other gold links than {files[0].parent}; compare them in separate reports"
            )
    return TestSet(sources, references, golds[0] if golds else None, _tokenizer(runs, references, tokenizer))


def _tokenizer(runs: Sequence[FinishedRun], references: Sequence[str], wanted: str | None) -> str:
    """Return the tokenizer of all scores. Raises UserError if the runs have different ones and none is ``wanted``."""
    first, *others = [choose_tokenizer(references, wanted or stored_tokenizer(run.config)) for run in runs]
    for run, choice in zip(runs[1:], others, strict=True):
        if choice.tokenizer != first.tokenizer:
            raise UserError(
                f"models={run.folder}: was scored with evaluation.tokenizer={choice.tokenizer}, but {runs[0].folder} "
                f"with {first.tokenizer}; add evaluation.tokenizer={first.tokenizer} to score all alike"
            )
    if first.reason is not None:
        print_message(first.reason)
    return first.tokenizer


def group_runs(runs: Sequence[FinishedRun]) -> list[Model]:
    """Return the models, in the order of their first runs, each with its runs in the order of their seeds.

    Two runs with equal settings and the same seed are two models: the code or the machine may differ. Raises UserError
    if one of them is a copy of the other.
    """
    groups: list[list[FinishedRun]] = []
    for run in runs:
        for group in groups:
            if _settings(group[0]) == _settings(run) and not _has_seed(group, run):
                group.append(run)
                break
        else:
            groups.append([run])
    labels = [_label(group[0]) for group in groups]
    return [
        Model(
            printable(label if labels.count(label) == 1 else str(group[0].folder)),  # a name may not be UTF-8
            sorted(group, key=lambda run: run.seed or 0),
        )
        for label, group in zip(labels, groups, strict=True)
    ]


def _settings(run: FinishedRun) -> tuple[Any, Any]:
    """Return everything that the runs of one model share: settings, and the text if it was prepared beforehand."""
    data = run.config.get("data")
    text = run.summary.get("text_checksum") if isinstance(data, Mapping) and is_prepared(data) else None
    return {key: value for key, value in run.config.items() if key not in IGNORED}, text


def _has_seed(group: Sequence[FinishedRun], run: FinishedRun) -> bool:
    """Return whether the group has a run with the seed of this one. Raises UserError if that is the same run."""
    same = [other for other in group if other.seed == run.seed]
    for other in same:
        if other.fingerprint == run.fingerprint:
            raise UserError(f"models={run.folder}: is a copy of {other.folder}; remove one of them")
    return bool(same) and run.seed is not None


def differing_settings(runs: Mapping[str, FinishedRun]) -> dict[str, list[str]]:
    """Return by label the settings, as key=value, in which the runs differ. A run may lack some of the keys."""
    configs = {
        label: {key: value for key, value in flatten(run.config).items() if key.partition(".")[0] not in IGNORED}
        for label, run in runs.items()
    }
    differing = [
        key
        for key in dict.fromkeys(key for config in configs.values() for key in config)
        if len({repr(config.get(key, MISSING)) for config in configs.values()}) > 1
    ]
    return {
        label: [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key in differing
            if (value := config.get(key, MISSING)) is not MISSING
        ]
        for label, config in configs.items()
    }


def _label(run: FinishedRun) -> str:
    """Return the label of a run: ``attention=none,seed=1``, a job of a sweep, is ``none``."""
    parts = [part for part in run.folder.name.split(",") if not part.startswith("seed=")]
    label = ", ".join(part.removeprefix("attention=") for part in parts)
    return label or str(run.summary.get("attention", "")).removesuffix("Attention")


def choose_baseline(models: Sequence[Model], wanted: str | None) -> Model:
    """Return the model that ``wanted`` names by its label or by the folder of a run; by default the first."""
    if wanted is None:
        return models[0]
    for model in models:
        folders = [run.folder.resolve() for run in model.runs]
        if wanted.rstrip("/") in (model.label, f"attention={model.label}") or Path(wanted).resolve() in folders:
            return model
    labels = " | ".join(model.label for model in models)
    raise UserError(f"baseline={wanted}: not one of the compared models; choose one of {labels}")
