"""nmt-prepare: turn text files into tokenizers and Arrow corpora in one folder."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nmt.commands.options import command
from nmt.commands.streams import require_stdout
from nmt.data.sources import DataSettings, is_prepared, load_pairs, source_problems
from nmt.errors import counted, print_message
from nmt.files.atomic import create_folder
from nmt.settings.arguments import Count
from nmt.settings.build import build, problems
from nmt.training.settings import DATA, TextSettings

if TYPE_CHECKING:
    from nmt.text.prepare import Prepared

HELP = """nmt-prepare: train tokenizers and write corpora once, for any number of training runs.

  nmt-prepare data.train.src=a.en data.train.tgt=a.de data.valid.src=b.en data.valid.tgt=b.de output=data/mine
  nmt-prepare data=multi30k tokenizer.vocab_size=8000 output=data/multi30k-8k
  nmt-prepare … data.max_length=80 data.max_ratio=3            drop long or unequal training pairs
  nmt-prepare … tokenizer=unigram tokenizer.vocab_size=[4000,6000]   one vocabulary per side
  nmt-prepare … tokenizer.model=mine.model                           use your own SentencePiece model
  nmt-prepare … data.duplicates=false                          drop repeated pairs
  nmt-prepare … workers=8                                      write large corpora with eight processes

Text files have one sentence per line, plain, .gz, .xz or .bz2. The command prints how many pairs it kept, and how many
it dropped and why; only training pairs are filtered.
To train on the folder: nmt-train data=prepared data.folder=data/mine"""


@dataclass(frozen=True, kw_only=True)
class PrepareOptions(TextSettings):
    """The settings in conf/prepare.yaml."""

    data: Annotated[DataSettings, DATA]
    output: str
    workers: Count
    trust: list[str]


def read_prepare(arguments: list[str]) -> PrepareOptions:
    """Return the checked settings in ``arguments``, which Hydra composes: data sources are plug-ins of any keys."""
    from nmt.config.compose import compose_config

    return build(PrepareOptions, compose_config("prepare", arguments, _problems))


@command(HELP, read_prepare)
def prepare(options: PrepareOptions) -> None:
    """Write tokenizers and corpora into the new folder, which appears only if everything succeeds."""
    require_stdout()
    from nmt.text.prepare import prepare as prepare_text

    data, output = options.data, Path(options.output)
    with create_folder(output) as folder:
        pairs = load_pairs(data, trust=options.trust)
        prepared = prepare_text(pairs, data, options.tokenizer, folder, workers=options.workers)
        summary = [*_summary(prepared, output, data.block)]  # while the corpora are where they were written
    print("\n".join(summary))


def _problems(config: dict[str, Any]) -> Iterator[str]:
    """Yield one message per problem with the settings."""
    data = config.get("data")
    if isinstance(data, Mapping) and is_prepared(data):
        yield "data=prepared: is already prepared; set data=text and give text files, or train on it with nmt-train"
    elif faults := [*problems(config, PrepareOptions)]:
        yield from faults
    else:
        options = build(PrepareOptions, config)
        yield from source_problems(options.data, needed=("train",), trust=options.trust)


def _summary(prepared: Prepared, folder: Path, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines that say how many pairs were kept, how large the vocabularies are, and what to run next.

    Warnings about text that a tokenizer cannot read are printed.
    """
    from nmt.text.prepare import reading_problems

    for problem in reading_problems(prepared):
        print_message(f"warning: {problem}")
    for part, counts in prepared.pair_counts.items():
        for line in counts.lines():
            yield f"{part}: {line}"
    if prepared.source is prepared.target:
        yield f"vocabulary: {counted(len(prepared.source), 'piece')}, shared by both sides"
    else:
        yield f"vocabulary: {len(prepared.source):,} source and {counted(len(prepared.target), 'target piece')}"
    if "valid" not in prepared.corpora:
        sides = [".src", ".tgt"] if isinstance(data.get("valid"), Mapping) else [""]
        yield f"valid: not given, but nmt-train needs it; add {' '.join(f'data.valid{side}=FILE' for side in sides)}"
        return
    yield f"train with: nmt-train {shlex.join(['data=prepared', f'data.folder={folder}'])}"
