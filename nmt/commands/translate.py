"""nmt-translate: translate lines of text, or memories that nmt-encode stored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.commands.models import load_model, require_attention, warn_of_line
from nmt.commands.options import asks_for_help, show_help
from nmt.commands.shell import run
from nmt.commands.streams import STDIN, input_groups, line_counter, line_writer
from nmt.commands.translate_options import Translate, require_consistent
from nmt.config.plain import read_options
from nmt.errors import print_message
from nmt.inference.translation import alignment_lines, output_lines
from nmt.search.options import MAX_LENGTH_CEILING, SearchOptions
from nmt.system.progress import Progress

if TYPE_CHECKING:
    from nmt.inference.shards.shard import Done
    from nmt.inference.translation import Translation
    from nmt.inference.translator import Translator

HELP = f"""nmt-translate: translate text, one line in, one line out, in the same order.

  nmt-translate model=runs/demo < in.txt > out.txt
  nmt-translate model=runs/demo                         type a line, read its translation
  nmt-translate model=runs/demo input=in.txt.gz output=out.txt alignments=out.pharaoh
  nmt-translate model=runs/demo search=greedy           faster: one hypothesis instead of five
  nmt-translate model=runs/demo search.beam_size=8 search.n_best=3        the three best translations
  nmt-translate model=runs/demo search.temperature=0.8 search.n_best=4    four random translations
  nmt-translate model=runs/demo engine=onnx             run the graphs that nmt-export wrote, without torch
  nmt-translate model=runs/nested slots=8               use 8 slots of a model trained with attention=nested_memory
  nmt-translate model=runs/demo adapter=runs/b          with an adapter that nmt-train adapt=lora has trained
  nmt-translate model=runs/demo memory=memories         translate what nmt-encode stored, without the text
  nmt-translate model=runs/demo input=big.txt.gz output=out.txt workers=8     eight processes; continues after a stop
  nmt-translate model=runs/demo input=big.txt output=out.txt workers=64 cluster=ray address=auto

A blank line gives an empty line. A translation has at most {MAX_LENGTH_CEILING} pieces. A line that is too long
for the model or the machine gives an empty line and a warning on stderr. With search.n_best above 1, each input line
gives several output lines, best first, in the format of Moses: `input line, from 0 ||| translation ||| score`."""


MEMORIES = 64  # memories loaded and translated together: one covariance matrix of 512 × 512 takes 1 MB
EMPTY = "its translation is empty"


def main() -> None:
    run(translate)


def translate(arguments: list[str]) -> None:
    """Run nmt-translate with these arguments. Raises UserError for errors the user can fix."""
    if asks_for_help(arguments):
        show_help(HELP, "translate")
        return
    options = read_options("translate", Translate, arguments)
    require_consistent(options)
    with ExitStack() as shards, ExitStack() as files:  # the shards of a call are deleted after its files are complete
        # Opened before the model is loaded, so that a wrong path fails at once.
        keep = options.workers is None  # workers keep the finished lines themselves
        write = files.enter_context(line_writer(options.output, keep=keep))
        links = options.alignments
        write_links = None if links is None else files.enter_context(line_writer(links, keep=keep))
        engine = "torch" if options.memory is not None else options.engine
        settings = options.load_settings(engine=engine, shortlist=options.shortlist, slots=options.slots)
        translator = load_model(options.model, settings)
        if write_links is not None:
            require_attention(translator, f"alignments={options.alignments}")
        if options.scores or options.search.n_best > 1:
            print_message(describe_scores(options.search))
        if options.workers is None:
            _translate_all(translator, options, write, write_links)
            return
        from nmt.commands.shards import shard_results

        results = shards.enter_context(shard_results(translator, options))
        del translator  # each worker loads its own
        _write_results(results, options, write, write_links)


def describe_scores(search: SearchOptions) -> str:
    """Return one line that says how scores are computed."""
    alpha, beta = search.length_penalty, search.coverage_penalty
    formula = "scores: natural log-probability of all pieces and </s>"
    if alpha == 0:
        formula += ", not length-normalised (search.length_penalty=0)"
    else:
        formula += (
            f", length-normalised: divided by ((5 + |Y|) / 6)^{alpha:g} (Wu et al. 2016), where |Y| counts pieces "
            f"and </s> (search.length_penalty={alpha:g})"
        )
    return f"{formula}, plus the coverage penalty (search.coverage_penalty={beta:g})" if beta else formula


def _translate_all(
    translator: Translator,
    options: Translate,
    write: Callable[[Iterable[str]], None],
    write_links: Callable[[Iterable[str]], None] | None,
) -> None:
    """Translate everything. ``write`` receives the output lines and ``write_links`` (if any) the alignment lines."""
    interactive = options.input is None and options.memory is None and sys.stdin is not None and sys.stdin.isatty()
    if interactive:
        print_message("Type a line and press Enter to see its translation; Ctrl-D ends.")
    shown = not interactive and not (options.output is None and sys.stdout.isatty())
    progress = Progress(total=_total(options), on_terminal=shown)
    prompt = _prompt if interactive else None
    format_lines = partial(output_lines, n_best=options.search.n_best, scores=options.scores)
    done = 0
    groups = _translation_groups(translator, options, alignments=write_links is not None, prompt=prompt)
    with closing(groups):  # ends the threads at once if writing fails
        for translations in groups:
            write([line for row, best in enumerate(translations, done) for line in format_lines(row, best)])
            if write_links is not None:
                write_links(alignment_lines(translations))
            done += len(translations)
            progress.show(done)
    progress.close()


def _total(options: Translate) -> Callable[[], float | None]:
    """Return the function that returns the number of lines or memories to translate, if it can be known."""
    if options.memory is None:
        return line_counter(options.input)
    from nmt.inference.memory_file import memory_files

    return lambda: len(memory_files(Path(options.memory or "")))


def _write_results(
    results: Iterable[Done],
    options: Translate,
    write: Callable[[Iterable[str]], None],
    write_links: Callable[[Iterable[str]], None] | None,
) -> None:
    """Write the results of shards, in order, and print the warnings about their lines."""
    progress = Progress(total=_total(options))
    done = 0
    for result in results:
        warn = warn_of_line(options.input or STDIN, EMPTY, first=done)
        for row, reason in result.warnings:
            warn(row, reason)
        write(result.output)
        if write_links is not None:
            write_links(result.links)
        done += result.lines
        progress.show(done)
    progress.close()


def _translation_groups(
    translator: Translator, options: Translate, *, alignments: bool, prompt: Callable[[], None] | None
) -> Generator[list[Translation]]:
    """Yield translations of the input lines (or stored memories), group by group, in order."""
    if options.memory is not None:
        yield from _translate_memories(translator, Path(options.memory), options.search, alignments=alignments)
        return
    groups = input_groups(options.input, prompt, show_waits=True)
    warn = warn_of_line(options.input or STDIN, EMPTY)
    yield from translator.translate_groups(groups, options.search, alignments=alignments, on_failure=warn)


def _translate_memories(
    translator: Translator, place: Path, search: SearchOptions, *, alignments: bool
) -> Iterator[list[Translation]]:
    """Yield translations of the memories in ``place`` (a folder or one file), ``MEMORIES`` at a time."""
    from nmt.inference.memories import translate_encoded
    from nmt.inference.memory_file import in_line_order, load_memory, memory_files, weights_fingerprint

    files, model = memory_files(place), weights_fingerprint(translator.trained)
    checked = in_line_order(files) if place.is_dir() else iter(files)
    while group := list(islice(checked, MEMORIES)):
        memories = [load_memory(file, translator.trained, model=model) for file in group]
        warn = partial(_warn_of_memory, group)
        yield translate_encoded(translator, memories, search, alignments=alignments, on_failure=warn)


def _warn_of_memory(files: Sequence[Path], row: int, reason: str) -> None:
    print_message(f"warning: {files[row]}: {reason}; {EMPTY}")


def _prompt() -> None:
    print_message("> ", end="")


if __name__ == "__main__":
    main()
