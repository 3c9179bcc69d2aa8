"""nmt-distill: training pairs for a small model, whose targets are translations of a large one.

Sequence-level distillation: Kim & Rush (2016), arXiv 1606.07947, §3.2. Of several translations, the one nearest to the
reference is chosen (sequence-level interpolation, §3.3).
"""

from __future__ import annotations

import shlex
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
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
from nmt.inference.scores import ignore_case, sentence_chrf
from nmt.inference.translation import Done, n_best_lists
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
                                             filter finished translations, of any program

Writes train.src and train.tgt into the new folder OUTPUT, and prints where their targets come from. Train on them with
data.train.src= and data.train.tgt=, and keep your own validation and test sets. If the command is stopped, repeat it to
continue: finished lines are kept in OUTPUT.shards. Each line of translations= is a translation, or a score, a tab and a
translation, as nmt-translate scores=true writes them.
Sequence-level distillation and, with search.n_best=, interpolation: Kim & Rush (2016)."""

FILES = ("train.src", "train.tgt")
TEACHER = "translation of the teacher"
Rows = Iterator[tuple[Pair, Sequence[str]]]
"""Each pair with its translations, best first, each after its score and a tab if it has a score."""


@dataclass(frozen=True, kw_only=True)
class DistillOptions(WorkerOptions):
    """The settings in conf/distill.yaml."""

    OWNERS = {
        **dict.fromkeys(("search", "engine", "shortlist", "workers"), ["model"]),
    }
    translations: str | None
    src: str
    tgt: str
    output: str
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


@dataclass(kw_only=True)
class Distillation:
    """Chooses the target of each pair, and counts the choices.

    A translation is rejected if it is empty, if its score is below ``min_score``, or if its chrF against the reference
    is below ``min_chrf``, without case if ``lowercase`` is set. Its pair then gets the reference, or no target if
    ``drops`` is set.
    """

    min_score: float | None = None
    min_chrf: float | None = None
    drops: bool = False
    lowercase: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    """Number of pairs for each reason of a rejection, and for ``TEACHER``: pairs that keep their translation."""

    def target(self, reference: str, lines: Sequence[str]) -> str | None:
        """Return the target of a pair: of its translations, the one with the highest chrF, unless it is rejected.

        Raises UserError if a line is not a translation, or a score, a tab and a translation.
        """
        columns = [self._columns(line) for line in lines]
        score, text = columns[0] if len(columns) == 1 else max(columns, key=lambda row: self._chrf(row[1], reference))
        if not text.strip():
            reason = "empty translation"
        elif self.min_score is not None and not (score is not None and score >= self.min_score):
            reason = f"score below {self.min_score:g}"
        elif self.min_chrf is not None and self._chrf(text, reference) < self.min_chrf:
            reason = f"chrF below {self.min_chrf:g}"
        else:
            reason = TEACHER
        self.counts[reason] += 1
        if reason == TEACHER:
            return text
        return None if self.drops else reference

    def _columns(self, line: str) -> tuple[float | None, str]:
        """Return the score of a line, or None if it has no score, and its translation."""
        *scores, text = line.split("\t")
        try:
            (score,) = map(float, scores) if scores or self.min_score is not None else (None,)
        except ValueError:
            needed = "a score, a tab and a translation" + (" or a translation" if self.min_score is None else "")
            raise UserError(f"translations: line {self.counts.total() + 1:,} must be {needed}") from None
        return score, text

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
            lines = iterate_lines(options.src, options.tgt, options.translations)
            rows: Rows = ((Pair(source, target), [line]) for source, target, line in lines)
        else:
            assert options.model is not None
            translator = load_model(options.model, options.load_settings)
            if options.min_score is not None:
                print_message(describe_scores(options.search))
            rows = _translated(options, translator, shards)
            lowercase = translator.lowercase
            del translator  # each worker loads its own
        distillation = Distillation(
            min_score=options.min_score,
            min_chrf=options.min_chrf,
            drops=options.rejected == "drop" or options.add_original,
            lowercase=ignore_case(options.lowercase, trained_on_lowercase=lowercase),
        )
        written = _write(rows, distillation, folder, add_original=options.add_original)
        total = counted(distillation.counts.total(), "pair")
        counts = [f"{count:,} of {total}: {reason}" for reason, count in distillation.counts.most_common()]
        if not written:
            raise UserError(f"src={options.src}: no pair is left ({'; '.join(counts)}); reject less")
    print(*counts, f"{options.output}: {counted(written, 'pair')}", sep="\n")
    files = [f"data.{name}={Path(options.output) / name}" for name in FILES] + ["data.lowercase=true"] * lowercase
    print(f"train with: nmt-train data=text {shlex.join(files)} data.valid.src=FILE data.valid.tgt=FILE")


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
    """Write both files, and return how many pairs they have."""
    written = 0
    with line_writer(str(folder / FILES[0])) as write_source, line_writer(str(folder / FILES[1])) as write_target:
        for pair, lines in rows:
            chosen = distillation.target(pair.target, lines)
            targets = ([] if chosen is None else [chosen]) + [pair.target] * add_original
            write_source([pair.source] * len(targets))
            write_target(targets)
            written += len(targets)
    return written
