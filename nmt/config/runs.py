"""Training runs by their arguments: how a new one starts, and how an interrupted one continues."""

from __future__ import annotations

import glob
import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config.advice import advice
from nmt.config.compose import TEXT_CHANGES, composed_tree, join_options, to_yaml, train_config
from nmt.config.overrides import UNRELATED, flatten, group_of, key_of, read_yaml
from nmt.data.sources import PreparedData
from nmt.errors import UserError, print_message
from nmt.files.atomic import make_folder, write_bytes, write_lines
from nmt.files.checksum import changed_names, code_files, code_of, stored_code
from nmt.files.reading import read_json
from nmt.inference.run_files import CODE, CODE_FILE, CONFIG_FILE, SUMMARY_FILE, has_checkpoint
from nmt.settings.build import plain
from nmt.training.distributed import Launch, connected_processes, detect_launch, from_first, rank, require_device
from nmt.training.settings import Train

if TYPE_CHECKING:
    from nmt.training.run import TrainingResult

START_FILE = "start.json"  # the arguments that started a run, and what started its processes
# Settings that a run cannot change once it has started: text, model, and everything that the checkpoint restores.
FIXED = (
    *("data.", "tokenizer.", "embeddings.", "encoder.", "attention.", "decoder.", "batches.", "seed", "guide", "adapt"),
    *("optimizer.", "schedule.", "training.patience", "training.monitor", "init_from"),
    *("training.ema_decay", "training.validate_every", "training.decode_sentences", "evaluation."),
)
LIMITS = {"max_epochs": "epochs", "max_steps": "updates"}  # keys of training, and what summary.json calls them


def run_training(arguments: Sequence[str], pairs: Mapping[str, Any] | None = None) -> TrainingResult:
    """Train into a new folder, or resume a run, as the arguments say.

    ``pairs`` are the sentence pairs of each part where the arguments contain ``data=python``. A stopped run prints on
    stderr how to resume it. One that fails before its first checkpoint leaves no folder. Raises UserError for anything
    that the user can fix.
    """
    result = train_or_resume(arguments, pairs=pairs)
    if result.stop_signal is not None:
        print_message(f"stopped; the best model so far is in {result.folder}")
        runs = [] if str(result.folder.parent) == "runs" else [f"runs={result.folder.parent}"]
        anew = [
            word for word in join_options(arguments) if key_of(word).startswith(("trust", "logger", "--config-dir"))
        ]
        words = [*runs, f"name={result.folder.name}", "resume=true", *anew]
        print_message(f"continue with: nmt-train {shlex.join(words)}")
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
            return _train_into(start, arguments, pairs)
        except BaseException:
            if rank() == 0 and start.is_new and not has_checkpoint(start.folder):
                shutil.rmtree(start.folder, ignore_errors=True)
            raise


@dataclass(frozen=True, kw_only=True)
class Start:
    """Folder and configuration of a run. ``is_new``: the folder was created for it."""

    folder: Path
    config: Train
    is_new: bool = True


def _start(arguments: Sequence[str], folder: Path | None, pairs: Mapping[str, Any] | None) -> Start:
    """Check the arguments, create the folder of a new run or find that of a run to resume, and print it."""
    settings = composed_tree("train", arguments).config
    launch = detect_launch()
    wanted = folder or Path(str(settings["runs"])) / str(settings["name"])
    if launch is not None and launch.restarts and (earlier := launched_run(wanted, launch)):
        if not has_checkpoint(earlier):
            return new_run(earlier, arguments, launch, any_name=False)
        (earlier / SUMMARY_FILE).unlink(missing_ok=True)  # a process was killed while it wrote the results
        return resumed_run(earlier, [*arguments, "resume=true"], launch)
    if settings["resume"] is not True:
        return new_run(wanted, arguments, launch, any_name=folder is None)
    if pairs is not None:
        raise UserError("resume=true: a run continues with its stored text; remove train=, valid= and test=")
    if has_checkpoint(wanted):
        return resumed_run(wanted, arguments, launch)
    # The name may be mistyped.
    only_named = {*map(group_of, join_options(arguments))} <= {*UNRELATED, "training", "--config-dir"}
    if only_named or (wanted.exists() and not (wanted / START_FILE).is_file()):
        problem = "has no checkpoint" if wanted.exists() else "does not exist"
        raise UserError(f"resume=true: {wanted} {problem}; set name=RUN to the run to resume, or start another run")
    print_message(f"{wanted} has no checkpoint, so the run starts from its beginning")
    return new_run(wanted, [word for word in arguments if key_of(word) != "resume"], launch, any_name=False)


def new_run(folder: Path, arguments: Sequence[str], launch: Launch | None, *, any_name: bool) -> Start:
    """Return a run that starts in ``folder``, or, with ``any_name``, in a new folder of a similar name."""
    config = train_config(arguments)
    require_device(config, launch)
    wanted, is_new = folder, any_name or not folder.exists()
    if any_name:
        folder = new_folder(folder.parent, folder.name)
    make_folder(folder)
    record = {"arguments": list(arguments), "launch": launch and launch.identifier}
    write_lines(folder / START_FILE, [json.dumps(record)])
    print_message(f"run: {folder}" + (f", because {wanted} exists" if folder != wanted else ""))
    return Start(folder=folder, config=config, is_new=is_new)


def resumed_run(folder: Path, arguments: Sequence[str], launch: Launch | None) -> Start:
    """Return the interrupted run in ``folder``, with its stored settings and the ``arguments`` that override them.

    A finished run continues if the arguments raise the limits that ended it. Raises UserError for a run that cannot be
    resumed.
    """
    config = train_config(arguments, resumed=folder)
    require_device(config, launch)
    stored = read_yaml(folder / CONFIG_FILE)
    if (folder / SUMMARY_FILE).is_file():
        _require_more(folder, config, stored)
    if changes := changed_settings(config, stored):
        raise UserError(*(f"resume=true: {change} in {folder}; remove it or start a new run" for change in changes))
    if stored.get("logger") and config.logger is None and all(key_of(word) != "logger" for word in arguments):
        raise UserError(f"resume=true: {folder} was started with a logger; repeat logger=, or give logger=null")
    print_message(f"run: {folder}, resumed")
    if changed := changed_since_start(folder, code_of(plain(config))):
        print_message(
            f"warning: {folder}: {changed} changed since it was started; the rest of its training uses the new code"
        )
    return Start(folder=folder, config=config, is_new=False)


def _require_more(folder: Path, config: Train, stored: Mapping[str, Any]) -> None:
    """Raise UserError unless ``config`` raises the limits that have ended the finished run in ``folder``."""
    summary = read_json(folder / SUMMARY_FILE)
    made = {key: summary[name] for key, name in LIMITS.items() if summary[name] == stored["training"][key]}
    limits = {key: getattr(config.training, key) or inf for key in made}
    if not made or any(limits[key] <= count for key, count in made.items()):
        raised = " ".join(f"training.{key}={2 * count}" for key, count in made.items())
        longer = f"set {raised} to train further, or " if made else ""
        raise UserError(f"resume=true: {folder} has finished; {longer}start a new run with init_from={folder}")


def changed_settings(
    config: Train, stored: Mapping[str, Any], *, fixed: Sequence[str] = FIXED, resumes: bool = True
) -> list[str]:
    """Return one text for each key that begins with one of ``fixed``, and whose value is not the stored one.

    A folder of prepared text may have moved. So may the base of an adapter if the run ``resumes``: the checkpoint
    has its fingerprint.
    """
    ignored = ["init_from"] if resumes and config.adapt is not None else []
    if isinstance(config.data, PreparedData):
        ignored += [*TEXT_CHANGES, "tokenizer.", "data.folder"]
    now, before = flatten(plain(config)), flatten(stored)
    keys = [key for key in {**before, **now} if key.startswith(tuple(fixed)) and not key.startswith(tuple(ignored))]
    return [
        f"{key}={now.get(key)}: differs from {key}={before.get(key)}" for key in keys if now.get(key) != before.get(key)
    ]


def origin(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return ``code_of`` the settings, and ``start_model`` of them."""
    return code_of(settings) | start_model(settings)


def start_model(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the fingerprint of the model ``init_from`` by this key, or nothing without one."""
    if settings["init_from"] is None:
        return {}
    from nmt.inference.model_folder import model_fingerprint  # imports torch

    return {"init_from": model_fingerprint(Path(settings["init_from"]))}


def changed_since_start(folder: Path, now: Mapping[str, str]) -> str:
    """Return the names of ``now`` that have changed since the run in ``folder`` was started, as text."""
    return " and ".join(changed_names(stored_code(folder / CODE_FILE), now))


def _train_into(start: Start, arguments: Sequence[str], pairs: Mapping[str, Any] | None) -> TrainingResult:
    """Train, and store the settings once training starts, so that the folder's name is enough to resume the run."""
    from nmt.training.run import train_into

    settings = plain(start.config)
    code, files = (origin(settings), code_files(settings)) if rank() == 0 else ({}, {})  # they may change from now on

    def store_config(final: Mapping[str, Any]) -> None:
        (start.folder / SUMMARY_FILE).unlink(missing_ok=True)  # of a finished run that trains further
        write_lines(start.folder / CONFIG_FILE, to_yaml(final).splitlines(), durable=True)
        if not start.config.resume:  # a resumed run keeps the record of its start
            write_lines(start.folder / CODE_FILE, [json.dumps(code)], durable=True)
            for place, content in files.items():
                make_folder((start.folder / CODE / place).parent)
                write_bytes(start.folder / CODE / place, content)

    advise = partial(advice, start.config.data, arguments)
    return train_into(start.folder, start.config, pairs=pairs, store_config=store_config, advise=advise)


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


def launched_run(wanted: Path, launch: Launch) -> Path | None:
    """Return the newest folder ``wanted``, ``wanted-2``, … in which the same launcher has started a run, or None."""
    found: list[tuple[float, Path]] = []
    for file in wanted.parent.glob(f"{glob.escape(wanted.name)}*/{START_FILE}"):
        if re.fullmatch(r"(-\d+)?", file.parent.name.removeprefix(wanted.name)):
            try:
                if read_json(file)["launch"] == launch.identifier:
                    found.append((file.stat().st_mtime, file.parent))
            except (OSError, ValueError, LookupError, TypeError):
                continue  # damaged: not of this launch
    return max(found, default=(0.0, None))[1]
