"""nmt-compare: quality, cost and alignments of several models on equal terms, as a report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nmt.commands.options import command
from nmt.commands.streams import print_table, require_stdout
from nmt.comparison.models import (
    CompareOptions,
    FinishedRun,
    read_run,
    run_folders,
)
from nmt.config.compose import join_options
from nmt.config.overrides import config_dir, group_of, key_of, read_options, read_yaml
from nmt.errors import UserError, print_message
from nmt.files.atomic import own_folder, require_own
from nmt.inference.run_files import CONFIG_FILE, SUMMARY_FILE

HELP = """nmt-compare: compare models on the same test set; writes a report, results.csv and figures.

  nmt-compare attention=none,bahdanau,memory seed=1,2,3 name=report    train all nine runs, then compare three models
  nmt-compare attention=none,memory name=report training.max_epochs=2  any setting of nmt-train
  nmt-compare attention=luong,memory attention.slots=16 name=report    a setting of the attentions that have it
  nmt-compare 'models=[runs/a,runs/b]' name=report                     compare finished runs, or all runs of a sweep
  nmt-compare 'models=[runs/a,runs/b]' baseline=runs/b 'engines=[onnx]' 'beams=[1,4,8]' name=report

The report is runs/NAME/report.html. Repeat the command to continue: finished runs are kept.
Runs that differ only in their seed are one model, with mean and standard deviation. All models train for equally many
updates: early stopping is off unless training.patience= asks for it.

All other settings are those of nmt-train -m; nmt-train --help lists them."""

SHARED = ("name", "runs", "device", "threads", "trust", "evaluation")  # settings of the report that training needs too
EQUAL_BUDGET = "training.patience=null"


@command(HELP, lambda arguments: arguments)  # read twice: its own settings, and those of training
def compare(arguments: list[str]) -> None:
    """Train the runs that are missing, measure all, and write the report."""
    settings = [argument for argument in join_options(arguments) if argument not in ("-m", "--multirun")]
    own_keys = {*read_yaml(config_dir() / "compare.yaml"), "evaluation"}
    training = [argument for argument in settings if group_of(argument) not in own_keys]
    options = read_options("compare", CompareOptions, [argument for argument in settings if argument not in training])
    require_stdout()
    shared = [argument for argument in settings if group_of(argument) in SHARED]
    if options.models is not None:
        selection = _given_runs(options, training)
    else:
        selection = _trained_runs(options, training, shared)
    _measure(options, selection, shlex.join(["nmt-compare", *arguments]))
    if selection.failure is not None:
        raise selection.failure


class _Selection(NamedTuple):
    """The runs to compare, and the folders of runs that have not finished."""

    runs: list[FinishedRun]
    missing: list[Path]
    failure: UserError | None = None


def _given_runs(options: CompareOptions, training: Sequence[str]) -> _Selection:
    assert options.models is not None
    if training:
        raise UserError(f"{training[0]}: has no effect with models=, which trains nothing; remove {training[0]}")
    if any((options.folder / name).exists() for name in (CONFIG_FILE, SUMMARY_FILE)):
        raise UserError(f"name={options.name}: {options.folder} is a training run; choose another name=")
    require_own(options.folder)
    folders: dict[Path, Path] = {}
    missing: list[Path] = []
    for given in map(Path, options.models):
        for folder in run_folders(given):
            if folder != given and not (folder / SUMMARY_FILE).is_file():
                print_message(f"warning: {folder}: has not finished, so it is left out; repeat its sweep to finish it")
                missing.append(folder)
            else:
                folders.setdefault(Path(os.path.realpath(folder)), folder)
    if not folders:
        raise UserError(f"models=[{','.join(options.models)}]: no run has finished; repeat the sweep to finish them")
    return _Selection([read_run(folder) for folder in folders.values()], missing)


def _trained_runs(options: CompareOptions, training: Sequence[str], shared: Sequence[str]) -> _Selection:
    """Train the runs that have not finished, and return all runs."""
    from nmt.commands.sweep import JobsFailed, read_sweep, sweep

    if not training:
        raise UserError(
            "models=null: nothing to compare; give models=[runs/a,runs/b], or attention=none,memory to train"
        )
    given = {key_of(argument) for argument in training}
    overrides = [*training, *(argument for argument in shared if key_of(argument) != "name"), f"name={options.name}"]
    if "training.patience" not in given:
        overrides.append(EQUAL_BUDGET)
    jobs = read_sweep(overrides)
    folders = [job.folder for job in jobs]
    failure = None
    try:
        sweep(jobs, needed=("test",))
    except JobsFailed as error:
        failure = error
    missing = [folder for folder in folders if not (folder / SUMMARY_FILE).is_file()]
    if failure is not None and len(missing) == len(folders):
        raise failure  # nothing to compare
    return _Selection([read_run(folder) for folder in folders if folder not in missing], missing, failure)


def _measure(options: CompareOptions, selection: _Selection, command_line: str) -> None:
    """Write the report, and print its main columns and its files on stdout."""
    from nmt.comparison.records import SCORES, SIZES, pivot, speed_columns
    from nmt.comparison.report import budget, write_report

    with own_folder(options.folder):
        models, records = write_report(options, selection.runs, selection.missing, command_line)
    fastest = speed_columns(options.engines[0], [max(options.beams)])[:1] if options.engines and options.beams else []
    runs = {model.label: len(model.runs) for model in models}
    table = pivot("", runs, records, [*SIZES[:2], *SCORES[:3], *fastest])
    print_table(table.rows, table.columns, numbers=table.columns[1:])
    print(budget(models))
    for name in ("report.html", "report.md", "report.tex", "results.csv", "figures"):
        print(options.folder / name)
