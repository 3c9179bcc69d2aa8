"""nmt-distill: training pairs for a small model, whose targets are translations of a large one.

Sequence-level distillation: Kim & Rush (2016), arXiv 1606.07947, §3.2. Of several translations, the one nearest to the
reference is chosen (sequence-level interpolation, §3.3).
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from nmt.commands.options import command, load_model, refuse_both
from nmt.commands.streams import GROUP, line_writer, require_stdout
from nmt.commands.translate import WorkerCount, WorkerOptions, shard_results_of, shown
from nmt.data.links import Pair
from nmt.data.text_files import iterate_pairs, read_lines
from nmt.errors import UserError, counted
from nmt.files.atomic import create_folder
from nmt.inference.scores import sentence_chrf
from nmt.inference.translation import other_columns, written_translations
from nmt.settings.arguments import AtLeast, AtMost

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
                                             filter finished translations: of nmt-translate, with scores or n-best
                                             lists too, or of any program, one per line

Writes train.src and train.tgt into the new folder OUTPUT, and prints where their targets come from. Train on them with
data.train.src= and data.train.tgt=, and keep your own validation and test sets. If the command is stopped, repeat it to
continue: finished lines are kept in OUTPUT.shards.
Sequence-level distillation and, with search.n_best=, interpolation: Kim & Rush (2016)."""

FILES = ("train.src", "train.tgt")
COLUMNS = re.compile(r"\t|^\d+ \|\|\| ")  # of other programs: a score, or the number of an n-best list
TEACHER = "translation of the teacher"
Rows = Iterator[tuple[Pair, Sequence[str]]]
"""Each pair with its translations."""


@dataclass(frozen=True, kw_only=True)
class DistillOptions(WorkerOptions):
    """The settings in conf/distill.yaml."""

    OWNERS = dict.fromkeys(("search", "engine", "shortlist", "workers"), ["model"])
    translations: str | None
    src: str
    tgt: str
    output: str
    min_chrf: Annotated[float, AtLeast(0), AtMost(100)] | None
    rejected: Literal["reference", "drop"]
    add_original: bool
    workers: WorkerCount

    def __post_init__(self) -> None:
        if self.model is None and self.translations is None:
            raise UserError("model=null: no teacher; give model=FOLDER, or translations=FILE")
        refuse_both(self, "translations", "model")


@dataclass(kw_only=True)
class Distillation:
    """Chooses the target of each pair, and counts the choices.

    A translation is rejected if it is empty, or if its chrF against the reference is below ``min_chrf``, without case
    if ``lowercase`` is set. Its pair then gets the reference, or no target if ``drops`` is set.
    """

    min_chrf: float | None = None
    drops: bool = False
    lowercase: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    """Number of pairs for each reason of a rejection, and for ``TEACHER``: pairs that keep their translation."""

    def target(self, reference: str, texts: Sequence[str]) -> str | None:
        """Return the target of a pair: of its translations, the one with the highest chrF, unless it is rejected."""
        text = texts[0] if len(texts) == 1 else max(texts, key=lambda text: self._chrf(text, reference))
        if not text.strip():
            reason = "empty translation"
        elif self.min_chrf is not None and self._chrf(text, reference) < self.min_chrf:
            reason = f"chrF below {self.min_chrf:g}"
        else:
            reason = TEACHER
        self.counts[reason] += 1
        if reason == TEACHER:
            return text
        return None if self.drops else reference

    @cached_property
    def _chrf(self) -> Callable[[str, str], float]:
        return sentence_chrf(lowercase=self.lowercase)


@command(HELP, DistillOptions)
def distill(options: DistillOptions) -> None:
    """Write the pairs, and print where their targets come from."""
    require_stdout()
    with ExitStack() as shards, create_folder(Path(options.output)) as folder:  # the shards are deleted after it exists
        lowercase = False
        if options.translations is not None:
            rows = _finished(options, options.translations)
        else:
            assert options.model is not None
            translator = load_model(options.model, options.load_settings)
            rows = _translated(options, translator, shards)
            lowercase = translator.lowercase
        drops = options.rejected == "drop" or options.add_original
        distillation = Distillation(min_chrf=options.min_chrf, drops=drops, lowercase=lowercase)
        written = _write(rows, distillation, folder, add_original=options.add_original)
        total = counted(distillation.counts.total(), "pair")
        counts = [f"{count:,} of {total}: {reason}" for reason, count in distillation.counts.most_common()]
        if not written:
            raise UserError(f"src={options.src}: no pair is left ({'; '.join(counts)}); reject less")
    print(*counts, f"{options.output}: {counted(written, 'pair')}", sep="\n")
    files = [f"data.{name}={Path(options.output) / name}" for name in FILES] + ["data.lowercase=true"] * lowercase
    print(f"train with: nmt-train data=text {shlex.join(files)} data.valid.src=FILE data.valid.tgt=FILE")


def _finished(options: DistillOptions, file: str) -> Rows:
    """Yield the pairs, each with its translations from the file."""
    try:
        rows = zip(iterate_pairs(options.src, options.tgt), written_translations(read_lines(file), file), strict=True)
        for row, (pair, texts) in enumerate(rows):
            columns = len(COLUMNS.findall(pair.source))  # which a translation keeps
            if any(len(COLUMNS.findall(text)) > columns for text in texts):
                raise other_columns(file, row)
            yield pair, texts
    except ValueError:
        raise UserError(
            f"translations={file}: has more or fewer lines than {options.src}; translate all lines again"
        ) from None


def _translated(options: DistillOptions, translator: Translator, shards: ExitStack) -> Rows:
    """Return an iterator over the pairs, each with its translations from workers."""
    waiting = deque[list[Pair]]()  # groups that are being translated

    def groups() -> Iterator[list[str]]:
        pairs = iterate_pairs(options.src, options.tgt)
        while group := list(islice(pairs, GROUP)):
            waiting.append(group)
            yield [pair.source for pair in group]

    results = shown(shards.enter_context(shard_results_of(translator, options, groups())), options.src)
    has_lists = options.search.n_best > 1
    lists = (
        written_translations(done.output, "") if has_lists else ([text] for text in done.output) for done in results
    )
    return (row for group in lists for row in zip(waiting.popleft(), group, strict=True))


def _write(rows: Rows, distillation: Distillation, folder: Path, *, add_original: bool) -> int:
    """Write both files, and return how many pairs they have."""
    written = 0
    with ExitStack() as files:
        writers = (line_writer(str(folder / name), keep=False) for name in FILES)
        write_source, write_target = map(files.enter_context, writers)
        for pair, lines in rows:
            chosen = distillation.target(pair.target, lines)
            targets = ([] if chosen is None else [chosen]) + [pair.target] * add_original
            write_source([pair.source] * len(targets))
            write_target(targets)
            written += len(targets)
    return written
