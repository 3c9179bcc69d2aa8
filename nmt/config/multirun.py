"""Run many training jobs with Hydra's multirun: its sweeper chooses their settings, and its launcher starts them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from nmt.config.compose import ERRORS, NEEDS_MULTIRUN, explain, hydra_overrides, in_grammar, in_quotes
from nmt.config.init_from import read_yaml
from nmt.config.overrides import INSIDE, config_dir, key_of, name_problems, split_list
from nmt.errors import UserError
from nmt.files.checksum import fingerprint

DEFAULT_NAME = "sweep"
LONGEST_NAME = 120  # characters in the name of a job's folder
LONGEST_BYTES = 240  # file systems allow 255; a fingerprint and .log follow
REFUSED = {  # arguments that a sweep sets for each job
    "name": "names the sweep; give one name",
    "runs": "is the parent folder of the sweep; give one folder",
    "resume": "a sweep continues by itself; repeat its command without resume=",
}
HYDRA_DEFAULTS = {
    "hydra/hydra_logging": "none",  # nmt-train has its own messages
    "hydra/job_logging": "none",
    "hydra.output_subdir": "null",  # config.yaml of each run holds its settings
    "hydra.sweep.subdir": "'${nmt_job_name:}'",
}


class Job(NamedTuple):
    """A job of a sweep: its number, from 0, the arguments of all jobs, its own arguments, and its folder."""

    number: int
    fixed: list[str]
    swept: list[str]
    folder: Path


RunJob = Callable[[Job], float]
"""Runs the job and returns its objective."""


@dataclass(frozen=True, kw_only=True)
class Multirun:
    """A sweep that is ready to run."""

    folder: Path
    fixed: list[str]
    """The arguments that all jobs have."""
    jobs: list[Job] | None
    """All jobs; None if the sweeper chooses them while it runs."""
    unswept: list[str]
    """The fixed arguments whose group is not swept: valid without the sweep."""
    overrides: list[str]
    """The overrides for Hydra."""
    folders: list[Path]
    """The folders of YAML files."""


def read_multirun(arguments: Sequence[str]) -> Multirun:
    """Return the sweep that the arguments describe, with ``--config-dir=FOLDER`` as one argument.

    Raises UserError for anything that Hydra rejects.
    """
    hydra_settings = [argument for argument in arguments if re.match(r"[+~]*hydra\b", argument)]
    if wrong := [argument for argument in hydra_settings if not NEEDS_MULTIRUN.match(argument)]:
        raise UserError(*(f"{argument}: has no effect here; remove it" for argument in wrong))
    settings = [argument for argument in arguments if argument not in hydra_settings]
    overrides, folders = hydra_overrides(settings, quoted_sweep)
    swept = {key_of(argument) for argument in overrides if _is_sweep(argument)}
    for argument in overrides:
        if (key := key_of(argument)) in REFUSED and (key in swept or key == "resume"):
            raise UserError(f"{argument}: {REFUSED[key]}")
    fixed = [argument for argument in settings if key_of(argument) not in {*swept, "name", "runs"}]
    if all(key_of(argument) != "export" for argument in settings):
        fixed.append("export=false")  # few people translate with every job of a sweep
    overrides = [*hydra_settings, *(_deferred(argument, swept) for argument in overrides)]
    with _hydra(overrides, folders) as hydra:
        master = hydra.compose_config("train", overrides, RunMode.MULTIRUN)
        folder = _sweep_folder(master, overrides)
        excluded = ["name", "runs", *(key_of(argument) for argument in fixed if not argument.startswith("-"))]
        overrides = [*_hydra_settings(master, overrides, folder, excluded, swept), *overrides]
        jobs = _known_jobs(hydra, master, overrides, excluded)
    named = [Job(number, fixed, job, folder / job_name(job)) for number, job in enumerate(jobs or [])]
    unswept = [argument for argument in fixed if not _is_inside(argument, swept)]
    return Multirun(
        folder=folder,
        fixed=fixed,
        jobs=None if jobs is None else named,
        unswept=unswept,
        overrides=overrides,
        folders=folders,
    )


def run_multirun(multirun: Multirun, run_job: RunJob) -> None:
    """Let Hydra call ``run_job`` for every combination of settings."""
    OmegaConf.register_new_resolver("nmt_job_name", _job_name, replace=True)
    with _hydra(multirun.overrides, multirun.folders) as hydra:
        task = partial(_task, run_job=run_job, fixed=multirun.fixed)
        hydra.multirun("train", task, multirun.overrides, with_log_configuration=False)


def job_name(overrides: Sequence[str]) -> str:
    """Return the folder of the job with these swept settings: ``attention=luong,seed=1``.

    Characters that some file system forbids become ``_``, and then a fingerprint keeps the names of two jobs different.
    """
    text = ",".join(sorted(override.lstrip("+~").removeprefix(INSIDE) for override in overrides)) or "run"
    safe = re.sub(r"[^\w.,=@+-]", "_", text.replace("'", "").replace('"', ""))[:LONGEST_NAME]
    safe = safe.encode("utf-8", "replace")[:LONGEST_BYTES].decode("utf-8", "ignore")
    return safe if safe == text else f"{safe}-{fingerprint(text.encode())[:8]}"


def _task(config: DictConfig, *, run_job: RunJob, fixed: list[str]) -> float:
    """Run the job that Hydra has composed. Hydra's launchers call this, also in other processes."""
    hydra = HydraConfig.get()
    folder = Path(hydra.sweep.dir) / hydra.sweep.subdir
    return run_job(Job(int(hydra.job.num), fixed, _swept_words(), folder))


def _job_name() -> str:
    return job_name(_swept_words())


def _swept_words() -> list[str]:
    """Return the settings of the current job that not all jobs have."""
    hydra = HydraConfig.get()
    excluded = hydra.job.config.override_dirname.exclude_keys
    return [str(argument) for argument in hydra.overrides.task if key_of(argument) not in excluded]


@contextmanager
def _hydra(overrides: list[str], folders: Sequence[Path]) -> Iterator[Any]:
    """Yield Hydra, ready to compose. Raises UserError for every error of the configuration."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), job_name="nmt-train", version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        try:
            yield hydra
        except ERRORS as error:
            raise UserError(explain(error, "train", overrides, folders)) from None


def _is_sweep(argument: str) -> bool:
    try:
        return OverridesParser.create().parse_override(argument).is_sweep_override()
    except HydraException:
        return False


def quoted_sweep(argument: str) -> str:
    """Quote the value for Hydra unless it lists several values; then quote the values that Hydra's grammar rejects."""
    if _is_sweep(argument):
        return argument
    key, _, value = argument.partition("=")
    choice = re.fullmatch(r"choice\((.*)\)", value, re.DOTALL)
    values = [in_grammar(element) for element in split_list(choice[1] if choice else value)]
    # Hydra drops the quotes inside choice(…), and then cannot read its values again.
    return f"{key}=choice({values[0]})" if choice and len(values) == 1 else f"{key}={','.join(values)}"


def _is_inside(argument: str, swept: set[str]) -> bool:
    """Return whether the key of the argument is in a group or block that is swept."""
    return any(key_of(argument).startswith(f"{group}.") for group in swept)


def _deferred(argument: str, swept: set[str]) -> str:
    """Return ``attention.score=dot`` as a choice of one value if ``attention`` is swept.

    Hydra applies plain overrides also to the default of a swept group, which may not have the key.
    """
    key, _, value = argument.partition("=")
    if _is_inside(argument, swept) and not _is_sweep(argument):
        return f"{key}=choice({value})"
    return argument


def _sweep_folder(master: DictConfig, overrides: Sequence[str]) -> Path:
    """Return ``hydra.sweep.dir`` if it is given, or else runs/NAME."""
    if any(key_of(argument) == "hydra.sweep.dir" for argument in overrides):
        return Path(master.hydra.sweep.dir)
    default = read_yaml(config_dir() / "train.yaml")["name"]
    typed = [argument.partition("=")[2] for argument in overrides if key_of(argument) == "name"]
    name = str(master.name) if typed or master.name != default else DEFAULT_NAME
    if typed and not isinstance(master.name, str):  # name=1e5, which Hydra reads as a number
        name = typed[-1]
    for problem in name_problems(name):
        raise UserError(problem)
    return Path(str(master.runs)) / name


def _hydra_settings(
    master: DictConfig, overrides: Sequence[str], folder: Path, excluded: Sequence[str], swept: set[str]
) -> list[str]:
    """Return the overrides of Hydra's own settings, except those that are given."""
    given = {key_of(argument) for argument in overrides}
    settings = {
        **HYDRA_DEFAULTS,
        "hydra.sweep.dir": in_quotes(str(folder)),
        "hydra.job.config.override_dirname.exclude_keys": f"[{','.join(map(in_quotes, excluded))}]",
    }
    if "direction" in master.hydra.sweeper and "hydra.sweeper.direction" not in given:  # Optuna's would be minimize
        if "training.monitor" in swept:
            raise UserError("training.monitor: jobs with different objectives cannot be compared; give one value")
        settings["hydra.sweeper.direction"] = "minimize" if master.training.monitor == "valid_loss" else "maximize"
    if "max_failure_rate" in master.hydra.sweeper:
        settings["hydra.sweeper.max_failure_rate"] = "1"  # Optuna's 0 would stop at the first failed job
    return [f"{key}={value}" for key, value in settings.items() if key not in given or key == "hydra.sweep.dir"]


def _known_jobs(
    hydra: Any, master: DictConfig, overrides: Sequence[str], excluded: Sequence[str]
) -> list[list[str]] | None:
    """Return the swept arguments of every job of Hydra's own sweeper, and None for another sweeper."""
    sweeper = master.hydra.sweeper
    if sweeper._target_.rpartition(".")[2] != "BasicSweeper":
        return None
    arguments = [f"{key}={value}" for key, value in (sweeper.params or {}).items()]
    arguments += [argument for argument in overrides if not re.match(r"[+~]*hydra\b", argument)]
    parsed = OverridesParser.create(config_loader=hydra.config_loader).parse_overrides(arguments)
    choices = {override.get_key_element(): _choices(override) for override in parsed}  # the last one counts
    return [[argument for argument in job if key_of(argument) not in excluded] for job in product(*choices.values())]


def _choices(override: Override) -> list[str]:
    """Return the override once for each value that it lists, as Hydra's own sweeper passes it to a job."""
    key = override.get_key_element()
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    if not override.is_discrete_sweep():
        raise UserError(f"{override.input_line}: Hydra's own sweeper needs a list of values; write {key}=1,2,3")
    return [f"{key}={value}" for value in override.sweep_string_iterator()]
