"""nmt-train -m: train once per combination of settings, one run after the other, and compare the results."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, RangeSweep
from hydra.errors import HydraException

from nmt.commands.shell import TRACEBACK, describe_error
from nmt.commands.streams import print_table
from nmt.comparison.records import SCORES, Column, mean_and_deviation, save_csv
from nmt.config.compose import composed_tree, join_options, train_config, train_problems
from nmt.config.overrides import INSIDE, UNRELATED, key_of, name_problems, read_yaml
from nmt.config.runs import START_FILE, changed_settings, changed_since_start, origin, start_model, train_or_resume
from nmt.data.sources import PreparedData, missing_files
from nmt.errors import Interrupted, UserError, print_message
from nmt.files.atomic import LOCK_FILE, own_folder, require_own
from nmt.files.checksum import changed_names, fingerprint
from nmt.files.reading import read_json
from nmt.inference.run_files import CONFIG_FILE, MODEL_FILE, SUMMARY_FILE, has_checkpoint
from nmt.settings.arguments import UnknownKey
from nmt.settings.build import plain
from nmt.text.prepare import missing_parts, read_settings
from nmt.training.distributed import detect_launch
from nmt.training.settings import Train

SEED = "seed"
SHOWN = 8  # problems that are printed
FIX = "choose another name=, or delete that folder"
DEFAULT_NAME = "sweep"
LONGEST_NAME = 200  # characters in the name of a job's folder; a fingerprint follows
RESULTS = (
    *SCORES[:3],  # BLEU, chrF and AER
    Column("best valid", ".3f", "valid_best"),
    Column("tokens/s", ",.0f", "tokens_per_s"),
    Column("seconds", ",.1f", "seconds"),
)


class Job(NamedTuple):
    """A job of a sweep: the values of the swept settings, the arguments of its run, and its folder."""

    settings: dict[str, str]
    arguments: list[str]
    folder: Path


class JobsFailed(UserError):
    """Some jobs of a sweep failed; the others have finished."""


def read_sweep(arguments: Sequence[str]) -> list[Job]:
    """Return a job for each combination of the values that the arguments list. Their folders have one parent.

    Of a setting that is given twice, the last one counts.
    """
    words = join_options(arguments)
    options = [word for word in words if word.startswith("-")]
    given = {key_of(word): word for word in words if word not in options}
    listed = {key: values for key, word in given.items() if (values := _listed_values(word)) is not None}
    for key in given.keys() & {"resume"} | listed.keys() & {"name", "runs"}:
        raise UserError(
            f"{given[key]}: not possible in a sweep, which continues when its command is repeated; remove it"
        )
    shared = [*options, *(word for key, word in given.items() if key not in listed)]
    settings = composed_tree("train", shared).config
    named = "name" in given or settings["name"] != "demo"
    name = str(settings["name"]) if named else DEFAULT_NAME
    if wrong := [*name_problems(name)]:
        raise UserError(*wrong)
    if "export" not in given:
        shared.append("export=false")  # few people translate with every job of a sweep
    parent = Path(str(settings["runs"])) / name
    jobs = []
    for combination in product(*listed.values()):
        chosen = dict(zip(listed, combination, strict=True))
        own = [f"{given[key].partition('=')[0].lstrip('+')}={value}" for key, value in chosen.items()]
        folder = parent / job_name(own)
        jobs.append(Job(chosen, [*shared, *own, f"runs={parent}", f"name={folder.name}"], folder))
    for part, word in product(listed, shared):
        if key_of(word).startswith(f"{part}."):
            _keep_where_known(word, part, jobs)
    return jobs


def _keep_where_known(word: str, part: str, jobs: Sequence[Job]) -> None:
    """Remove a setting of a swept part, such as ``attention.slots=8``, from the jobs whose part has no such key.

    If no job has the key, all keep the setting, and the check of the jobs refuses it.
    """
    lacking = [job for job in jobs if key_of(word) in _unknown_keys(job)]
    if 0 < len(lacking) < len(jobs):
        names = dict.fromkeys(f"{part}={job.settings[part]}" for job in lacking)
        print_message(f"{word}: has no effect on {', '.join(names)}, which has no such key")
        for job in lacking:
            job.arguments.remove(word)


def _unknown_keys(job: Job) -> set[str]:
    problems = train_problems(composed_tree("train", job.arguments).config)
    return {problem.partition("=")[0] for problem in problems if isinstance(problem, UnknownKey)}


def _listed_values(argument: str) -> list[str] | None:
    """Return the values of ``key=a,b``, ``key=choice(a,b)`` or ``key=range(1,4)``; None for a single value."""
    try:
        override = OverridesParser.create().parse_override(argument)
    except HydraException:
        return None
    if not override.is_sweep_override():
        return None
    key = key_of(argument)
    if not isinstance(override.value(), ChoiceSweep | RangeSweep):
        raise UserError(f"{key}: a sweep needs a list of values; write {key}=1,2,3")
    values = [*override.sweep_string_iterator()]
    if len({*values}) < len(values):
        raise UserError(f"{argument}: lists a value twice, which would count one run as two; remove it")
    return values


def job_name(settings: Sequence[str]) -> str:
    """Return the folder of the job with these swept settings: ``attention=luong,seed=1``.

    Other characters than ASCII letters and digits become ``_``, because some file systems forbid them. Then a
    fingerprint keeps the names of two jobs different.
    """
    text = ",".join(sorted(setting.removeprefix(INSIDE) for setting in settings)) or "run"
    safe = re.sub(r"[^\w.,=@+-]", "_", text.replace("'", "").replace('"', ""), flags=re.ASCII)[:LONGEST_NAME]
    return safe if safe == text else f"{safe}-{fingerprint(text.encode())[:8]}"


def sweep(jobs: Sequence[Job], *, needed: Sequence[str] = ()) -> None:
    """Train each job of ``read_sweep``, unless an earlier call of the same sweep has finished it.

    Prints a table of all jobs and writes it into the folder of the sweep. Raises UserError, before any job starts, for
    settings that are wrong and for ``needed`` parts of the data that are missing. Raises JobsFailed if jobs failed,
    after all have run.
    """
    if detect_launch() is not None:
        raise UserError("-m: several processes cannot share a sweep; start each run with torchrun or srun")
    folder = jobs[0].folder.parent
    models = _check(jobs, folder, needed)
    failures: dict[str, str] = {}
    with own_folder(folder):
        for number, (job, before) in enumerate(zip(jobs, models, strict=True), 1):
            print_message(f"job {number} of {len(jobs)}: {job.folder.name}")
            try:
                _train(job, before)
            except KeyboardInterrupt:
                count = sum(map(_has_finished, jobs))
                print_message(f"stopped after {count} finished jobs; repeat the command to run the others")
                raise
            except Exception as problem:
                if os.environ.get(TRACEBACK):
                    print_message(traceback.format_exc())
                error = "; ".join(line.strip().removeprefix("error: ") for line in describe_error(problem)[1])
                print_message(f"{job.folder.name}: failed: {error}")
                failures[job.folder.name] = error
        write_table([(job.settings, _results(job, failures)) for job in jobs], folder)
    if failures:
        lines = [f"{folder / name}: {error}" for name, error in failures.items()]
        raise JobsFailed(f"{len(failures)} of {len(jobs)} jobs failed; repeat the command to run them again", *lines)


def _check(jobs: Sequence[Job], folder: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """Return the ``start_model`` of each job. Raises UserError with all problems found before the sweep."""
    if any((folder / file).is_file() for file in (CONFIG_FILE, SUMMARY_FILE, MODEL_FILE)):
        raise UserError(f"name={folder.name}: {folder} is a single run, not a sweep; choose another name=")
    require_own(folder)
    models = []
    problems: dict[str, list[str]] = {}
    for job in jobs:
        try:
            require_own(job.folder, marks=(LOCK_FILE, START_FILE))
            config = _job_config(job)
            models.append(start_model(plain(config)))
            data = config.data
            if isinstance(data, PreparedData):
                missing = missing_parts(Path(data.folder), needed)
            else:
                missing = [*missing_files(data.block, needed)]
            if missing:
                raise UserError(*missing)
            if isinstance(data, PreparedData):
                _require_same_text(job, Path(data.folder))
        except UserError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(job.folder.name)
    if problems:
        lines = [
            f"{problem} (job {names[0]})" if len(names) < len(jobs) else problem for problem, names in problems.items()
        ]
        raise UserError(*lines[:SHOWN])
    return models


def _job_config(job: Job) -> Train:
    """Return the checked configuration of a job. Raises UserError if its folder holds a run with other settings."""
    config = train_config(job.arguments)
    if (job.folder / CONFIG_FILE).is_file():
        stored = read_yaml(job.folder / CONFIG_FILE)
        fixed = [key for key in stored if key not in UNRELATED]
        if changes := changed_settings(config, stored, fixed=fixed, resumes=not _has_finished(job)):
            raise UserError(*(f"{change} in {job.folder}; {FIX}" for change in changes))
        if changed := changed_since_start(job.folder, origin(plain(config))):
            raise UserError(f"{job.folder}: {changed} changed since it was trained; {FIX}")
    return config


def _require_same_text(job: Job, folder: Path) -> None:
    """Raise UserError if a finished job has another text than the prepared one in this folder."""
    if (
        _has_finished(job)
        and read_json(job.folder / SUMMARY_FILE).get("text_checksum") != read_settings(folder).checksum
    ):
        raise UserError(f"data.folder={folder}: is not the text of {job.folder}; {FIX}")


def _has_finished(job: Job) -> bool:
    return (job.folder / SUMMARY_FILE).is_file()


def _train(job: Job, models: Mapping[str, str]) -> None:
    """Train or resume the run of the job where it has not finished.

    Raises UserError if one of its ``models`` has changed since the sweep began: the jobs would not be comparable.
    """
    if _has_finished(job):
        print_message(f"{job.folder.name}: has finished already; skipped")
        return
    if models and (changed := changed_names(models, start_model(plain(train_config(job.arguments))))):
        raise UserError(f"{' and '.join(changed)}: has changed since the sweep began; {FIX}")
    resume = ["resume=true"] if has_checkpoint(job.folder) else []
    result = train_or_resume([*job.arguments, *resume], job.folder)
    if result.stop_signal is not None:
        raise Interrupted(result.stop_signal)


def _results(job: Job, failures: Mapping[str, str]) -> dict[str, Any] | None:
    """Return summary and test scores of the job in one dictionary; None if it failed."""
    if job.folder.name in failures:
        return None
    summary = read_json(job.folder / SUMMARY_FILE)
    return {**summary, **(summary["test"] or {})}


def write_table(jobs: Sequence[tuple[Mapping[str, str], Mapping[str, Any] | None]], folder: Path) -> None:
    """Write one row for the jobs that differ in their seed only into ``sweep.csv``, and print these rows.

    A job has its swept settings, and its results unless it failed.
    """
    groups: dict[tuple[str, ...], list[tuple[str, Mapping[str, Any] | None]]] = {}
    keys = [key for key in jobs[0][0] if key != SEED]
    for settings, results in jobs:
        members = groups.setdefault(tuple(settings[key] for key in keys), [])
        members.append((settings.get(SEED, "this job"), results))
    shown = [
        column for column in RESULTS if any(results and results.get(column.metric) is not None for _, results in jobs)
    ]
    lines: list[list[Any]] = [
        [*keys, "n", "unfinished", *(f"{c.metric}_{name}" for c in RESULTS for name in ("mean", "sd"))]
    ]
    rows: list[list[str]] = []
    for names, members in groups.items():
        finished = [results for _, results in members if results is not None]
        others = [seed for seed, results in members if results is None]
        values = {
            column: [float(results[column.metric]) for results in finished if results.get(column.metric) is not None]
            for column in RESULTS
        }
        cells = (cell for column in RESULTS for cell in mean_and_deviation(values[column]))
        lines.append([*names, len(finished), len(others), *cells])
        texts = (column.text(values[column]) for column in shown)
        rows.append([*names, str(len(finished)), *texts, ", ".join(others)])
    save_csv(folder / "sweep.csv", lines)
    numbers = ["n", *(column.heading for column in shown)]
    title = f"{folder}: mean ± standard deviation over n jobs"
    print_table(rows, [*keys, *numbers, "unfinished"], numbers=numbers, title=title)
