"""nmt-train: from text to a trained model, its translations, scores and alignment pictures."""

from __future__ import annotations

import json
import resource
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.commands.runs import ARGUMENTS, as_before, new_folder, refuse_another_run, run_to_resume, trusting
from nmt.commands.shell import run
from nmt.config import to_yaml, train_config
from nmt.config.init_from import CONFIG_FILE
from nmt.errors import UserError
from nmt.storage import write_lines

if TYPE_CHECKING:
    from nmt.text.tokenizer import Tokenizer

HELP = """nmt-train: train a translation model; without arguments, the default run into runs/demo.

  nmt-train attention=luong name=luong                  another attention (none bahdanau luong memory covariance …)
  nmt-train attention=memory attention.slots=64         its numbers
  nmt-train data=text data.train.src=a.en data.train.tgt=a.de data.valid.src=b.en data.valid.tgt=b.de name=mine
  nmt-train +experiment=multi30k
  nmt-train name=mine resume=true                       go on with an interrupted run, as it began
  nmt-train init_from=runs/mine training.lr=0.0005 …    train its model further, on other text
  nmt-train --config-dir my_conf attention=mine 'trust=[my_package]'
  nmt-train --cfg …                                     print the whole configuration and stop

Every key of the configuration can be set as key=value; what is wrong with it is said before any work starts."""


def main() -> None:
    run(train)


def train(arguments: list[str]) -> None:
    """Run the command. Raises UserError for whatever the user can put right."""
    if "--help" in arguments or "-h" in arguments:
        print(HELP)
        return
    config = train_config([argument for argument in arguments if argument != "--cfg"])
    if "--cfg" in arguments:
        print(to_yaml(config), end="")
        return
    if config["resume"]:
        folder = run_to_resume(Path(config["runs"]) / config["name"])
        arguments = as_before(folder, arguments)
        config = train_config(arguments, resumed=folder)
        refuse_another_run(config, folder)
    else:
        folder = new_folder(Path(config["runs"]), config["name"])
    try:
        train_into(config, folder, arguments)
    except BaseException:
        if not any((folder / name).exists() for name in ("checkpoints", "metrics.csv")):
            shutil.rmtree(folder, ignore_errors=True)  # it never came to training
        raise


def train_into(config: Mapping[str, Any], folder: Path, arguments: Sequence[str]) -> None:
    """The whole run: prepare, fit, report. ``arguments`` are kept, for the run to be resumed by its name alone."""
    import torch

    from nmt.inference.model_folder import choose_device
    from nmt.kernels.allocation import keep_freed_memory
    from nmt.text.prepare import open_prepared
    from nmt.training.fit import fit
    from nmt.training.precision import slowdown
    from nmt.training.report import report

    keep_freed_memory()
    device = choose_device(config["device"])
    if config["threads"] is not None:
        torch.set_num_threads(config["threads"])
    if config["precision"] == "bf16" and device.type == "cpu" and (times := slowdown()) > 1.2:
        say(f"precision=bf16: here a product takes {times:.1f} times as long as in float32; leave it away to be faster")
    started = time.perf_counter()
    given = config["data"]["kind"] == "prepared"
    if given or config["resume"]:
        place = Path(config["data"]["folder"]) if given else folder / "data"
        prepared = open_prepared(place, needed=("train", "valid"))
        refuse_shared(config, f"data.folder={place}", prepared.source, prepared.target)
    else:
        prepared = prepare_into(config, folder)
    config = {
        **config,
        "data": {**config["data"], "lowercase": prepared.lowercase},
        "tokenizer": {**config["tokenizer"], **prepared.tokenizer},
    }
    write_lines(folder / CONFIG_FILE, to_yaml(config).splitlines())
    write_lines(folder / ARGUMENTS, [json.dumps(list(arguments))])
    fitted = fit(config, prepared, folder, resume=config["resume"])
    if fitted.interrupted:
        say(f"stopped; the best model so far is in {folder}")
        elsewhere = [] if config["runs"] == "runs" else [f"runs={config['runs']}"]
        words = [*elsewhere, f"name={folder.name}", "resume=true", *trusting(arguments)]
        say(f"go on with: nmt-train {shlex.join(words)}")
        raise KeyboardInterrupt
    if fitted.early:
        waited = "{monitor} got no better in {patience} validations (training.patience)".format(**config["training"])
        say(f"stopped early: {waited}; the model of epoch {fitted.kept} is kept")
    test = prepared.corpora.get("test")
    if test is not None:
        say("translating the test set …")
    summary = report(config, fitted, test, folder)
    close(summary, folder, attention=described(config["attention"]), seconds=time.perf_counter() - started)
    trusted = [f"trust=[{','.join(config['trust'])}]"] if config["trust"] else []
    print(f"translate with: nmt-translate {shlex.join([f'model={folder}', *trusted])} < in.txt > out.txt")


def prepare_into(config: Mapping[str, Any], folder: Path) -> Any:
    """Tokenizers and corpora in a new run's folder."""
    from nmt.inference.model_folder import load_folder
    from nmt.text.prepare import prepare

    given = None
    if config["init_from"] is not None:
        start = load_folder(Path(config["init_from"]), trust=config["trust"], key="init_from")
        given = (start.source, start.target)
        refuse_shared(config, f"init_from={config['init_from']}", *given)
        refuse_other_tokenizers(config, start.config.get("tokenizer", {}))
    prepared = prepare(config["data"], config["tokenizer"], folder / "data", given=given)
    for part, account in prepared.accounts.items():
        for line in account.lines():
            say(f"{part}: {line}")
    return prepared


def refuse_shared(config: Mapping[str, Any], place: str, source: Tokenizer, target: Tokenizer) -> None:
    """Raises UserError where one table of embeddings is to serve two vocabularies that are in ``place`` already."""
    if config["embeddings"]["shared"] and source.to_bytes() != target.to_bytes():
        raise UserError(
            f"embeddings.shared=true: needs one vocabulary for both sides, but {place} has two; "
            "set embeddings.shared=false"
        )


def refuse_other_tokenizers(config: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raises UserError where ``config`` describes other tokenizers than those that the model to start from brings."""
    for key, value in config["tokenizer"].items():
        if key in before and value != before[key]:
            raise UserError(
                f"tokenizer.{key}={value}: init_from={config['init_from']} brings its own tokenizers, and its "
                f"config.yaml says {before[key]}; give this run the same"
            )


def described(setting: Any) -> str:
    """A setting as YAML has it; a block as its class with its settings: ``CovarianceAttention(gated=true)``."""
    if isinstance(setting, Mapping) and "_target_" in setting:
        name = setting["_target_"].rpartition(".")[2]
        inner = ", ".join(f"{key}={described(value)}" for key, value in setting.items() if key != "_target_")
        return f"{name}({inner})" if inner else name
    return setting if isinstance(setting, str) else json.dumps(setting, default=str)


def close(summary: Mapping[str, Any], folder: Path, *, attention: str, seconds: float) -> None:
    """Print the closing summary."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"{folder}: {attention}"), title_justify="left", show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")  # a signature is never cut
    test = summary["test"] or {}
    for name, title in (("bleu", "test BLEU"), ("chrf", "test chrF"), ("aer", "test AER")):
        if test.get(name) is not None:
            figure = f"{test[name]:.3f}" if name == "aer" else f"{test[name]:.2f}"
            table.add_row(title, figure, summary["signatures"][name])
    table.add_row("training", f"{summary['tokens_per_s']:,} tokens/s", f"{summary['epochs']} epochs")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    table.add_row("all in all", f"{seconds:.0f} s", f"peak memory {peak:,.0f} MB")
    for what, file in (
        ("translations", "test.translations.txt"),
        ("alignments", "alignments.html"),
        ("heatmaps", "heatmaps"),
        ("learning curve", "curve.png"),
        ("everything", ""),
    ):
        if (folder / file).exists():
            table.add_row(what, "", str(folder / file))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def say(line: str) -> None:
    """Progress goes to stderr."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
