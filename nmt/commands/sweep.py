"""nmt-train -m: train once per combination of settings, with Hydra's multirun, and compare the results."""

from __future__ import annotations

import json
import os
import platform
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.commands.shell import TRACEBACK, describe_error
from nmt.commands.streams import print_table
from nmt.comparison.records import SCORES, Column, mean_and_deviation, save_csv
from nmt.config.compose import train_config
from nmt.config.init_from import UNRELATED, read_yaml
from nmt.config.multirun import Job, Multirun, read_multirun, run_multirun
from nmt.config.runs import changed_code, changed_settings
from nmt.data.sources import PreparedData, missing_files
from nmt.errors import Interrupted, UserError, print_message
from nmt.files.atomic import make_folder, own_folder, require_own, write_lines
from nmt.files.reading import read_json
from nmt.inference.run_files import CONFIG_FILE, JOB_FILE, MODEL_FILE, SUMMARY_FILE, has_checkpoint
from nmt.text.prepare import missing_parts
from nmt.training.distributed import detect_launch
from nmt.training.settings import Train

if TYPE_CHECKING:
    from nmt.training.run import TrainingResult

SEED = "seed"
SHOWN = 8  # problems that are printed
RESULTS = (
    *SCORES[:3],  # BLEU, chrF and AER
    Column("best valid", ".3f", "valid_best"),
    Column("tokens/s", ",.0f", "tokens_per_s"),
    Column("seconds", ",.1f", "seconds"),
)
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
    multirun = read_multirun(arguments)
    total = None if multirun.jobs is None else len(multirun.jobs)
    _check(multirun, needed)
    try:
        with own_folder(multirun.folder):
            run_multirun(multirun, partial(_run_job, train=train, main=_process(), total=total))
    except KeyboardInterrupt:
        count = sum(job["error"] is None for job in _finished_jobs(multirun))
        print_message(f"stopped after {count} finished jobs; repeat the command to run the others")
        raise
    jobs = _finished_jobs(multirun)
    write_table(jobs, multirun.folder)
    if failed := [f"{job['folder']}: {job['error']}" for job in jobs if job["error"] is not None]:
        raise JobsFailed(f"{len(failed)} of {len(jobs)} jobs failed; repeat the command to run them again", *failed)


def _check(multirun: Multirun, needed: Sequence[str]) -> None:
    """Raise UserError with the problems of all jobs that can be found before the sweep."""
    folder = multirun.folder
    if any((folder / file).is_file() for file in (CONFIG_FILE, SUMMARY_FILE, MODEL_FILE)):
        raise UserError(f"name={folder.name}: {folder} is a single run, not a sweep; choose another name=")
    require_own(folder)
    problems: dict[str, list[str]] = {}
    jobs = multirun.jobs or []
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
            f"{problem} (job {names[0]})" if len(names) < len(jobs) else problem for problem, names in problems.items()
        ]
        others = [f"and {len(lines) - SHOWN} more problems like these"] if len(lines) > SHOWN else []
        raise UserError(*lines[:SHOWN], *others)


def _missing_parts(config: Train, needed: Sequence[str]) -> Iterable[str]:
    """Return a problem for each ``needed`` part that has no files or that prepared text does not have."""
    if isinstance(config.data, PreparedData):
        return missing_parts(Path(config.data.folder), needed) if needed else []
    return missing_files(config.data.block, needed)


def _job_config(job: Job) -> Train:
    """Return the checked configuration of a job. Raises UserError if its folder holds a run with other settings."""
    config = train_config(_arguments(job))
    if (job.folder / CONFIG_FILE).is_file():
        stored = read_yaml(job.folder / CONFIG_FILE)
        fix = "choose another name=, or delete that folder"
        if changes := changed_settings(config, stored, fixed=[key for key in stored if key not in UNRELATED]):
            raise UserError(*(f"{change} in {job.folder}; {fix}" for change in changes))
        if changed := changed_code(job.folder, config):
            raise UserError(f"{job.folder}: {changed} changed since it was trained; {fix}")
    return config


def _arguments(job: Job) -> list[str]:
    return [*job.fixed, *job.swept, f"runs={job.folder.parent}", f"name={job.folder.name}"]


def _run_job(job: Job, *, train: TrainJob, main: Process, total: int | None) -> float:
    """Train, resume or skip the job, write its record and return its objective, the best value of training.monitor.

    An error is recorded, and the other jobs go on. The objective is then NaN, except for sweepers such as Optuna, which
    expect an exception and count it as a failed trial.
    """
    name = job.folder.name
    own = _process() == main
    if own:
        print_message(f"job {job.number + 1}{f' of {total}' if total is not None else ''}: {name}")
    settings = dict(argument.lstrip("+~").split("=", 1) for argument in job.swept)
    error: str | None = "stopped"
    try:
        with _log(job, own):
            best = _trained(job, train)["valid_best"]
        error = None
    except Exception as problem:
        if os.environ.get(TRACEBACK):
            print_message(traceback.format_exc())
        error = "; ".join(line.strip().removeprefix("error: ") for line in describe_error(problem)[1])
        print_message(f"{name}: failed: {error}")
        if total is None:
            raise UserError(error) from None
        best = None
    finally:
        make_folder(job.folder)
        record = {"number": job.number, "settings": settings, "error": error}
        write_lines(job.folder / JOB_FILE, [json.dumps(record)])
    return float("nan") if best is None else float(best)


def _trained(job: Job, train: TrainJob) -> dict[str, Any]:
    """Return the summary of the job, after training it where it has not finished."""
    _job_config(job)
    summary = job.folder / SUMMARY_FILE
    if summary.is_file():
        print_message(f"{job.folder.name}: has finished already; skipped")
    else:
        resume = ["resume=true"] if has_checkpoint(job.folder) else []
        result = train([*_arguments(job), *resume], job.folder)
        if result.stop_signal is not None:
            raise Interrupted(result.stop_signal)
    return dict(read_json(summary))


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


def _finished_jobs(multirun: Multirun) -> list[dict[str, Any]]:
    """Return number, settings, folder, error and results of the jobs that have run, in their order."""
    if multirun.jobs is None:
        files = [*multirun.folder.rglob(JOB_FILE)]
    else:
        files = [job.folder / JOB_FILE for job in multirun.jobs]
    jobs = []
    for file in files:
        try:
            job = {**read_json(file), "folder": str(file.parent)}
            summary = read_json(file.parent / SUMMARY_FILE) if job["error"] is None else {}
        except FileNotFoundError:
            continue
        jobs.append(
            {
                **job,
                **{
                    key: value for key, value in {**summary, **(summary.get("test") or {})}.items() if key != "settings"
                },
            }
        )
    return sorted(jobs, key=lambda job: int(job["number"]))


def write_table(jobs: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write one row for the jobs that differ in their seed only into ``sweep.csv``, and print these rows."""
    groups: dict[tuple[tuple[str, str], ...], list[Mapping[str, Any]]] = {}
    for job in jobs:
        groups.setdefault(tuple(pair for pair in job["settings"].items() if pair[0] != SEED), []).append(job)
    keys = list(dict.fromkeys(key for settings in groups for key, _ in settings))
    shown = [column for column in RESULTS if any(job.get(column.metric) is not None for job in jobs)]
    lines: list[list[Any]] = [
        [*keys, "n", "unfinished", *(f"{c.metric}_{name}" for c in RESULTS for name in ("mean", "sd"))]
    ]
    rows: list[list[str]] = []
    for settings, members in groups.items():
        names = [dict(settings).get(key, "") for key in keys]
        others = [job["settings"].get(SEED, "this job") for job in members if job["error"] is not None]
        values = {
            column: [float(job[column.metric]) for job in members if job.get(column.metric) is not None]
            for column in RESULTS
        }
        count = len(members) - len(others)
        lines.append([*names, count, len(others), *(cell for c in RESULTS for cell in mean_and_deviation(values[c]))])
        rows.append([*names, str(count), *("".join(c.texts(values[c])) for c in shown), ", ".join(others)])
    save_csv(folder / "sweep.csv", lines)
    numbers = ["n", *(column.heading for column in shown)]
    title = f"{folder}: mean ± standard deviation over n jobs"
    print_table(rows, [*keys, *numbers, "unfinished"], numbers=numbers, title=title)
