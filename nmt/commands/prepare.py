"""nmt-prepare: from text files to tokenizers and Arrow corpora in one folder."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nmt.commands.options import asks_for_help, read_options, show_help
from nmt.commands.shell import run
from nmt.config.checks import tokenizer_conflicts
from nmt.config.schema import DATA, TokenizerSettings
from nmt.storage import create_folder
from nmt.tasks.sources import is_prepared, load_pairs, source_problems

if TYPE_CHECKING:
    from nmt.text.prepare import Prepared

HELP = """nmt-prepare: train tokenizers and write corpora, once, for any number of training runs.

  nmt-prepare data.train.src=a.en data.train.tgt=a.de data.valid.src=b.en data.valid.tgt=b.de output=data/mine
  nmt-prepare data=multi30k tokenizer.vocab_size=8000 output=data/multi30k-8k
  nmt-prepare … data.max_length=80 data.max_ratio=3            drop long and unequal training pairs
  nmt-prepare … tokenizer=unigram tokenizer.joint=false        one vocabulary a side
  nmt-prepare … tokenizer.source_model=mine.model              a SentencePiece model of your own

Prints how many pairs were kept and how many dropped, and why. Only training pairs are ever dropped. Text files are
plain or .gz, one sentence a line. Train on the folder with: nmt-train data=prepared data.folder=data/mine"""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """conf/prepare.yaml."""

    data: Any
    tokenizer: Any
    output: str
    trust: list[str]


def main() -> None:
    run(prepare)


def prepare(arguments: list[str]) -> None:
    """Run the command. Raises UserError for whatever the user can put right."""
    if asks_for_help(arguments):
        show_help(HELP, "prepare")
        return
    options = read_options("prepare", Prepare, arguments, _problems)
    folder = Path(options.output)
    print("\n".join(_account(_prepare_into(folder, options), options.data, folder)))


def _problems(config: dict[str, Any]) -> Iterator[str]:
    """One text for each thing that is wrong with the keys of ``data`` and ``tokenizer``."""
    from nmt.config.validate import problems

    messages = list(problems(config["tokenizer"], TokenizerSettings, "tokenizer"))
    yield from messages or tokenizer_conflicts(config["tokenizer"])
    if is_prepared(config["data"]):
        folder = config["data"].get("folder")
        yield f"data=prepared: {folder} is already prepared; give text files, or train on it with nmt-train"
        return
    messages = list(problems(config["data"], Annotated[Any, DATA], "data", config["trust"]))
    yield from messages or source_problems(config["data"], needed=("train",), trust=config["trust"])


def _prepare_into(folder: Path, options: Prepare) -> Prepared:
    """What was prepared into a new folder; a failure leaves none behind."""
    from nmt.text.prepare import prepare as prepare_text

    with create_folder(folder) as temporary:
        pairs = load_pairs(options.data, trust=options.trust)
        return prepare_text(pairs, options.data, options.tokenizer, temporary)


def _account(prepared: Prepared, data: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """What became of the text, and what to type next."""
    for part, account in prepared.accounts.items():
        for line in account.lines():
            yield f"{part}: {line}"
    joint = prepared.source is prepared.target
    sizes = f"{len(prepared.source):,}" if joint else f"{len(prepared.source):,} and {len(prepared.target):,}"
    yield f"vocabulary: {sizes} pieces, {'one for both sides' if joint else 'one for each side'}"
    if "valid" not in prepared.corpora:
        yield "valid: not given, and nmt-train needs it: add data.valid.src=FILE data.valid.tgt=FILE"
        return
    yield f"train with: nmt-train {shlex.join(['data=prepared', f'data.folder={folder}'])}"


if __name__ == "__main__":
    main()
