"""nmt-distill: training pairs for a small model, whose targets are translations of a large one."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from nmt.commands.options import command, load_model, refuse_both
from nmt.commands.streams import GROUP, line_writer, require_stdout
from nmt.commands.translate import WorkerCount, WorkerOptions, describe_scores, shard_results_of
from nmt.data.pair import Pair
from nmt.data.text_files import iterate_lines, iterate_pairs
from nmt.errors import UserError, counted, print_message
from nmt.files.atomic import create_folder
from nmt.inference.distillation import Distillation, split_score
from nmt.inference.scores import SAMPLE, ignore_case, wrong_files
from nmt.inference.translation import Done, n_best_lists
from nmt.settings.arguments import AtLeast, AtMost, Folder

if TYPE_CHECKING:
    from nmt.inference.translator import Translator

HELP = """nmt-distill: let a teacher translate the training text, so that a small model can learn from its translations.

  nmt-distill model=runs/teacher src=train.en tgt=train.de output=distilled
  nmt-distill model=runs/teacher src=train.en.gz tgt=train.de.gz output=distilled engine=onnx workers=8
  nmt-distill model=[runs/a,runs/b] …        the teacher is an ensemble of models with one vocabulary
  nmt-distill … min_chrf=30                  keep the reference where chrF is below 30
  nmt-distill … min_chrf=30 rejected=drop    drop these pairs
  nmt-distill … add_original=true            write the original pairs as well
  nmt-distill … search.n_best=5              of 5 translations, take the one nearest to the reference
  nmt-distill translations=out.txt src=train.en tgt=train.de min_chrf=30 output=distilled
                                             filter finished translations, of any program

Writes train.src and train.tgt into the new folder OUTPUT, and prints where their targets come from. Train on them with
data.train.src= and data.train.tgt=, and keep your own validation and test sets. If the command is stopped, repeat it to
continue: finished lines are kept in OUTPUT.shards.
Sequence-level distillation and, with search.n_best=, interpolation: Kim & Rush (2016)."""

FILES = ("train.src", "train.tgt")
Rows = Iterator[tuple[Pair, list[str]]]
"""Each pair with its translations, after their scores and a tab if they have scores."""


@dataclass(frozen=True, kw_only=True)
class DistillOptions(WorkerOptions):
    """The settings in conf/distill.yaml."""

    OWNERS = {
        **dict.fromkeys(("search", "engine", "slots", "shortlist", "adapter", "workers"), ["model"]),
    }
    translations: str | None
    src: str
    tgt: str
    output: Folder
    min_score: float | None
    min_chrf: Annotated[float, AtLeast(0), AtMost(100)] | None
    rejected: Literal["reference", "drop"]
    add_original: bool
    lowercase: bool | None
    workers: WorkerCount

    def __post_init__(self) -> None:
        if self.model is None and self.translations is None:
            raise UserError("model=null: no teacher; give model=FOLDER, or translations=FILE")
        refuse_both(self, "translations", "model")
        if self.lowercase is not None and self.min_chrf is None and self.search.n_best == 1:
            given = str(self.lowercase).lower()
            raise UserError(
                f"lowercase={given}: has an effect only with min_chrf= or search.n_best=; add one of them, or remove "
                "lowercase="
            )


@command(HELP, DistillOptions)
def distill(options: DistillOptions) -> None:
    """Write the pairs, and print where their targets come from."""
    require_stdout()
    with ExitStack() as shards, create_folder(Path(options.output)) as folder:  # the shards are deleted after it exists
        trained_on_lowercase = False
        if options.model is None:
            rows = _finished(options)
        else:
            translator = load_model(options.model, options.load_settings)
            if options.min_score is not None:
                print_message(describe_scores(options.search))
            rows = _translated(options, translator, shards)
            trained_on_lowercase = translator.lowercase
            del translator  # each worker loads its own
        distillation = Distillation(
            min_score=options.min_score,
            min_chrf=options.min_chrf,
            rejected="translation" if options.add_original else options.rejected,
            lowercase=ignore_case(options.lowercase, trained_on_lowercase=trained_on_lowercase),
        )
        written = _write(rows, distillation, folder, add_original=options.add_original)
        if not written:
            counts = "; ".join(distillation.lines())
            raise UserError(f"src={options.src}: no pair is left ({counts}); reject less, or remove rejected=drop")
    print("\n".join(_summary(distillation, written, options, lowercase=trained_on_lowercase)))


def _finished(options: DistillOptions) -> Rows:
    """Yield each pair with its line in the file of translations."""
    assert options.translations is not None
    for source, target, line in iterate_lines(options.src, options.tgt, options.translations):
        yield Pair(source, target), [line]


def _translated(options: DistillOptions, translator: Translator, shards: ExitStack) -> Rows:
    """Return an iterator over the pairs, each with its translations from workers."""
    waiting = deque[list[Pair]]()  # groups that are being translated

    def groups() -> Iterator[list[str]]:
        pairs = iterate_pairs(options.src, options.tgt)
        while group := list(islice(pairs, GROUP)):
            waiting.append(group)
            yield [pair.source for pair in group]

    results = shards.enter_context(shard_results_of(translator, options, groups(), input=options.src, scores=True))

    def lists(result: Done) -> Iterable[list[str]]:
        return n_best_lists(result.output) if options.search.n_best > 1 else ([line] for line in result.output)

    return (row for result in results for row in zip(waiting.popleft(), lists(result), strict=True))


def _write(rows: Rows, distillation: Distillation, folder: Path, *, add_original: bool) -> int:
    """Write both files, warn if the texts do not belong together, and return how many pairs they have."""
    written = 0
    sample: list[tuple[str, str, str]] = []
    with line_writer(str(folder / FILES[0])) as write_source, line_writer(str(folder / FILES[1])) as write_target:
        for pair, lines in rows:
            chosen = distillation.target(pair.target, lines)
            targets = [] if chosen is None else [chosen]
            targets += [pair.target] * add_original
            write_source([pair.source] * len(targets))
            write_target(targets)
            written += len(targets)
            if len(sample) < SAMPLE:
                sample.append((split_score(lines[0])[1], pair.target, pair.source))
    for hint in wrong_files(*zip(*sample, strict=True)):
        print_message(f"warning: {hint}")
    return written


def _summary(distillation: Distillation, written: int, options: DistillOptions, *, lowercase: bool) -> Iterator[str]:
    """Yield the origins of the targets, the number of pairs, and the command that trains on them."""
    yield from distillation.lines()
    if options.add_original:
        yield f"{counted(distillation.total, 'original pair')} added"
    yield f"{options.output}: {counted(written, 'pair')}"
    files = [f"data.{name}={Path(options.output) / name}" for name in FILES]
    case = ["data.lowercase=true"] * lowercase
    yield f"train with: nmt-train data=text {shlex.join([*files, *case])} data.valid.src=FILE data.valid.tgt=FILE"
