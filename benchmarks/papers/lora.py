"""What do low-rank adapters reach and keep, against full fine-tuning? English to German, Tatoeba to Multi30k and back.

A small model is trained on one corpus. Adapters of rank 1 to 64, and all of its weights, are then trained on the other
corpus for the same number of updates. "From scratch" trains adapters of a model with random weights, which stay frozen.
Adapters have a higher learning rate than all weights; further runs of both try other rates. The script writes one table
per direction: trained parameters, and BLEU on the test sets of the new and of the old corpus. An interrupted benchmark
continues where it stopped; a run that has not finished says "not run". data/README.md says where the corpora come from.

    python -m benchmarks.papers.lora --data data/tatoeba-de-en data/multi30k --threads 1
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.report import argument_parser, header, save, table
from benchmarks.runs import Runs, evaluate
from nmt.config.compose import train_config
from nmt.data.text_files import read_lines
from nmt.files.atomic import write_lines
from nmt.inference.model_folder import TrainedModel, load_folder, save_folder
from nmt.inference.run_files import MODEL_FILE
from nmt.model.adapter import matrices
from nmt.model.build import build_model, build_on_meta
from nmt.settings.build import ModelSettings

CORPORA = ("tatoeba", "multi30k")
TESTS = {"tatoeba": "test", "multi30k": "test2016"}
RANKS = (1, 2, 4, 8, 16, 32, 64)
SCRATCH_RANKS = (8, 64)
RATES_RANK = 32  # of the adapters that are also trained with other learning rates
SIZES = ["tokenizer.vocab_size=4000", "embeddings.size=256", "encoder.hidden_size=256", "decoder.hidden_size=256"]
SIZES += ["attention=memory"]
BASE = "the model itself"
LIMITS = ["training.max_epochs=null", "training.patience=null", "training.decode_sentences=200", "schedule=linear"]
COLUMNS = ("trained", "parameters", "share", "loss", "BLEU, new corpus", "BLEU, old corpus", "minutes")


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/lora", threads=1, report_only=True)
    parser.add_argument("--data", type=Path, nargs=2, required=True, help="folders of Tatoeba and of Multi30k")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS), help="default: %(default)s")
    parser.add_argument(
        "--scratch-ranks", type=int, nargs="*", default=list(SCRATCH_RANKS), help="default: %(default)s"
    )
    parser.add_argument("--base-updates", type=int, default=3000, help="of the old corpus; default: %(default)s")
    parser.add_argument("--updates", type=int, default=1000, help="of the new corpus; default: %(default)s")
    parser.add_argument("--lr", type=float, default=0.004, help="of adapters; default: %(default)s")
    parser.add_argument("--full-lr", type=float, default=0.001, help="of all weights; default: %(default)s")
    parser.add_argument("--rates", type=float, nargs="*", default=[0.001, 0.004, 0.016], help="other learning rates")
    parser.add_argument("--settings", nargs="*", default=[], help="settings of nmt-train that all runs get")
    parser.add_argument("--limit", type=int, help="pairs of each training and test set; default: all")
    parser.add_argument("--first-only", action="store_true", help="train only Tatoeba to Multi30k")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    directions = [CORPORA, CORPORA[::-1]]
    runs = Runs.of(args)

    def is_missing(cell: Cell) -> bool:
        return runs.finished(cell.name) is None

    for old, new in [] if args.report_only else directions[: 1 if args.first_only else 2]:
        for cell in cells(args, old, new):
            if cell.scratch and is_missing(cell):
                write_untrained(args.runs / f"{old}-base")
            needs_model = cell.label == BASE and any(map(is_missing, cells(args, old, new)))
            runs.train(cell.name, cell_settings(args, old, new, cell), model=needs_model)
            write_report(args, runs, directions)
    write_report(args, runs, directions)


class Cell(NamedTuple):
    """A run: its name, its label in the table, and what it trains."""

    name: str
    label: str
    rank: int | None = None
    """Rank of the adapters; None: all weights are trained."""
    lr: float = 0.003
    scratch: bool = False
    """Adapt a model with random weights."""


def cells(args: argparse.Namespace, old: str, new: str) -> Iterator[Cell]:
    """Yield the runs of a direction. The model that is adapted comes first."""
    run = f"{old}-{new}"
    yield Cell(f"{old}-base", BASE)
    yield Cell(f"{run}-full", "all weights", lr=args.full_lr)
    for rate in args.rates:
        if rate != args.full_lr:
            yield Cell(f"{run}-full-lr{rate}", f"all weights, rate {rate}", lr=rate)
    for rank in args.ranks:
        yield Cell(f"{run}-r{rank}", f"r = {rank}", rank, args.lr)
        for rate in args.rates:
            if rank == RATES_RANK and rate != args.lr:
                yield Cell(f"{run}-r{rank}-lr{rate}", f"r = {rank}, rate {rate}", rank, rate)
    for rank in args.scratch_ranks:
        yield Cell(f"{run}-scratch-r{rank}", f"from scratch, r = {rank}", rank, args.lr, scratch=True)


def cell_settings(args: argparse.Namespace, old: str, new: str, cell: Cell) -> list[str]:
    """Return the settings of nmt-train for one run."""
    if cell.label == BASE:
        return [*text(args, old), *LIMITS, *SIZES, *updates(args.base_updates, cell.lr), *args.settings]
    start = args.runs / f"{old}-base"
    if cell.scratch:
        start = untrained(start)
    adapt = [] if cell.rank is None else ["adapt=lora", f"adapt.rank={cell.rank}"]
    return [f"init_from={start}", *adapt, *text(args, new), *LIMITS, *updates(args.updates, cell.lr), *args.settings]


def updates(count: int, lr: float) -> list[str]:
    return [f"training.max_steps={count}", f"optimizer.lr={lr}", f"schedule.warmup_steps={max(1, count // 10)}"]


def text(args: argparse.Namespace, corpus: str) -> list[str]:
    """Return the settings of the text of a corpus, lower-cased, whose first ``limit`` pairs are written if needed."""
    files = {"train": "train", "valid": "valid", "test": TESTS[corpus]}
    places = {
        f"data.{part}.{side}": file_of(args, corpus, stem, language)
        for part, stem in files.items()
        for side, language in (("src", "en"), ("tgt", "de"))
    }
    return [
        "data=text",
        "data.lowercase=true",
        "data.max_length=60",
        *(f"{key}={file}" for key, file in places.items()),
    ]


def file_of(args: argparse.Namespace, corpus: str, stem: str, language: str) -> Path:
    """Return a file of the corpus, or a copy of its lines that ``--limit`` keeps, spread over the file."""
    file: Path = args.data[CORPORA.index(corpus)].resolve() / f"{stem}.{language}.gz"
    if args.limit is None:
        return file
    short: Path = args.runs.resolve() / "text" / f"{corpus}-{stem}-{args.limit}.{language}"
    if not short.is_file():
        short.parent.mkdir(parents=True, exist_ok=True)
        lines = list(read_lines(file))
        write_lines(short, lines[:: -(-len(lines) // args.limit)])
    return short


def untrained(base: Path) -> Path:
    """Return the folder of the model like that in ``base`` that has random weights."""
    return base.with_name(f"{base.name}-untrained")


def write_untrained(base: Path) -> None:
    """Write a model like that in ``base``, with random weights, into the folder ``untrained(base)``."""
    folder = untrained(base)
    if not (folder / MODEL_FILE).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(base / "config.yaml", folder)
        trained = load_folder(base)
        torch.manual_seed(1)
        sizes = {"source_vocabulary": len(trained.source), "target_vocabulary": len(trained.target)}
        model = build_model(ModelSettings.of(trained.config), **sizes, longest_source=trained.longest_source)
        save_folder(
            folder,
            TrainedModel(
                model=model,
                source=trained.source,
                target=trained.target,
                config=trained.config,
                longest_source=trained.longest_source,
            ),
        )


def test_scores(run: Path, args: argparse.Namespace, corpus: str) -> dict[str, Any]:
    """Return the scores of the run on the test set of a corpus."""
    sides = {"src": "en", "tgt": "de"}
    places = [f"{side}={file_of(args, corpus, TESTS[corpus], language)}" for side, language in sides.items()]
    return evaluate(f"model={run}", *places, "engine=torch", "search=greedy", f"threads={args.threads}")


def write_report(args: argparse.Namespace, runs: Runs, directions: list[tuple[str, ...]]) -> None:
    """Write the tables of the finished runs."""
    facts = (
        f"{args.base_updates:,} updates on the old corpus, {args.updates:,} on the new one; one seed, greedy",
        f"learning rates: adapters {args.lr}, all weights {args.full_lr}; adapt.alpha=16, adapt.to: all parts",
        "loss: of the validation set of the corpus that the run was trained on, in nats per piece",
    )
    config = train_config([*SIZES, *args.settings])
    size = config.tokenizer.vocab_size
    model = build_on_meta(config, source_vocabulary=size, target_vocabulary=size, longest_source=8)
    total = sum(weight.numel() for weight in model.parameters())
    tables: list[str] = []
    shapes = [tuple(matrix.weight.shape) for matrix in matrices(model).values()]
    for old, new in directions:
        rows = []
        for name, label, rank, *_ in cells(args, old, new):
            run = runs.finished(name)
            count = total if rank is None else sum(min(rank, *shape) * sum(shape) for shape in shapes)
            row = [label, f"{count:,}", f"{count / total:.1%}"]
            if run is None:
                rows.append([*row, *["not run"] * 4])
                continue
            scores = [runs.score(name, text, partial(test_scores, args=args, corpus=text)) for text in (new, old)]
            bleu = [f"{score['bleu']:.1f}" for score in scores]
            rows.append([*row, f"{run['metrics']['valid_loss']:.3f}", *bleu, f"{run['seconds'] / 60:.1f}"])
        tables += ["", f"{old} to {new}:", "", *table(COLUMNS, rows)]
    title = "Low-rank adapters against full fine-tuning, English to German"
    save(args.output / "lora.md", [*header(title, *facts, runs.commits())[:-1], *tables], show=False)


if __name__ == "__main__":
    main()
