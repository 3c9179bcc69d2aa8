"""nmt-train: from text to a trained model, its translations, scores and alignment pictures."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from nmt.commands.options import command
from nmt.commands.streams import print_table
from nmt.errors import Interrupted, counted
from nmt.inference import run_files
from nmt.settings.build import describe_setting
from nmt.system.machine import peak_memory_mb

if TYPE_CHECKING:
    from nmt.training.run import TrainingResult

HELP = """nmt-train: train a translation model. Without arguments: the default run, into runs/demo.

  nmt-train attention=luong name=luong                  another attention (none bahdanau luong memory covariance …)
  nmt-train attention=memory attention.slots=64         its settings
  nmt-train data=text data.train.src=a.en data.train.tgt=a.de data.valid.src=b.en data.valid.tgt=b.de name=mine
  nmt-train +experiment=multi30k                        tested settings; for your own text: little, medium
  nmt-train -m attention=luong,memory seed=1,2,3        every combination, then a table with mean and deviation
  nmt-train optimizer=adamw optimizer.lr=0.001 schedule=plateau
  nmt-train name=mine resume=true                       continue an interrupted run with its settings
  nmt-train name=mine resume=true training.max_epochs=8 continue a finished run
  nmt-train init_from=runs/mine optimizer.lr=0.0005     a new run from its model, on its text unless data= is given
  nmt-train init_from=runs/mine adapt=lora name=b       train a small adapter of its model: see docs/adapters.md
  nmt-train --config-dir my_conf attention=mine 'trust=[my_package]'
  nmt-train --cfg …                                     print the whole configuration and stop
  nmt-train --help attention=memory                     this text, and the settings of the chosen groups

Every key of the configuration can be set as key=value. Mistakes are reported before any work starts."""

MULTIRUN = frozenset({"-m", "--multirun"})


@command(HELP, lambda arguments: arguments)
def train(arguments: list[str]) -> None:
    """Run nmt-train with these arguments. Raises UserError for errors the user can fix."""
    # Imported now: the help must not wait for Hydra.
    from nmt.config.compose import compose_train, to_yaml
    from nmt.config.runs import run_training
    from nmt.training.distributed import is_first

    if not MULTIRUN.isdisjoint(arguments):
        from nmt.commands.sweep import read_sweep, sweep

        sweep(read_sweep([argument for argument in arguments if argument not in MULTIRUN]))
        return
    if "--cfg" in arguments:
        print(to_yaml(compose_train([argument for argument in arguments if argument not in ("--cfg", "job")])), end="")
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


def _print_summary(result: TrainingResult) -> None:
    """Print scores, speed, memory and the files of the run."""
    folder = result.folder
    summary = result.summary or {}
    peak_mb = peak_memory_mb()
    rows = []
    test = summary.get("test") or {}
    for name, label, spec in (("bleu", "test BLEU", ".2f"), ("chrf", "test chrF", ".2f"), ("aer", "test AER", ".3f")):
        if test.get(name) is not None:
            rows.append((label, format(test[name], spec), summary["signatures"][name]))
    length = f"{counted(summary['epochs'], 'epoch')}, {counted(summary['updates'], 'update')}"
    rows.append(("training", f"{summary['tokens_per_s']:,} tokens/s", length))
    duration = "since resuming" if result.config.resume else "total"
    rows.append((duration, f"{result.seconds:.0f} s", "" if peak_mb is None else f"peak memory {peak_mb:,.0f} MB"))
    for label, file in (
        ("test source", run_files.SOURCES),
        ("references", run_files.REFERENCES),
        ("translations", run_files.TRANSLATIONS),
        ("alignments", run_files.ALIGNMENTS),
        ("heatmaps", run_files.HEATMAPS),
        ("learning curve", run_files.CURVE_FILE),
        ("all files", ""),
    ):
        if (folder / file).exists():
            rows.append((label, "", str(folder / file)))
    print_table(rows, title=f"{folder}: {describe_setting(result.config.attention)}")
