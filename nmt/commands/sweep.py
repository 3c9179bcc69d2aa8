"""nmt-train -m: train once per combination of settings, with Hydra's multirun, and compare the results."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from nmt.commands.shell import TRACEBACK, describe_error
from nmt.commands.streams import print_table
from nmt.comparison.records import Column, mean_and_deviation, save_csv
from nmt.config.compose import train_config
from nmt.config.multirun import Job, Multirun, read_multirun, run_multirun
from nmt.config.runs import (
    join_options,
    refuse_changed_sources,
    refuse_other_settings,
)
from nmt.data.sources import PreparedData, missing_files
from nmt.errors import Interrupted, UserError, print_message
from nmt.files.atomic import LOCK_FILE, lock_folder, make_folder, own_folder, require_own, write_lines
from nmt.files.reading import read_json
from nmt.inference.run_files import CONFIG_FILE, JOB_FILE, METRICS_FILE, MODEL_FILE, SUMMARY_FILE, has_checkpoint
from nmt.text.prepared_settings import missing_parts
from nmt.training.distributed import detect_launch
from nmt.training.settings import Train
from nmt.version import __version__

if TYPE_CHECKING:
    from nmt.training.run import TrainingResult

RUN_FILES = (CONFIG_FILE, SUMMARY_FILE, MODEL_FILE)
SHOWN = 8  # problems that are printed
TrainJob = Callable[[Sequence[str], Path], "TrainingResult"]
Process = tuple[str, int]


class JobsFailed(UserError):
    """Some jobs of a sweep failed; the others have finished."""


def sweep(arguments: Sequence[str], train: TrainJob, *, needed: Sequence[str] = ()) -> None:
    """Run the sweep. Each job runs ``train``, unless an earlier call of the same sweep has finished it.

    Prints a table of all jobs and writes it into the folder of the sweep. Raises UserError, before any job starts, for
    settings that are wrong and for ``needed`` parts of the data that are missing. Raises JobsFailed if jobs failed,
    after all have run.
    """
    if detect_launch() is not None:
        raise UserError("-m: several processes cannot share a sweep; start each run with torchrun or srun")
    multirun = read_multirun(join_options(arguments))
    _check(multirun, needed)
    call = uuid4().hex
    total = None if multirun.jobs is None else len(multirun.jobs)
    try:
        with own_folder(multirun.folder):
            run_multirun(multirun, partial(_run_job, train=train, call=call, main=_process(), total=total))
    finally:
        records = _read_records(multirun.folder, call)
        finished = sum(record["status"] == "finished" for record in records)
        if any(record["status"] != "stopped" for record in records):
            _write_table(records, multirun.folder)
        if isinstance(sys.exception(), KeyboardInterrupt):
            count = f"{finished}" if total is None else f"{finished} of {total}"
            print_message(f"stopped; {count} jobs have finished; repeat the command to run the others")
    failed = [record for record in records if record["status"] == "failed"]
    if failed:
        count = f"{len(failed)} of {len(records)} jobs failed; repeat the command to run them again"
        raise JobsFailed(count, *(f"{record['folder']}: {record['error']}" for record in failed))


def _check(multirun: Multirun, needed: Sequence[str]) -> None:
    """Raise UserError with the problems of all jobs that can be found before the sweep."""
    folder = multirun.folder
    if any((folder / file).is_file() for file in RUN_FILES):
        raise UserError(f"name={folder.name}: {folder} is a single run, not a sweep; choose another name=")
    require_own(folder)
    problems: dict[str, list[str]] = {}
    jobs = multirun.jobs if multirun.jobs is not None else [Job(0, multirun.unswept, [], folder / "run")]
    for job in jobs:
        try:
            require_own(job.folder, known=(JOB_FILE,))
            if missing := [*_missing_parts(_job_config(job), needed)]:
                raise UserError(*missing)
        except UserError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(job.folder.name)
    if problems:
        lines = [
            problem if len(names) == len(jobs) or str(folder) in problem else f"{problem} (job {names[0]})"
            for problem, names in problems.items()
        ]
        others = [f"and {len(lines) - SHOWN} more problems like these"] if len(lines) > SHOWN else []
        raise UserError(*lines[:SHOWN], *others)


def _missing_parts(config: Train, needed: Sequence[str]) -> Iterable[str]:
    """Return a problem for each ``needed`` part that has no files or that prepared text does not have."""
    if isinstance(config.data, PreparedData):
        return missing_parts(Path(config.data.folder), needed) if needed else []
    return missing_files(config.data.block, needed)


def _job_config(job: Job) -> Train:
    """Return the checked configuration of a job. Raises UserError if its folder holds another run."""
    config = train_config(_arguments(job))
    if (job.folder / CONFIG_FILE).is_file():
        refuse_other_settings(config, job.folder)
        refuse_changed_sources(config, job.folder)
    return config


def _arguments(job: Job) -> list[str]:
    return [*job.fixed, *job.swept, f"runs={job.folder.parent}", f"name={job.folder.name}"]


def _run_job(job: Job, *, train: TrainJob, call: str, main: Process, total: int | None) -> float:
    """Train, resume or skip the job, write its record and return its objective.

    An error is recorded, and the other jobs go on. The objective is then NaN, except for sweepers such as Optuna, which
    expect an exception and count it as a failed trial.
    """
    name = job.folder.name
    record: dict[str, Any] = {
        "call": call,
        "number": job.number,
        "folder": str(job.folder),
        "settings": dict(argument.lstrip("+~").split("=", 1) for argument in job.swept),
        "status": "stopped",
        "error": None,
    }
    require_own(job.folder, known=(JOB_FILE,))
    own = _process() == main
    if own:
        print_message(f"job {job.number + 1}{f' of {total}' if total is not None else ''}: {name}")
    try:
        with _log(job, own):
            record |= _results(job, train)
        record["status"] = "finished"
    except Exception as error:
        if os.environ.get(TRACEBACK):
            print_message(traceback.format_exc())
        lines = describe_error(error)[1]
        record |= {"status": "failed", "error": "; ".join(line.strip().removeprefix("error: ") for line in lines)}
    finally:
        make_folder(job.folder)
        # No nmt.files.records: a run's own files say what is finished, this file only reports the call's result.
        write_lines(job.folder / JOB_FILE, [json.dumps(record)])
    if record["status"] == "failed":
        print_message(f"{name}: failed: {record['error']}")
        if total is None:
            raise UserError(record["error"])
        return float("nan")
    return float("nan") if record["objective"] is None else float(record["objective"])


def _results(job: Job, train: TrainJob) -> dict[str, Any]:
    """Return the results of the job, after training it where it has not finished."""
    _job_config(job)
    summary_file = job.folder / SUMMARY_FILE
    if summary_file.is_file():
        print_message(f"{job.folder.name}: has finished already{_other_version(summary_file)}; skipped")
    else:
        arguments = _arguments(job)
        if has_checkpoint(job.folder):
            arguments.append("resume=true")
        else:
            _clear(job.folder)
        result = train(arguments, job.folder)
        if result.stop_signal is not None:
            raise Interrupted(result.stop_signal)
    return _measured(job.folder, read_json(summary_file))


def _other_version(summary_file: Path) -> str:
    """Return a phrase that names the version that trained a finished run; empty for the present version."""
    version = (read_json(summary_file).get("toolkit") or {}).get("version")
    return "" if version in (None, __version__) else f", trained by version {version} (this is {__version__})"


def _clear(folder: Path) -> None:
    """Delete the files of an attempt that ended before its first checkpoint, unless it is still running."""
    make_folder(folder)
    with lock_folder(folder):
        for entry in folder.iterdir():
            if entry.name != LOCK_FILE:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _measured(folder: Path, summary: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the table, and the objective: the best value of ``training.monitor``."""
    averaged = summary.get("averaged_epochs")  # no epoch has validated their mean
    loss = None if averaged else _valid_loss(folder, summary["kept_epoch"])
    values = {**(summary["test"] or {}), **summary, "valid_loss": loss}
    return {"objective": summary["valid_best"], **{column.metric: values.get(column.metric) for column in RESULTS}}


def _valid_loss(folder: Path, epoch: int) -> float | None:
    """Return the validation loss of the model that a run kept, from the metrics of its ``epoch``, counted from 1."""
    from nmt.training.metrics import read_rows

    if not (folder / METRICS_FILE).is_file():
        return None
    rows = read_rows(folder / METRICS_FILE)
    losses = [float(row["valid_loss"]) for row in rows if row["valid_loss"] and row["epoch"] == str(epoch - 1)]
    return losses[-1] if losses else None


@contextmanager
def _log(job: Job, in_this_process: bool) -> Iterator[None]:
    """Write the messages of a job that runs in another process into a file beside its folder."""
    if in_this_process:
        yield
        return
    file = Path(f"{job.folder}.log")
    print_message(f"{job.folder.name}: started; its messages are in {file}")
    make_folder(file.parent)
    with open(file, "w", encoding="utf-8") as log, redirect_stderr(log):
        yield
    print_message(f"{job.folder.name}: finished")


def _process() -> Process:
    return platform.node(), os.getpid()


def _read_records(folder: Path, call: str) -> list[dict[str, Any]]:
    """Return the records that this call of the sweep has written, in the order of the jobs. Damaged ones are named."""
    records = []
    for file in folder.rglob(JOB_FILE):
        try:
            record = read_json(file)
            if record["call"] == call:
                records.append((int(record["number"]), record))
        except (OSError, ValueError, LookupError, TypeError):
            print_message(f"warning: {file}: damaged, so the table lacks its job; repeat the command")
    return [record for _, record in sorted(records, key=itemgetter(0))]


SEED = "seed"
Record = Mapping[str, Any]
RESULTS = (
    Column("BLEU", ".2f", "bleu"),
    Column("chrF", ".2f", "chrf"),
    Column("AER", ".3f", "aer"),
    Column("valid loss", ".3f", "valid_loss"),
    Column("tokens/s", ",.0f", "tokens_per_s"),
    Column("seconds", ",.1f", "seconds"),
)


def group_by_seed(records: Sequence[Record]) -> dict[tuple[tuple[str, str], ...], list[Record]]:
    """Return the jobs that differ in their seed only, by their other settings, in the order of the first jobs."""
    groups: dict[tuple[tuple[str, str], ...], list[Record]] = {}
    for record in records:
        settings = tuple((key, value) for key, value in record["settings"].items() if key != SEED)
        groups.setdefault(settings, []).append(record)
    return groups


def _write_table(records: Sequence[Record], folder: Path) -> None:
    """Write the groups into ``sweep.csv`` and the jobs into ``sweep.json``, and print one line per group."""
    groups = group_by_seed(records)
    keys = list(dict.fromkeys(key for settings in groups for key, _ in settings))
    jobs = [{key: value for key, value in record.items() if key != "call"} for record in records]
    write_lines(folder / "sweep.json", json.dumps(jobs, indent=2).split("\n"))
    shown = [column for column in RESULTS if any(record.get(column.metric) is not None for record in records)]
    numbers = ["n", *(column.heading for column in shown)]
    unfinished = ["unfinished"] * any(record["status"] != "finished" for record in records)
    statistics = [f"{column.metric}_{name}" for column in RESULTS for name in ("mean", "sd")]
    lines: list[list[Any]] = [[*keys, "n", "unfinished", *statistics]]
    rows: list[list[str]] = []
    for settings, members in groups.items():
        names = [dict(settings).get(key, "") for key in keys]
        others = [_seed(record) for record in members if record["status"] != "finished"]
        count = len(members) - len(others)
        values = {
            column: [float(record[column.metric]) for record in members if record.get(column.metric) is not None]
            for column in RESULTS
        }
        cells = [cell for column in RESULTS for cell in mean_and_deviation(values[column])]
        lines.append([*names, count, len(others), *cells])
        texts = ["".join(column.texts(values[column])) for column in shown]
        rows.append([*names, str(count), *texts, *[", ".join(others)] * len(unfinished)])
    save_csv(folder / "sweep.csv", lines)
    title = f"{folder}: mean ± standard deviation over n jobs"
    print_table(rows, [*keys, *numbers, *unfinished], numbers=numbers, title=title)


def _seed(record: Record) -> str:
    """Return what distinguishes a job from others of its group, such as ``seed=3``."""
    return f"seed={record['settings'][SEED]}" if SEED in record["settings"] else "this job"
