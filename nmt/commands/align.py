"""nmt-align: write the word links that a model gives to sentence pairs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from nmt.alignment.aer import LostWords
from nmt.commands.options import (
    ModelOptions,
    command,
    load_model,
    require_with,
    warn_of_line,
)
from nmt.commands.streams import GROUP, STDIN, count_lines, input_groups, line_writer
from nmt.errors import UserError, counted
from nmt.system.progress import Progress

HELP = """nmt-align: write the word links of sentence pairs, one line per pair, in Pharaoh format (0-0 1-2 …).

  nmt-align model=runs/demo src=test.en tgt=test.de > out.links
  paste test.en test.de | nmt-align model=runs/demo > out.links

Without src= and tgt=, the command reads pairs from stdin: source, a tab, translation. i-j links source word i to target
word j, counted from 0. Each target word gets one link, to the source word with the largest weight when the model is
forced to decode the translation. A pair with an empty side gives an empty line. A source that is too long for the model
or the machine gives an empty line and a warning on stderr. nmt-evaluate scores the links against gold links."""


@dataclass(frozen=True, kw_only=True)
class AlignOptions(ModelOptions):
    """The settings in conf/align.yaml."""

    model: str
    src: str | None
    tgt: str | None

    def __post_init__(self) -> None:
        require_with(self, "src", "tgt")
        require_with(self, "tgt", "src")
        if self.src == self.tgt == "-":
            raise UserError("tgt=-: src=- names stdin too; give files, or remove both and pipe pairs with a tab")


@command(HELP, AlignOptions)
def align(options: AlignOptions) -> None:
    """Write the word links of the sentence pairs."""
    with line_writer(None) as write:
        groups = _pair_groups(options)
        translator = load_model(options.model, options.load_settings)
        translator.require_attention(f"model={options.model}")
        from nmt.data.links import format_pharaoh
        from nmt.inference.forced_decoding import forced_links

        progress = Progress("pair", total=lambda: count_lines(options.src), on_terminal=not sys.stdout.isatty())
        lost = LostWords({"source": options.src or STDIN, "target": options.tgt or STDIN})
        done = 0
        for sources, targets in groups:
            warn = warn_of_line(options.src or STDIN, "it is not aligned", first=done)
            on_lost = partial(lost.add, first=done)
            links = forced_links(translator, sources, targets, on_failure=warn, on_lost=on_lost)
            write(map(format_pharaoh, links))
            done += len(sources)
            progress.show(done)
        progress.close()
        lost.warn()


def _pair_groups(options: AlignOptions) -> Iterator[tuple[list[str], list[str]]]:
    """Return an iterator of sources and translations in groups. Files are read before it, so that errors come first."""
    if options.src is None or options.tgt is None:
        return _stdin_groups()
    from nmt.data.text_files import read_pairs

    pairs = iter(read_pairs(options.src, options.tgt, allow_empty=True))
    groups = iter(lambda: list(islice(pairs, GROUP)), [])
    return (([pair.source for pair in group], [pair.target for pair in group]) for group in groups)


def _stdin_groups() -> Iterator[tuple[list[str], list[str]]]:
    """Yield the pairs of stdin as soon as they arrive. Raises UserError for a wrong line, after the pairs before it."""
    done = 0
    for lines in input_groups(None):
        sides = [line.split("\t") if line.strip() else ["", ""] for line in lines]
        wrong = next((row for row, fields in enumerate(sides) if len(fields) != 2), len(sides))
        if wrong:
            yield [source for source, _ in sides[:wrong]], [target for _, target in sides[:wrong]]
        if wrong < len(sides):
            tabs = counted(len(sides[wrong]) - 1, "tab")
            fix = "write a source, one tab and a translation on each line"
            raise UserError(f"{STDIN}:{done + wrong + 1}: {tabs}; {fix}")
        done += len(lines)
