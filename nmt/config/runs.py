"""Training runs by their arguments: how a new one starts, and how an interrupted one continues."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config.compose import to_yaml, train_config
from nmt.config.init_from import TEXT_CHANGES, UNRELATED, flatten, read_yaml, trains_on_the_same_text
from nmt.config.overrides import config_dir, key_of
from nmt.data.sources import PreparedData
from nmt.errors import UserError, counted, print_message
from nmt.files.atomic import LOCK_FILE, lock_folder, make_folder, write_lines
from nmt.files.checksum import checksum
from nmt.files.reading import read_json, read_text
from nmt.files.source_code import changed_modules, code_of
from nmt.inference.run_files import (
    CHECKPOINTS,
    CODE_FILE,
    CONFIG_FILE,
    LAST_CHECKPOINT,
    METRICS_FILE,
    SUMMARY_FILE,
    has_checkpoint,
)
from nmt.settings.build import plain
from nmt.training.distributed import connected_processes, detect_launch, from_first, rank, require_device
from nmt.training.settings import Train, TrainingSettings

if TYPE_CHECKING:
    from nmt.training.run import TrainingResult

ARGUMENTS = "arguments.json"
LAUNCH_FILE = ".launch"  # names what started the processes of a run
# Settings that a run cannot change once it has started: text, model, and everything that the checkpoint restores.
FIXED = (
    *("data.", "tokenizer.", "embeddings.", "encoder.", "attention.", "decoder.", "batches.", "seed"),
    *("optimizer.", "schedule.", "training.patience", "training.monitor", "training.keep_best", "init_from"),
    *("training.ema_decay", "training.average_checkpoints", "training.validate_every", "evaluation."),
)
# Files of a run that has no checkpoint yet.
BEFORE_CHECKPOINT = {
    *("data", "tensorboard", CHECKPOINTS, CONFIG_FILE, ARGUMENTS, CODE_FILE, METRICS_FILE, LAUNCH_FILE, LOCK_FILE),
    "logger.json",
}
LIMITS = {"max_epochs": "epochs", "max_steps": "updates"}  # keys of training, and what summary.json calls them
TRUSTING = ("trust", "--config-dir", "hydra", "logger.")  # keys that decide whose code runs, and who gets the logs
INTERPOLATION = re.compile(r"""\$[\\'"\s]*\{""")  # Hydra removes backslashes: $\{oc.env:HOME\} too is replaced


def run_training(arguments: Sequence[str], pairs: Mapping[str, Any] | None = None) -> TrainingResult:
    """Train into a new folder, or resume a run, as the arguments say.

    ``pairs`` are the sentence pairs of each part where the arguments contain ``data=python``. A stopped run prints on
    stderr how to resume it. One that never started to train leaves no folder. Raises UserError for anything that the
    user can fix.
    """
    result = train_or_resume(arguments, pairs=pairs)
    if result.stop_signal is not None:
        _explain_resuming(result, arguments)
    return result


def train_or_resume(
    arguments: Sequence[str], folder: Path | None = None, pairs: Mapping[str, Any] | None = None
) -> TrainingResult:
    """Train into ``folder``, by default a new one, or resume a run: ``run_training`` without its message.

    Of several processes, each trains. Rank 0 decides about folder and settings, and writes all files.
    """
    with connected_processes():
        start = from_first(lambda: _start(arguments, folder, pairs))
        try:
            return _train_into(start, pairs)
        except BaseException:
            if (
                rank() == 0
                and not start.existed
                and not any((start.folder / name).exists() for name in (CHECKPOINTS, METRICS_FILE))
            ):
                shutil.rmtree(start.folder, ignore_errors=True)  # training never started
            raise


@dataclass(frozen=True, kw_only=True)
class Start:
    """Folder, configuration and arguments of a run. ``existed``: the folder is older, and holds no checkpoint."""

    folder: Path
    config: Train
    arguments: list[str]
    existed: bool = False


def _start(arguments: Sequence[str], folder: Path | None, pairs: Mapping[str, Any] | None) -> Start:
    """Check the arguments, create the folder of a new run or find that of a run to resume, and print it."""
    config = train_config(arguments)
    launch = detect_launch()
    if launch is not None and not config.resume and folder is None and (launch.restarts or launch.is_named):
        run = (Path(config.runs), config.name)
        restarted = launch.restarts > 0
        arguments = restarted_arguments(*run, launch.identifier, arguments, restarted=restarted)
        config = train_config(arguments)
    runs = Path(config.runs)
    wanted = runs / config.name
    existed = False
    why = ""
    if config.resume:
        if pairs is not None:
            raise UserError("resume=true: a run continues with its stored text; remove train=, valid= and test=")
        if folder is None and starts_run(wanted, arguments):
            arguments = [argument for argument in arguments if key_of(argument) != "resume"]
            config = train_config(arguments)
            folder = wanted
            existed = folder.exists()
            why = ", from its beginning, because resume=true finds no checkpoint"
        else:
            folder = run_to_resume(wanted, arguments, config.training)
            given = arguments
            arguments = resumed_arguments(folder, given)
            config = train_config(arguments, resumed=folder)
            refuse_changed_settings(config, folder, arguments)
            _warn_of_edits(config, folder, given)
            why = ", resumed"
    require_device(config, launch)
    unfinished = None
    if folder is not None:
        make_folder(folder)
    else:
        unfinished = unfinished_run(runs, config.name)
        folder = new_folder(runs, config.name)
        why = f", because {wanted} exists" if folder != wanted else ""
        if launch is not None:
            write_lines(folder / LAUNCH_FILE, [launch.identifier])
    print_message(f"run: {folder}{why}")
    if unfinished is not None:
        command = resume_command(unfinished, arguments)
        print_message(f"{unfinished} is unfinished; to continue it instead, stop this run and use: {command}")
    if config.resume and (changed := changed_code(folder, config)):
        print_message(
            f"warning: {folder}: code of {changed} has changed since this run was started; "
            "the rest of its training uses the new code"
        )
    is_prepared = isinstance(config.data, PreparedData)  # which a run does not copy, and checks itself
    if config.resume and not is_prepared and (files := " and ".join(_changed_files(config, folder))):
        print_message(f"warning: {folder}: {files} changed since this run was started; it keeps its copy of the text")
    if not config.resume and trains_on_the_same_text(config):
        print_message(f"text: that of init_from={config.init_from}; data= chooses other text")
    return Start(folder=folder, config=config, arguments=list(arguments), existed=existed)


def _train_into(start: Start, pairs: Mapping[str, Any] | None) -> TrainingResult:
    """Train, and keep the arguments in the folder, so that its name is enough to resume the run."""
    from nmt.training.run import train_into

    # Now, because files may change while the text is prepared.
    code = {**code_of(plain(start.config)), "files": given_files(start.config)} if rank() == 0 else None

    def store_config(final: Mapping[str, Any]) -> None:
        (start.folder / SUMMARY_FILE).unlink(missing_ok=True)  # of a finished run that trains further
        write_lines(start.folder / CONFIG_FILE, to_yaml(final).splitlines(), durable=True)
        write_lines(start.folder / ARGUMENTS, [json.dumps(start.arguments)], durable=True)
        if not start.config.resume:  # a resumed run keeps the record of its start
            write_lines(start.folder / CODE_FILE, [json.dumps(code)], durable=True)

    return train_into(start.folder, start.config, pairs=pairs, store_config=store_config)


def _explain_resuming(result: TrainingResult, arguments: Sequence[str]) -> None:
    kept = "the best model so far" if result.validated else "a model that was not validated yet"
    print_message(f"stopped; {kept} is in {result.folder}")
    print_message(f"continue with: {resume_command(result.folder, arguments)}")


def resume_command(folder: Path, arguments: Sequence[str]) -> str:
    """Return the command that continues the run in ``folder``, which ``arguments`` have started."""
    return f"nmt-train {shlex.join([*_naming(folder), 'resume=true', *trust_arguments(arguments)])}"


def _naming(folder: Path) -> list[str]:
    """Return the arguments that name the folder of a run."""
    return [*([] if str(folder.parent) == "runs" else [f"runs={folder.parent}"]), f"name={folder.name}"]


def new_folder(runs: Path, name: str) -> Path:
    """Create and return ``runs/name``, or ``name-2``, … where it exists, even if another run is starting right now."""
    make_folder(runs)
    folder = runs / name
    number = 1
    while True:
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1
            folder = runs / f"{name}-{number}"


def restarted_arguments(
    runs: Path, name: str, identifier: str, arguments: Sequence[str], *, restarted: bool = False
) -> list[str]:
    """Return the arguments for processes that torchrun or Slurm has restarted.

    They resume the newest unfinished run of this name that the same launcher has started. One without a checkpoint is
    deleted and starts again. If the launcher has ``restarted`` processes whose run looks finished, one of them was
    killed during the export or while it ended: they write the results of this run again. Runs that other processes are
    training are left alone.
    """
    folders = [folder for folder in _folders_of(runs, name) if _launched_by(folder) == identifier]
    unfinished = [folder for folder in folders if not (folder / SUMMARY_FILE).is_file()]
    if not unfinished and not (restarted and folders):
        return list(arguments)
    for folder in sorted(unfinished or folders, key=lambda folder: -(folder / LAUNCH_FILE).stat().st_mtime):
        with suppress(UserError), lock_folder(folder):  # another step of the same launcher may be training into it
            (folder / SUMMARY_FILE).unlink(missing_ok=True)
            if has_checkpoint(folder):
                return [*arguments, f"name={folder.name}", "resume=true"]
            shutil.rmtree(folder)
            break
    return list(arguments)


def unfinished_run(runs: Path, name: str) -> Path | None:
    """Return the newest run of this name that was stopped or killed and can be resumed, or None."""
    folders = [
        folder for folder in _folders_of(runs, name) if has_checkpoint(folder) and not (folder / SUMMARY_FILE).is_file()
    ]
    for folder in sorted(folders, key=lambda folder: -(folder / CHECKPOINTS / LAST_CHECKPOINT).stat().st_mtime):
        with suppress(UserError), lock_folder(folder):  # others may be training into it
            return folder
    return None


def _folders_of(runs: Path, name: str) -> list[Path]:
    """Return the folders ``runs/name``, ``runs/name-2``, … that ``new_folder`` has created."""
    folders = runs.glob(f"{glob.escape(name)}*")
    return [folder for folder in folders if re.fullmatch(r"(-\d+)?", folder.name.removeprefix(name))]


def starts_run(folder: Path, arguments: Sequence[str]) -> bool:
    """Return whether ``resume=true`` has nothing to resume in ``folder``, and ``arguments`` describe a run to start.

    A restart script always repeats the whole command. If the arguments only name a run, or only set how long it trains,
    the name is probably mistyped.
    """
    described = any(_describes_run(key_of(argument)) for argument in arguments)
    if not folder.exists():
        return described
    if not described or has_checkpoint(folder) or (folder / SUMMARY_FILE).is_file():
        return False
    try:
        return {entry.name for entry in folder.iterdir()} <= BEFORE_CHECKPOINT
    except OSError:
        return False


def _describes_run(key: str) -> bool:
    groups = {prefix.rstrip(".") for prefix in FIXED if prefix.endswith(".")}
    return key.startswith(FIXED) or key.partition("@")[0] in groups | {"experiment", "guide", "adapt"}


def _launched_by(folder: Path) -> str | None:
    try:
        return read_text(folder / LAUNCH_FILE).strip()
    except (OSError, ValueError):
        return None


def run_to_resume(folder: Path, arguments: Sequence[str], training: TrainingSettings) -> Path:
    """Return ``folder``. Raises UserError where it is not the folder of an interrupted run.

    A finished run can be resumed too if ``arguments`` raise the limits in ``training`` that ended it.
    """
    if not folder.is_dir():
        raise UserError(
            f"resume=true: {folder} does not exist; set name=RUN to the run to resume, "
            "or add the settings of a new run, such as data="
        )
    if (folder / SUMMARY_FILE).is_file():
        made, reached = _finished_length(folder)
        keys = {key_of(argument).removeprefix("training.") for argument in arguments}
        limits = {key: getattr(training, key) for key in made.keys() & keys}
        passed = {key: made[key] for key, limit in limits.items() if limit is not None and limit <= made[key]}
        if not reached or not reached.keys() <= limits.keys() or passed:
            raise UserError(*_explain_finished(folder, reached | passed, trust_arguments(arguments)))
    if not has_checkpoint(folder):
        raise UserError(
            f"resume=true: {folder} stopped before its first checkpoint; delete this folder and start again"
        )
    return folder


def _finished_length(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the epochs and updates of a finished run by their limits in ``training``, and those that ended it."""
    try:
        summary = read_json(folder / SUMMARY_FILE)
        training = read_yaml(folder / CONFIG_FILE)["training"]
        made = {key: count for key, name in LIMITS.items() if isinstance(count := summary.get(name), int)}
        return made, {key: count for key, count in made.items() if count == training.get(key)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, UserError):
        return {}, {}


def _explain_finished(folder: Path, reached: Mapping[str, int], trust: Sequence[str]) -> list[str]:
    """Return the error text for resuming a finished run, with the commands that train its model further."""
    naming = _naming(folder)
    new = f"a new run from its model: nmt-train {shlex.join([f'init_from={folder}', *naming, *trust])}"
    if not reached:
        return [f"resume=true: {folder} has finished; for {new}"]
    twice = [f"training.{key}={2 * made}" for key, made in reached.items()]
    made = " and ".join(counted(made, LIMITS[key].removesuffix("s")) for key, made in reached.items())
    more = shlex.join([*naming, "resume=true", *twice, *trust])
    return [
        f"resume=true: {folder} has finished after {made}; for {next(iter(reached.values()))} more: nmt-train {more}",
        f"for {new}",
    ]


def resumed_arguments(folder: Path, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with which the run in ``folder`` started, followed by ``arguments``, which override them.

    Raises UserError where a stored argument could make the run execute other code, or store an environment variable or
    a file in the folder: the folder may be a stranger's.
    """
    stored = join_options(_read_arguments(folder / ARGUMENTS))
    arguments = join_options(arguments)
    overridden = {key_of(argument) for argument in arguments}
    kept = [argument for argument in stored if key_of(argument) not in overridden]
    if trusting := trust_arguments(kept):
        raise UserError(
            f"resume=true: {folder} was started with '{' '.join(trusting)}'; repeat it if you trust what it names"
        )
    return [*kept, *arguments]


def _read_arguments(file: Path) -> list[str]:
    try:
        arguments = read_json(file)
    except (OSError, ValueError):
        arguments = None
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise UserError(f"resume=true: {file}: missing or damaged; start a new run")
    return arguments


def refuse_changed_settings(config: Train, folder: Path, arguments: Sequence[str]) -> None:
    """Raise UserError where ``config`` changes a setting that the run in ``folder`` cannot change any more.

    ``arguments`` are the overrides in ``config``. A run of an earlier version may lack keys that they do not set.
    """
    given = {key_of(argument) for argument in arguments}
    started = read_yaml(folder / CONFIG_FILE)
    settings = plain(config)
    for block in ("guide", "adapt"):
        if _without_model(settings[block]) != _without_model(started.get(block)):
            raise UserError(
                f"resume=true: {block}: not the same as when {folder} was started; remove it or start a new run"
            )
    stored = flatten(started)
    for key, value in flatten(settings).items():
        if key.startswith((*TEXT_CHANGES, "tokenizer.", "data.folder")) and isinstance(config.data, PreparedData):
            continue  # the prepared folder decides. It may have moved: the checkpoint has the checksum of its text
        if not key.startswith(FIXED) or (key == "init_from" and config.adapt is not None):
            continue  # the checkpoint of an adapter has the fingerprint of its model, which may have moved
        if key not in stored:
            group = key.partition(".")[0]
            if value is None or (key not in given and group in started):
                continue
            raise UserError(
                f"resume=true: {folder}/{CONFIG_FILE} has no {key if group in started else group}: damaged or of "
                "another version; start a new run"
            )
        if value != stored[key]:
            now, before = ("null" if setting is None else setting for setting in (value, stored[key]))
            raise UserError(
                f"resume=true: {key}={now}: {folder} was started with {key}={before}; remove it or start a new run"
            )


def _without_model(block: Any) -> Any:
    """Return a block without its model, which may have moved: the checkpoint has its fingerprint."""
    return {**block, "model": None} if isinstance(block, dict) else block


def _warn_of_edits(config: Train, folder: Path, given: Sequence[str]) -> None:
    """Warn of each setting of the run's config.yaml that someone has edited: a run continues with its arguments."""
    groups = {key_of(argument).partition(".")[0] for argument in given}
    if "experiment" in groups:  # it may change any setting
        return
    stored = flatten(read_yaml(folder / CONFIG_FILE))
    for key, value in flatten(plain(config)).items():
        edited = stored.get(key, value)
        if edited != value and not key.startswith(FIXED) and key.partition(".")[0] not in groups.union(UNRELATED):
            print_message(f"warning: {folder}/{CONFIG_FILE}: {key}={edited} has no effect; give it as an argument")


def refuse_other_settings(config: Train, folder: Path) -> None:
    """Raise UserError where the run in ``folder`` has other settings than ``config``, or another version's keys."""
    stored = flatten(read_yaml(folder / CONFIG_FILE))
    wanted = flatten(plain(config))
    ignored = (*TEXT_CHANGES, "tokenizer.") if isinstance(config.data, PreparedData) else ()
    for key in sorted({*stored, *wanted}):
        if (
            key.partition(".")[0] in UNRELATED
            or key.startswith(ignored)
            or stored.get(key) == wanted.get(key)  # null is off, as in a version without the key
        ):
            continue
        before, now = (f"{key}={tree[key]}" if key in tree else f"no {key}" for tree in (stored, wanted))
        raise UserError(f"{folder}: was trained with {before}, not {now}; choose another name=, or delete that folder")


def changed_code(folder: Path, config: Train) -> str:
    """Return the modules whose code has changed since the run in ``folder`` was started, as text; empty if none has."""
    try:
        stored = read_json(folder / CODE_FILE)
    except (OSError, ValueError):
        return ""
    return " and ".join(changed_modules(stored, plain(config)))


def given_files(config: Train) -> dict[str, int | str]:
    """Return the checksum of each file that the settings name: text, links, tokenizers, and models of other runs.

    Prepared text has one for all its files.
    """
    data = plain(config.data)
    names = {value for value in _texts([data, plain(config.tokenizer)]) if value}
    folder = data.get("folder")
    checksums: dict[str, int | str] = {}
    for name in sorted(names):
        file = Path(folder if isinstance(folder, str) else "", name)
        if os.path.isfile(file):
            status = os.stat(file)
            checksums[name] = _checksum(str(file), status.st_size, status.st_mtime_ns)
    if isinstance(config.data, PreparedData):
        from nmt.text.prepared_settings import text_checksum

        if (text := text_checksum(Path(config.data.folder))) is not None:
            checksums[f"data.folder={config.data.folder}"] = text
    models = (config.init_from, None if config.guide is None else config.guide.get("model"))
    for model in filter(None, models):
        from nmt.inference.adapter_file import model_fingerprint  # imports torch

        checksums[model] = model_fingerprint(Path(model))
    return checksums


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a tree of settings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


@cache
def _checksum(file: str, size: int, modified_ns: int) -> int:
    """Return the checksum of a file, which the jobs of a sweep share."""
    return checksum(Path(file))


def refuse_changed_sources(config: Train, folder: Path) -> None:
    """Raise UserError where code or a file of the run in ``folder`` has changed since it was started.

    A run without a checkpoint starts again.
    """
    if not (folder / SUMMARY_FILE).is_file() and not has_checkpoint(folder):
        return
    changed = [f"code of {code} has"] if (code := changed_code(folder, config)) else []
    if changed := [*changed, *_changed_files(config, folder)]:
        raise UserError(
            f"{folder}: {' and '.join(changed)} changed since it was trained; choose another name=, "
            "or delete that folder"
        )


def _changed_files(config: Train, folder: Path) -> list[str]:
    """Return the files and models that the settings name and that changed since the run in ``folder`` was started."""
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):  # of an earlier version
        stored = read_json(folder / CODE_FILE)["files"]
        return [name for name, value in given_files(config).items() if stored.get(name, value) != value]
    return []


def trust_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that decide whose code runs, what is read, and where logs go.

    Only the user may give them, each time.
    """
    return [
        argument for argument in join_options(arguments) if key_of(argument).startswith(TRUSTING) or _reads(argument)
    ]


def _reads(argument: str) -> bool:
    """Return whether Hydra may replace the value by an environment variable or by a YAML file outside conf/."""
    value = argument.partition("=")[2]
    group = config_dir() / key_of(argument).partition("@")[0]
    return bool(INTERPOLATION.search(argument)) or (".." in value and os.path.isdir(group))


def join_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``--config-dir FOLDER`` joined into one, ``--config-dir=FOLDER``."""
    remaining = iter(arguments)
    return [f"{argument}={next(remaining, '')}" if argument == "--config-dir" else argument for argument in remaining]
