"""nmt-translate: translate lines of text, in one process or several."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from nmt.commands.options import (
    EMPTY,
    EngineOptions,
    command,
    load_model,
    refuse_both,
    refuse_same_files,
    translate_lines,
    warn_of_line,
)
from nmt.commands.streams import STDIN, count_lines, full_groups, input_groups, is_stdout, line_writer
from nmt.data.text_files import read_lines
from nmt.errors import UserError, print_message
from nmt.inference.sentences import say_split
from nmt.inference.translation import Done, LostTexts, ScoreColumn, alignment_lines, cuts, output_lines
from nmt.search.options import MAX_LENGTH_CEILING
from nmt.settings.arguments import AtLeast, AtMost
from nmt.system.machine import usable_cores
from nmt.system.progress import Progress
from nmt.text.glossary import warn_if_unused

if TYPE_CHECKING:
    from nmt.inference.translator import Translator


HELP = f"""nmt-translate: translate text, one line in, one line out, in the same order.

  nmt-translate model=runs/demo < in.txt > out.txt
  nmt-translate model=runs/demo                         type a line, read its translation
  nmt-translate model=runs/demo input=in.txt.gz output=out.txt alignments=out.pharaoh
  nmt-translate model=runs/demo search=greedy           faster: one hypothesis instead of five
  nmt-translate model=runs/demo search.beam_size=8 search.n_best=3        the three best translations
  nmt-translate model=runs/demo search.temperature=0.8 search.n_best=4    four random translations
  nmt-translate model=runs/demo search.glossary=terms.tsv                 use these terms
  nmt-translate model=runs/demo search.keep_numbers=true                  keep numbers, as {{name}}, %s and 😀 are kept
  nmt-translate model=runs/demo search.sentences=en < report.txt          each sentence of a line on its own, by the
                                                        rules of English; null: whole lines
  nmt-translate model=runs/demo format=html input=page.html output=seite.html
  nmt-translate model=runs/demo engine=onnx             run the graphs that nmt-export wrote, without torch
  nmt-translate model=[runs/a,runs/b]                   an ensemble of models with one vocabulary
  nmt-translate model=runs/demo prefix=begin.txt        each translation begins with a line of this file
  nmt-translate model=runs/demo input=big.txt.gz output=out.txt workers=8     eight processes; continues after a stop

A blank line gives an empty line. A translation has at most {MAX_LENGTH_CEILING} pieces. A line that is too long
for the model or the machine gives an empty line and a warning on stderr. With search.n_best above 1, each input line
gives several output lines, best first, in the format of Moses: `input line, from 0 ||| translation ||| score`. A
score is the natural log-probability of all pieces and </s>, divided by ((5 + |Y|) / 6)^search.length_penalty (Wu et al.
2016) for |Y| pieces and </s>, minus the coverage penalty; a line has the sum over its sentences."""


WorkerCount = Annotated[int, AtLeast(1), AtMost(4096)]


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(EngineOptions):
    """The settings of a command whose workers can translate."""

    model: str | list[str] | None
    output: str | None
    workers: WorkerCount | None


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(WorkerOptions):
    """The settings in conf/translate.yaml."""

    model: str | list[str]
    input: str | None
    format: Literal["text", "html"]
    scores: ScoreColumn
    alignments: str | None
    prefix: str | None


def _require_consistent(options: TranslateOptions) -> None:
    """Raise UserError if settings exclude each other, or if an output would overwrite an input or the other output."""
    paths = {"output": options.output, "input": options.input, "prefix": options.prefix}
    paths |= {"alignments": options.alignments, "search.glossary": options.search.glossary}
    refuse_same_files(paths)
    for key in ("prefix", "search.glossary"):
        if paths[key] == "-" and options.input is None:
            raise UserError(f"{key}=-: stdin already has the text; name a file")
    if options.alignments is not None and is_stdout(options.alignments) and is_stdout(options.output):
        raise UserError(f"alignments={options.alignments}: stdout already gets the translations; name a file")
    refuse_both(options, "prefix", "workers")
    if options.workers is not None and options.output is None:
        raise UserError(f"workers={options.workers}: finished shards are kept beside the output; add output=FILE")
    if options.format != "text":
        for name in ("workers", "prefix", "alignments", "scores"):
            if value := getattr(options, name):
                raise UserError(f"{name}={str(value).lower()}: format=html writes one document; remove {name}=")
        options.search.require_one_best("format=html writes one document")


@command(HELP, TranslateOptions)
def translate(options: TranslateOptions) -> None:
    """Write the translations."""
    _require_consistent(options)
    with ExitStack() as shards, ExitStack() as files:  # the shards of a call are deleted after its files are complete
        # Opened before the model is loaded, so that a wrong path fails at once.
        keep = options.workers is None  # workers keep the finished lines themselves
        end = "\n" if options.format == "text" else ""
        write = files.enter_context(line_writer(options.output, keep=keep, end=end))
        links = options.alignments
        write_links = None if links is None else files.enter_context(line_writer(links, keep=keep))
        prefixes = None if options.prefix is None else list(read_lines(options.prefix))
        translator = load_model(options.model, options.load_settings)
        if options.format != "text":
            translator.require_attention(f"format={options.format}")
            _translate_page(translator, options, write)
            return
        if write_links is not None:
            translator.require_attention(f"alignments={options.alignments}")
        if options.workers is None:
            results: Iterator[Done] = files.enter_context(closing(_translated(translator, options, prefixes)))
        else:
            context = shard_results_of(
                translator,
                options,
                full_groups(options.input),
                scores=options.scores,
                alignments=write_links is not None,
            )
            results = shards.enter_context(context)
        on_terminal = options.output is not None or not sys.stdout.isatty()
        for result in shown(results, options.input, on_terminal=on_terminal):
            write(result.output)
            if write_links is not None:
                write_links(result.links)


def _translated(translator: Translator, options: TranslateOptions, prefixes: list[str] | None) -> Generator[Done]:
    """Yield the results of the input lines, group by group."""
    if options.input is None and sys.stdin is not None and sys.stdin.isatty():
        print_message("Type a line and press Enter to see its translation; Ctrl-D ends.")
    failures: list[tuple[int, str]] = []
    groups = translator.translate_groups(
        warn_if_unused(input_groups(options.input), options.search.glossary),
        options.search,
        prefixes=prefixes,
        alignments=bool(options.alignments),
        on_failure=lambda row, reason: failures.append((row, reason)),
    )
    done = split_lines = 0
    with closing(groups):  # ends the threads at once if writing fails
        for translations in groups:
            output = [*output_lines(translations, done, n_best=options.search.n_best, scores=options.scores)]
            links = alignment_lines(translations) if options.alignments else []
            warnings = sorted([(row - done, reason) for row, reason in failures] + cuts(translations))
            failures.clear()
            yield Done(len(translations), output, links, warnings, split_lines=translator.split_lines - split_lines)
            split_lines = translator.split_lines
            done += len(translations)


def _translate_page(translator: Translator, options: TranslateOptions, write: Callable[[Iterable[str]], None]) -> None:
    """Translate an HTML page. A sentence that cannot be translated stays as it is."""
    from nmt.documents import name_utf8, split_text

    name = options.input or STDIN
    page = "".join(read_lines(options.input or "-", allow_empty=True, keep_ends=True))
    segments = split_text(name_utf8(page), "html")
    sources = segments.lines
    if page and not sources:
        print_message(f"warning: {name}: nothing to translate with format=html; the output is a copy")
    warn = warn_of_line(name, "it stays as it is", separator=": sentence ")
    translations = translate_lines(translator, sources, options.search, markup=True, on_failure=warn, unit="sentence")
    texts = [best.text or source for best, source in zip(translations, sources, strict=True)]
    write([segments.fill(texts)])


def shard_results_of(
    translator: Translator,
    options: WorkerOptions,
    groups: Iterable[list[str]],
    *,
    scores: ScoreColumn = False,
    alignments: bool = False,
) -> AbstractContextManager[Iterator[Done]]:
    """Return a context with the results of the shards, one for each group of lines: see ``shard_results``."""
    assert options.model is not None
    from nmt.inference.shards import TranslateShard, model_fingerprints, shard_results

    output = Path(str(options.output))  # a folder may end in a slash
    workers = options.workers or 1
    threads = options.threads or max(1, usable_cores() // workers)
    job = TranslateShard(
        model=options.model,
        fingerprints=model_fingerprints(translator, options.model),
        settings=replace(options.load_settings, threads=threads),
        search=translator.search_options(options.search, alignments=alignments),
        scores=scores,
        alignments=alignments,
        folder=output.with_name(f"{output.name}.shards"),
    )
    return shard_results(translator, job, warn_if_unused(groups, options.search.glossary), workers)


def shown(results: Iterable[Done], path: str | None, *, on_terminal: bool = True) -> Iterator[Done]:
    """Yield the results of the lines of the file ``path``, and print progress and warnings about the lines.

    ``on_terminal`` is false where results are printed on the same terminal.
    """
    progress = Progress(total=lambda: count_lines(path), on_terminal=on_terminal)
    done = split_lines = 0
    lost = LostTexts()
    for result in results:
        warn = warn_of_line(path or STDIN, EMPTY, first=done)
        for row, reason in result.warnings:
            warn(row, reason)
        for row, texts in result.lost:
            lost.add(done + row, texts)
        yield result
        done += result.lines
        split_lines += result.split_lines
        progress.show(done)
    progress.close()
    say_split(split_lines)
    if lost.problem:
        print_message(f"warning: {lost.problem}")
