"""nmt-heatmap: pictures of what a model looks at while it translates."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmt.commands.models import force_whatever_fits, load_model, require_attention, translate_lines
from nmt.commands.options import asks_for_help, read_options, show_help
from nmt.commands.shell import run
from nmt.config.schema import Count, Threads
from nmt.errors import UserError
from nmt.search.options import SearchOptions

if TYPE_CHECKING:
    import numpy as np

    from nmt.alignment.page import Example
    from nmt.inference.forced import Forced
    from nmt.inference.translator import Translation, Translator

    Links = frozenset[tuple[int, int]]

HELP = """nmt-heatmap: draw what a model looks at, for given sentence pairs or for its own translations.

  nmt-heatmap model=runs/demo src=test.en output=pictures                    the model's own, by beam search
  nmt-heatmap model=runs/demo src=test.en tgt=test.de output=pictures        force-decoded
  nmt-heatmap model=runs/demo src=test.en tgt=test.de links=test.links output=pictures format=html limit=null
  nmt-heatmap model=runs/demo src=test.en output=pictures format=svg granularity=piece

Writes one picture a pair, named by its line number, or one page, and prints the name of each file written.
Words: |A| normalised over the source, </s> dropped, the sum over a word's source pieces and the mean over its target
pieces. Pieces: with </s>; signed attentions as they are, by a diverging map, the others normalised over the source.
In a picture, a side of more than 120 tokens is numbered from 0 instead of named; on a page, a pair of more than 100,000
cells is left out."""

ON_A_PAGE = 100_000  # cells of one pair: 8 MB of page


@dataclass(frozen=True, kw_only=True)
class Heatmap:
    """conf/heatmap.yaml."""

    model: str
    src: str
    tgt: str | None
    output: str
    format: Literal["png", "svg", "html"]
    granularity: Literal["word", "piece"]
    limit: Count | None
    links: str | None
    links_base: Literal[0, 1]
    search: SearchOptions
    device: str
    threads: Threads | None
    trust: list[str]

    def __post_init__(self) -> None:
        if self.links is None:
            return
        if self.tgt is None:
            raise UserError(f"links={self.links}: belong to given translations; add tgt=FILE")
        if self.granularity == "piece":
            raise UserError(f"links={self.links}: link words, not pieces; use granularity=word")


def main() -> None:
    run(heatmap)


def heatmap(arguments: list[str]) -> None:
    """Run the command. Raises UserError for whatever the user can put right."""
    if asks_for_help(arguments):
        show_help(HELP, "heatmap")
        return
    options = read_options("heatmap", Heatmap, arguments)
    sources, targets, golds = _read(options)
    translator = load_model(options.model, device=options.device, threads=options.threads, trust=options.trust)
    require_attention(translator, f"model={options.model}")
    folder = Path(options.output)
    _make(folder)
    signed = options.granularity == "piece" and translator.attention.signed
    pictures = list(_pictures(translator, options, sources, targets, golds, signed))
    for file in _draw(pictures, folder, options, translator, signed):
        print(file, flush=True)


def _read(options: Heatmap) -> tuple[list[str], list[str] | None, list[Links] | None]:
    """Sources, targets and gold links (sure and possible), as far as they are given, up to the limit.

    The files are read to their ends all the same: sides of unequal length are an error wherever they part.
    """
    from nmt.alignment.links import read_gold
    from nmt.text.files import read_lines, read_pairs

    if options.tgt is None:
        return list(read_lines(options.src))[: options.limit], None, None
    pairs = read_pairs(options.src, options.tgt, options.links, links_base=options.links_base)
    golds = None
    if options.links is not None:
        golds = [gold.possible for gold in read_gold(options.links, base=options.links_base)][: options.limit]
    pairs = pairs[: options.limit]
    return [pair.source for pair in pairs], [pair.target for pair in pairs], golds


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"output={folder}: no folder can be made there ({error.strerror}); name another") from None


def _pictures(
    translator: Translator,
    options: Heatmap,
    sources: list[str],
    targets: list[str] | None,
    golds: list[Links] | None,
    signed: bool,
) -> Iterator[Example]:
    """What there is to see; pairs with an empty side have nothing, and their number is said at the end."""
    from nmt.alignment.page import Example

    found = _seen(translator, options, sources, targets)
    empty = 0
    for row, one in enumerate(found):
        if one.alignment is None or not one.source_words or not one.target_words:
            empty += one.log_prob > float("-inf")  # else a line that does not fit, which has its warning
            continue
        target = targets[row] if targets is not None else getattr(one, "text", "")
        weights, left, right = _weights(one, translator.case(sources[row]), target, options.granularity, signed)
        yield Example(row + 1, weights, left, right, golds[row] if golds is not None else None)
    if empty:
        print(
            f"warning: {options.src}: {empty:,} of {len(found):,} pairs have an empty side: not drawn", file=sys.stderr
        )


def _seen(
    translator: Translator, options: Heatmap, sources: list[str], targets: list[str] | None
) -> Sequence[Forced | Translation]:
    """Every pair with its alignment: given targets force-decoded, or the model's own translations."""
    if targets is not None:
        return force_whatever_fits(translator, sources, targets, place=options.src)
    return translate_lines(translator, sources, options.search, place=options.src, alignments=True)


def _weights(
    one: Forced | Translation, source: str, target: str, granularity: str, signed: bool
) -> tuple[np.ndarray, list[str], list[str]]:
    """Weights (T, S) with the names of the columns and of the rows."""
    from nmt.alignment.word_weights import fit_word_weights, piece_weights

    if granularity == "piece":
        return piece_weights(one, signed=signed), one.source_tokens, one.tokens
    left, right = source.split(), target.split()
    return fit_word_weights(one, left, right), left, right


def _draw(
    pictures: list[Example], folder: Path, options: Heatmap, translator: Translator, signed: bool
) -> Iterator[Path]:
    """Each file, as soon as it is whole."""
    from nmt.alignment.heatmap import save_heatmap
    from nmt.alignment.page import alignment_page
    from nmt.storage import write_lines

    how = "own translation" if options.tgt is None else "force-decoded"
    if options.format == "html":
        examples = list(_on_a_page(pictures, options))
        title = f"Alignments of {Path(options.src).name}"
        note = f"{how}, by {options.granularity}"
        page = alignment_page(examples, title=title, attention=translator.attention.name, note=note, signed=signed)
        write_lines(folder / "alignments.html", page.rstrip("\n").split("\n"))
        yield folder / "alignments.html"
        return
    for one in pictures:
        file = folder / f"{one.number:04}.{options.format}"
        title = f"{Path(options.src).name}, line {one.number}, {how}"
        save_heatmap(one.weights, one.source, one.target, file, title=title, signed=signed, gold=one.gold)
        yield file


def _on_a_page(pictures: list[Example], options: Heatmap) -> Iterator[Example]:
    for one in pictures:
        if one.weights.size <= ON_A_PAGE:
            yield one
        else:
            height, width = one.weights.shape
            print(
                f"warning: {options.src}:{one.number}: {width:,} × {height:,} {options.granularity}s are too many for "
                "a page; it is left out, use format=png",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
