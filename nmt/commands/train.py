"""nmt-train: from text to a trained model, its translations, scores and alignment pictures."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.commands.runs import (
    ARGUMENTS,
    LAUNCH_FILE,
    changed_code,
    given_files,
    new_folder,
    refuse_changed_settings,
    restarted_arguments,
    resumed_arguments,
    run_to_resume,
    starts_run,
    trust_arguments,
    unfinished_run,
)
from nmt.commands.shell import run
from nmt.config import to_yaml, train_config
from nmt.config.help import checked_settings, settings_help, without_cfg
from nmt.config.init_from import trains_on_the_same_text
from nmt.config.overrides import key_of
from nmt.errors import Interrupted, UserError, counted, print_message
from nmt.files.atomic import make_folder, write_lines
from nmt.files.source_code import code_of
from nmt.inference import run_files
from nmt.settings.build import plain
from nmt.system.machine import peak_memory_mb
from nmt.training.distributed import (
    connected_processes,
    detect_launch,
    from_first,
    is_first,
    rank,
    require_device,
)
from nmt.training.settings import Train

if TYPE_CHECKING:
    from nmt.training.run import TrainingResult

HELP = """nmt-train: train a translation model. Without arguments: the default run, into runs/demo.

  nmt-train attention=luong name=luong                  another attention (none bahdanau luong memory covariance …)
  nmt-train attention=memory attention.slots=64         its settings
  nmt-train data=text data.train.src=a.en data.train.tgt=a.de data.valid.src=b.en data.valid.tgt=b.de name=mine
  nmt-train +experiment=multi30k
  nmt-train -m attention=luong,memory seed=1,2,3        every combination, then a table with mean and deviation
  nmt-train optimizer=adamw optimizer.lr=0.001 schedule=plateau
  nmt-train name=mine resume=true                       continue an interrupted run with its settings
  nmt-train name=mine resume=true training.max_epochs=8 continue a finished run
  nmt-train init_from=runs/mine optimizer.lr=0.0005     a new run from its model, on its text unless data= is given
  nmt-train init_from=runs/mine adapt=lora name=b       train a small adapter of its model: see docs/adapters.md
  nmt-train --config-dir my_conf attention=mine 'trust=[my_package]'
  nmt-train --cfg job …                                 print the whole configuration and stop

Every key of the configuration can be set as key=value. Mistakes are reported before any work starts.
-m runs Hydra's multirun, with its settings hydra/launcher, hydra/sweeper, hydra.sweep.dir and hydra.sweep.subdir."""

MULTIRUN = frozenset({"-m", "--multirun"})


def main() -> None:
    run(train)


def train(arguments: list[str]) -> None:
    """Run nmt-train with these arguments. Raises UserError for errors the user can fix."""
    if "--help" in arguments or "-h" in arguments:
        print(HELP)
        print(
            settings_help([argument for argument in arguments if argument not in ("--help", "-h", *MULTIRUN)]), end=""
        )
        return
    if not MULTIRUN.isdisjoint(arguments):
        from nmt.commands.sweep import sweep

        sweep([argument for argument in arguments if argument not in MULTIRUN], train_or_resume)
        return
    if "--cfg" in arguments or "-c" in arguments:
        print(checked_settings(without_cfg(arguments)), end="")
        return
    result = run_training(arguments)
    if not is_first():
        return  # rank 0 prints the results
    if result.stop_signal is not None:
        raise Interrupted(result.stop_signal)
    _print_summary(result)
    trusted = result.config.trust
    trust = [f"trust=[{','.join(trusted)}]"] if trusted else []
    print(f"translate with: nmt-translate {shlex.join([f'model={result.folder}', *trust])} < in.txt > out.txt")


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
            if rank() == 0:
                _announce(start)
            return _train_into(start, pairs)
        except BaseException:
            if (
                rank() == 0
                and not start.existed
                and not any((start.folder / name).exists() for name in (run_files.CHECKPOINTS, run_files.METRICS_FILE))
            ):
                shutil.rmtree(start.folder, ignore_errors=True)  # training never started
            raise


@dataclass(frozen=True, kw_only=True)
class Start:
    """Folder, configuration and arguments of a run.

    ``chosen``: the folder is new, and has another name if that in ``config`` was taken. ``existed``: the folder is
    older, and holds no checkpoint. ``not_resumed``: ``resume=true`` had nothing to resume. ``unfinished`` is a run of
    the same name that can be resumed.
    """

    folder: Path
    config: Train
    arguments: list[str]
    chosen: bool = False
    existed: bool = False
    not_resumed: bool = False
    unfinished: Path | None = None


def _start(arguments: Sequence[str], folder: Path | None, pairs: Mapping[str, Any] | None) -> Start:
    """Check the arguments, and create the folder of a new run or find that of a run to resume."""
    config, launch = train_config(arguments), detect_launch()
    if launch is not None and not config.resume and folder is None and (launch.restarts or launch.is_named):
        place, restarted = (Path(config.runs), config.name), launch.restarts > 0
        arguments = restarted_arguments(*place, launch.identifier, arguments, restarted=restarted)
        config = train_config(arguments)
    runs, name = Path(config.runs), config.name
    if config.resume:
        if pairs is not None:
            raise UserError("resume=true: a run continues with its stored text; remove train=, valid= and test=")
        if folder is None and starts_run(runs / name, arguments):
            arguments = [word for word in arguments if key_of(word) != "resume"]
            config = train_config(arguments)
            require_device(config, launch)
            folder, existed = runs / name, (runs / name).exists()
            make_folder(folder)
            return Start(folder=folder, config=config, arguments=arguments, existed=existed, not_resumed=True)
        folder = run_to_resume(runs / name, arguments, config.training)
        arguments = resumed_arguments(folder, arguments)
        config = train_config(arguments, resumed=folder)
        refuse_changed_settings(config, folder, arguments)
    require_device(config, launch)
    if folder is not None:
        return Start(folder=folder, config=config, arguments=list(arguments))
    unfinished = unfinished_run(runs, name)
    folder = new_folder(runs, name)
    if launch is not None:
        write_lines(folder / LAUNCH_FILE, [launch.identifier])
    return Start(folder=folder, config=config, arguments=list(arguments), chosen=True, unfinished=unfinished)


def _announce(start: Start) -> None:
    """Print the folder of the run, and for ``init_from`` where the text comes from if no argument says so."""
    folder, config = start.folder, start.config
    if config.resume:
        print_message(f"run: {folder}, resumed")
        if changed := changed_code(folder):
            print_message(
                f"warning: {folder}: code of {changed} has changed since this run was started; "
                "the rest of its training uses the new code"
            )
        return
    wanted = Path(config.runs) / config.name
    why = f", because {wanted} exists" if start.chosen and folder != wanted else ""
    if start.not_resumed:
        why = ", from its beginning, because resume=true finds no checkpoint"
    print_message(f"run: {folder}{why}")
    if start.unfinished is not None:
        words = resume_command(start.unfinished, start.arguments)
        print_message(f"{start.unfinished} is unfinished; to continue it instead, stop this run and use: {words}")
    if trains_on_the_same_text(config):
        print_message(f"text: that of init_from={config.init_from}; data= chooses other text")


def _train_into(start: Start, pairs: Mapping[str, Any] | None) -> TrainingResult:
    """Train, and keep the arguments in the folder, so that its name is enough to resume the run."""
    from nmt.training.run import train_into

    # Now, because files may change while the text is prepared.
    code = {**code_of(plain(start.config)), "files": given_files(start.config)} if rank() == 0 else None

    def store_config(final: Mapping[str, Any]) -> None:
        (start.folder / run_files.SUMMARY_FILE).unlink(missing_ok=True)  # of a finished run that trains further
        write_lines(start.folder / run_files.CONFIG_FILE, to_yaml(final).splitlines(), durable=True)
        write_lines(start.folder / ARGUMENTS, [json.dumps(start.arguments)], durable=True)
        if not start.config.resume:  # a resumed run keeps the record of its start
            write_lines(start.folder / run_files.CODE_FILE, [json.dumps(code)], durable=True)

    return train_into(start.folder, start.config, pairs=pairs, store_config=store_config)


def _explain_resuming(result: TrainingResult, arguments: Sequence[str]) -> None:
    kept = "the best model so far" if result.validated else "a model that was not validated yet"
    print_message(f"stopped; {kept} is in {result.folder}")
    print_message(f"continue with: {resume_command(result.folder, arguments)}")


def resume_command(folder: Path, arguments: Sequence[str]) -> str:
    """Return the command that continues the run in ``folder``, which ``arguments`` have started."""
    words = [*([] if str(folder.parent) == "runs" else [f"runs={folder.parent}"]), f"name={folder.name}", "resume=true"]
    return f"nmt-train {shlex.join([*words, *trust_arguments(arguments)])}"


def describe_setting(setting: Any) -> str:
    """Return a setting as text; a block as its class with its settings: ``CovarianceAttention(gated=true)``."""
    if isinstance(setting, Mapping) and "_target_" in setting:
        name = setting["_target_"].rpartition(".")[2]
        settings = ", ".join(f"{key}={describe_setting(value)}" for key, value in setting.items() if key != "_target_")
        return f"{name}({settings})" if settings else name
    return setting if isinstance(setting, str) else json.dumps(setting, default=str)


def _print_summary(result: TrainingResult) -> None:
    """Print scores, speed, memory and the files of the run."""
    if sys.stdout is None:  # closed, as by >&-
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    folder, summary, peak_mb = result.folder, result.summary or {}, peak_memory_mb()
    title = Text(f"{folder}: {describe_setting(result.config.attention)}")
    table = Table(title=title, title_justify="left", show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")  # never cut a signature
    test = summary.get("test") or {}
    for name, label in (("bleu", "test BLEU"), ("chrf", "test chrF"), ("aer", "test AER")):
        if test.get(name) is not None:
            score = f"{test[name]:.3f}" if name == "aer" else f"{test[name]:.2f}"
            table.add_row(label, score, summary["signatures"][name])
    length = f"{counted(summary['epochs'], 'epoch')}, {counted(summary['updates'], 'update')}"
    table.add_row("training", f"{summary['tokens_per_s']:,} tokens/s", length)
    table.add_row("total", f"{result.seconds:.0f} s", "" if peak_mb is None else f"peak memory {peak_mb:,.0f} MB")
    for label, file in (
        ("test source", run_files.SOURCES),
        ("references", run_files.REFERENCES),
        ("translations", run_files.TRANSLATIONS),
        ("translation links", run_files.TRANSLATION_LINKS),
        ("reference links", run_files.REFERENCE_LINKS),
        ("gold links", run_files.GOLD_LINKS),
        ("alignments", run_files.ALIGNMENTS),
        ("heatmaps", run_files.HEATMAPS),
        ("learning curve", run_files.CURVE_FILE),
        ("all files", ""),
    ):
        if (folder / file).exists():
            table.add_row(label, "", str(folder / file))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    main()
