"""Run many training jobs with Hydra's multirun: its sweeper chooses their settings, and its launcher starts them.

Hydra gets the overrides that list several values only. All other settings are those of every job.
"""

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
from omegaconf.errors import OmegaConfBaseException

from nmt.config.compose import composed_tree, in_quotes, join_options, one_line, read_overrides, search_path
from nmt.config.overrides import INSIDE, choice_inside, config_dir, key_of, name_problems, require_overrides
from nmt.errors import UserError
from nmt.files.checksum import fingerprint

DEFAULT_NAME = "sweep"
LONGEST_NAME = 120  # characters in the name of a job's folder
LONGEST_BYTES = 240  # file systems allow 255; a fingerprint and .log follow
SETTINGS = re.compile(r"[+~]*hydra[./](launcher|sweeper|sweep|callbacks|job\.env_set)\b")
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
    overrides: list[str]
    """The overrides for Hydra."""


def read_multirun(arguments: Sequence[str]) -> Multirun:
    """Return the sweep that the arguments describe. Raises UserError for anything that Hydra rejects."""
    arguments = join_options(arguments)
    for_hydra = [argument for argument in arguments if SETTINGS.match(argument)]
    others = [argument for argument in arguments if not SETTINGS.match(argument)]
    require_overrides([argument for argument in others if not argument.startswith("--config-dir=")])
    swept = [argument for argument in others if _is_sweep(argument)]
    not_fixed = {"name", "runs", *map(key_of, swept)}
    fixed = [argument for argument in others if key_of(argument) not in not_fixed]
    for argument in others:
        if key_of(argument) == "resume" or (argument in swept and key_of(argument) in ("name", "runs")):
            raise UserError(
                f"{argument}: not possible in a sweep, which continues when its command is repeated; remove it"
            )
    if all(key_of(argument) != "export" for argument in others):
        fixed.append("export=false")  # few people translate with every job of a sweep
    settings = composed_tree("train", [argument for argument in others if argument not in swept]).config
    named = any(key_of(argument) == "name" for argument in others) or settings["name"] != "demo"
    name = str(settings["name"]) if named else DEFAULT_NAME
    if wrong := [*name_problems(name)]:
        raise UserError(*wrong)
    options = [argument for argument in others if argument.startswith("--config-dir=")]
    overrides = [*for_hydra, *map(_for_hydra, swept), *search_path(read_overrides(options).folders)]
    given = [override.partition("=")[2] for override in for_hydra if key_of(override) == "hydra.sweep.dir"]
    folder = Path(given[-1]) if given else Path(str(settings["runs"])) / name
    with _hydra() as hydra:
        master = hydra.compose_config("train", overrides, RunMode.MULTIRUN)
        overrides += _hydra_settings(master, overrides, folder, str(settings["training"]["monitor"]))
        known = _known_jobs(hydra, master, overrides)
    jobs = [Job(number, fixed, job, folder / job_name(job)) for number, job in enumerate(known or [])]
    return Multirun(folder=folder, fixed=fixed, jobs=None if known is None else jobs, overrides=overrides)


def run_multirun(multirun: Multirun, run_job: RunJob) -> None:
    """Let Hydra call ``run_job`` for every combination of settings."""
    OmegaConf.register_new_resolver("nmt_job_name", lambda: job_name(_swept_words()), replace=True)
    with _hydra() as hydra:
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


def _swept_words() -> list[str]:
    """Return the settings of the current job that not all jobs have."""
    return [str(argument).lstrip("+") for argument in HydraConfig.get().overrides.task]


@contextmanager
def _hydra() -> Iterator[Any]:
    """Yield Hydra, ready to compose. Raises UserError for every error of the configuration."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), job_name="nmt-train", version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        try:
            yield hydra
        except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
            raise UserError(one_line(error)) from None


def _is_sweep(argument: str) -> bool:
    try:
        return OverridesParser.create().parse_override(argument).is_sweep_override()
    except HydraException:
        return False


def _for_hydra(argument: str) -> str:
    """Return an override that Hydra accepts also where the default of a swept group lacks its key."""
    choice = choice_inside(argument)
    is_group = choice != argument or "@" in argument or (config_dir() / key_of(argument)).is_dir()
    return choice if is_group or argument.startswith(("+", "~")) else f"++{argument}"


def _hydra_settings(master: DictConfig, overrides: Sequence[str], folder: Path, monitor: str) -> list[str]:
    """Return the overrides of Hydra's own settings, except those that are given."""
    given = {key_of(argument) for argument in overrides}
    settings = {**HYDRA_DEFAULTS, "hydra.sweep.dir": in_quotes(str(folder))}
    if "direction" in master.hydra.sweeper:  # Optuna's would be minimize
        if "training.monitor" in given:
            raise UserError("training.monitor: jobs with different objectives cannot be compared; give one value")
        settings["hydra.sweeper.direction"] = "minimize" if monitor == "valid_loss" else "maximize"
    if "max_failure_rate" in master.hydra.sweeper:
        settings["hydra.sweeper.max_failure_rate"] = "1"  # Optuna's 0 would stop at the first failed job
    return [f"{key}={value}" for key, value in settings.items() if key not in given]


def _known_jobs(hydra: Any, master: DictConfig, overrides: Sequence[str]) -> list[list[str]] | None:
    """Return the swept arguments of every job of Hydra's own sweeper, and None for another sweeper."""
    sweeper = master.hydra.sweeper
    if sweeper._target_.rpartition(".")[2] != "BasicSweeper":
        return None
    arguments = [f"{key}={value}" for key, value in (sweeper.params or {}).items()]
    arguments += [argument for argument in overrides if not re.match(r"[+~]*hydra\b", argument)]
    parsed = OverridesParser.create(config_loader=hydra.config_loader).parse_overrides(arguments)
    choices = {override.get_key_element(): _choices(override) for override in parsed}  # the last one counts
    return [list(job) for job in product(*choices.values())]


def _choices(override: Override) -> list[str]:
    """Return the override once for each value that it lists, as Hydra's own sweeper passes it to a job."""
    key = override.get_key_element().lstrip("+")
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    if not override.is_discrete_sweep():
        raise UserError(f"{key}: Hydra's own sweeper needs a list of values; write {key}=1,2,3")
    return [f"{key}={value}" for value in override.sweep_string_iterator()]
