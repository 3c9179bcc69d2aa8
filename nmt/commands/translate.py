"""nmt-translate: one line in, one line out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmt.commands.models import Progress, load_model, require_attention, translate_whatever_fits
from nmt.commands.options import asks_for_help, read_options, show_help
from nmt.commands.shell import run
from nmt.commands.streams import STDIN, input_groups, line_writer
from nmt.config.schema import Threads
from nmt.errors import UserError
from nmt.search.options import MAX_LENGTH_CEILING, SearchOptions

if TYPE_CHECKING:
    from nmt.inference.translator import Translation, Translator

HELP = f"""nmt-translate: translate text, one line in, one line out, in order.

  nmt-translate model=runs/demo < in.txt > out.txt
  nmt-translate model=runs/demo                         type lines, read translations
  nmt-translate model=runs/demo input=in.txt.gz output=out.txt alignments=out.pharaoh
  nmt-translate model=runs/demo search=greedy           one hypothesis only: faster
  nmt-translate model=runs/demo search.beam_size=8 search.n_best=3
  nmt-translate model=runs/demo search.temperature=0.8 search.n_best=4
  nmt-translate model=runs/demo engine=onnx             with graphs that nmt-export wrote; without torch
  nmt-translate model=runs/demo memory=memories         from what nmt-encode wrote, without the text

A blank line yields an empty line. No translation is longer than {MAX_LENGTH_CEILING} pieces. A line that does not
fit into memory yields an empty line and a warning. With n_best above 1, each line yields several, best first, as Moses
writes them: `number of the input line, from 0 ||| translation ||| score`."""


MEMORIES = 64  # read and translated together: a covariance of 512 states takes 1 MB


@dataclass(frozen=True, kw_only=True)
class Translate:
    """conf/translate.yaml."""

    model: str
    input: str | None
    memory: str | None
    output: str | None
    scores: bool
    alignments: str | None
    search: SearchOptions
    engine: Literal["auto", "torch", "onnx", "onnx-int8"]
    shortlist: bool
    device: str
    threads: Threads | None
    trust: list[str]


def main() -> None:
    run(translate)


def translate(arguments: list[str]) -> None:
    """Run the command. Raises UserError for whatever the user can put right."""
    if asks_for_help(arguments):
        show_help(HELP, "translate")
        return
    options = read_options("translate", Translate, arguments)
    refuse_one_file_for_two(options)
    if options.memory is not None and options.input is not None:
        raise UserError(f"memory={options.memory}: is what to translate, and so is input={options.input}; give one")
    if options.memory is not None and options.engine not in ("auto", "torch"):
        raise UserError(f"engine={options.engine}: memories are read by torch only; leave engine away")
    with ExitStack() as files:
        # Opened before the model is: whoever misspells a folder hears of it at once.
        write = files.enter_context(line_writer(options.output))
        link = files.enter_context(line_writer(options.alignments)) if options.alignments is not None else None
        translator = load_model(
            options.model,
            device=options.device,
            threads=options.threads,
            trust=options.trust,
            engine="torch" if options.memory is not None else options.engine,
            shortlist=options.shortlist,
        )
        if link is not None:
            require_attention(translator, f"alignments={options.alignments}")
        if options.scores or options.search.n_best > 1:
            print(describe_scores(options.search), file=sys.stderr)
        _translate_all(translator, options, write, link)


def refuse_one_file_for_two(options: Translate) -> None:
    """Raises UserError where what is read would be written over, or one result by the other."""
    named = {"output": options.output, "input": options.input, "memory": options.memory}
    named["alignments"] = options.alignments
    places: dict[Path, str] = {}
    for key, name in named.items():
        if name is not None and (other := places.setdefault(Path(name).resolve(), key)) != key:
            raise UserError(f"{key}={name}: is the {other} as well; give each a file of its own")


def describe_scores(search: SearchOptions) -> str:
    """What the numbers are, in one line."""
    alpha, beta = search.length_penalty, search.coverage_penalty
    what = "scores: natural log-probability of the pieces and </s>"
    if alpha == 0:
        what += ", not length-normalised (search.length_penalty=0)"
    else:
        what += (
            f", length-normalised: divided by ((5 + |Y|) / 6)^{alpha:g} (Wu et al. 2016), |Y| pieces with </s> "
            f"(search.length_penalty={alpha:g})"
        )
    return f"{what}, plus the coverage penalty (search.coverage_penalty={beta:g})" if beta else what


def _translate_all(
    translator: Translator,
    options: Translate,
    write: Callable[[Iterable[str]], None],
    link: Callable[[Iterable[str]], None] | None,
) -> None:
    terminal = options.input is None and options.memory is None and sys.stdin is not None and sys.stdin.isatty()
    if terminal:
        print("Type a line and press Enter to see its translation; Ctrl-D ends.", file=sys.stderr)
    progress = Progress(
        shown=sys.stderr.isatty() and not terminal and not (options.output is None and sys.stdout.isatty())
    )
    done = 0
    for found in _translations(translator, options, alignments=link is not None, prompt=_prompt if terminal else None):
        write([line for row, one in enumerate(found, done) for line in _output_lines(row, one, options)])
        if link is not None:
            link([_pharaoh(each) for one in found for each in one.n_best or [one]])
        done += len(found)
        progress.show(done)
    progress.close()


def _translations(
    translator: Translator, options: Translate, *, alignments: bool, prompt: Callable[[], None] | None
) -> Iterator[list[Translation]]:
    """Of the lines, or the memories, in groups and in order."""
    if options.memory is not None:
        yield from _of_memories(translator, Path(options.memory), options.search, alignments=alignments)
        return
    done, place = 0, options.input or STDIN
    for lines in input_groups(options.input, prompt):
        yield translate_whatever_fits(translator, lines, options.search, place=place, first=done, alignments=alignments)
        done += len(lines)


def _of_memories(
    translator: Translator, place: Path, search: SearchOptions, *, alignments: bool
) -> Iterator[list[Translation]]:
    from nmt.inference.encoded import translate_encoded
    from nmt.inference.memory_file import fingerprint, load_memory, memory_files

    files, model = memory_files(place), fingerprint(translator.trained)
    for first in range(0, len(files), MEMORIES):
        lines = [load_memory(file, translator.trained, model=model) for file in files[first : first + MEMORIES]]
        yield translate_encoded(translator, lines, search, alignments=alignments)


def _output_lines(row: int, one: Translation, options: Translate) -> Iterator[str]:
    """One line, or with n-best several; a blank or refused line has a single, empty translation."""
    if options.search.n_best > 1:
        for each in one.n_best or [one]:
            yield f"{row} ||| {each.text} ||| {each.score:.6f}"
    elif options.scores:
        yield f"{one.score:.6f}\t{one.text}"
    else:
        yield one.text


def _pharaoh(one: Translation) -> str:
    from nmt.alignment.links import argmax_links, format_pharaoh
    from nmt.alignment.word_weights import word_weights

    return "" if one.alignment is None else format_pharaoh(argmax_links(word_weights(one)))


def _prompt() -> None:
    print("> ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
