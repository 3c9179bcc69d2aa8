"""nmt-heatmap: draw a model's alignments as heatmaps, one picture per pair or one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nmt.alignment.aer import LostWords
from nmt.commands.options import (
    EMPTY,
    ModelOptions,
    command,
    load_model,
    translate_lines,
    warn_of_line,
)
from nmt.commands.streams import print_path, require_stdout
from nmt.data.links import Pair
from nmt.errors import UserError, counted, print_message
from nmt.files.atomic import own_folder, require_own
from nmt.inference.engines import EngineName
from nmt.inference.run_files import ALIGNMENTS
from nmt.search.options import SearchOptions
from nmt.settings.arguments import Count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nmt.inference.translation import Translation
    from nmt.inference.translator import Translator


HELP = """nmt-heatmap: draw a model's alignments, for given sentence pairs or for its own translations.

  nmt-heatmap model=runs/demo src=test.en output=pictures                    the model's own translations
  nmt-heatmap model=runs/demo src=test.en tgt=test.de output=pictures        given translations, force-decoded
  nmt-heatmap model=runs/demo src=test.en tgt=test.de links=test.links output=page format=html limit=null
  nmt-heatmap model=runs/demo src=test.en output=pictures format=svg granularity=piece
  nmt-heatmap model=runs/demo src=test.en output=figures format=pdf          for a paper: without titles
  nmt-heatmap model=runs/demo src=test.en output=slots granularity=slot      what each slot of a memory contributes

Writes one picture per pair, named by its line number, or one HTML page. Prints the name of each file written.
Colours go from 0 to 1 in every picture, so a colour means the same weight everywhere.

granularity=word: |A| normalised over the source, </s> dropped; the sum over a source word's pieces and the mean over
a target word's pieces. A row below shows what equal weights would give, which is more for long words. Words of scripts
without spaces, such as Chinese or Thai, are split into their pieces, except with links=.
granularity=piece: </s> included; attentions with negative weights keep the sign and are drawn in two colours, with 0 in
the middle of the scale; the others are normalised over the source.
granularity=slot: draws the pieces of memories such as attention=memory, one colour per slot. Slot k contributes
β_tk α_ks to a cell, and a cell mixes the colours of its slots.
In a picture, a side of more than 250 tokens is labelled with numbers from 0."""

FIX = "choose another output="
BUSY = "another process is drawing into it; wait until it ends, or choose another output="
Picture = tuple[int, Callable[..., None]]
"""The line of a pair, and a function that draws the pair into a file, with a title."""


@dataclass(frozen=True, kw_only=True)
class HeatmapOptions(ModelOptions):
    """The settings in conf/heatmap.yaml."""

    model: str
    src: str
    tgt: str | None
    output: str
    format: Literal["png", "svg", "pdf", "html"]
    granularity: Literal["word", "piece", "slot"]
    limit: Count | None
    links: str | None
    search: SearchOptions
    engine: EngineName

    @property
    def forced(self) -> bool:
        """Whether the model is forced to decode given targets, or its own ones again."""
        return self.tgt is not None or self.granularity == "slot"

    def __post_init__(self) -> None:
        self.search.require_one_best("only the best translation of a line is drawn")
        if self.tgt is not None and self.search != SearchOptions():
            raise UserError(f"tgt={self.tgt}: given translations are not searched for; remove search options, or tgt=")
        if self.forced and self.engine not in ("auto", "torch"):
            raise UserError(f"engine={self.engine}: tgt= and granularity=slot need engine=torch; remove engine=")
        if self.links is not None and (self.tgt is None or self.granularity != "word"):
            fix = "add tgt=FILE" if self.tgt is None else "use granularity=word"
            raise UserError(f"links={self.links}: gold links connect words of given translations; {fix}")
        if self.granularity == "slot":
            for given in [*self.search.settings(["sentences"]), *["format=html"] * (self.format == "html")]:
                raise UserError(f"{given}: granularity=slot draws a picture of the pieces of each line; remove it")


@command(HELP, HeatmapOptions)
def heatmap(options: HeatmapOptions) -> None:
    """Draw the alignments."""
    require_stdout()
    pairs = _read(options)
    engine = "torch" if options.forced else options.engine
    translator = load_model(options.model, replace(options.load_settings, engine=engine))
    translator.require_attention(f"model={options.model}")
    folder = Path(options.output)
    require_own(folder, fix=FIX)
    # All alignments come before the folder: a model may have nothing to draw.
    draw = _draw_slots if options.granularity == "slot" else _draw_weights
    pictures = draw([*_aligned(pairs, options, translator)], options, translator)
    name = Path(options.model).resolve().name
    with own_folder(folder, busy=BUSY, fix=FIX):
        for number, save in pictures:
            file = folder / (ALIGNMENTS if options.format == "html" else f"{number:04}.{options.format}")
            drawn = "slots" if options.granularity == "slot" else _origin(options)
            title = f"{name}, {translator.attention.name} attention\n{Path(options.src).name}, line {number}, {drawn}"
            save(file, title="" if options.format == "pdf" else title)
            print_path(file)


def _origin(options: HeatmapOptions) -> str:
    return "own translation" if options.tgt is None else "force-decoded"


def _read(options: HeatmapOptions) -> list[Pair]:
    """Return the first ``limit`` pairs, with their gold links if given. Without ``tgt``, their targets are empty.

    The files are read to the end, so that unequal lengths are always an error.
    """
    from nmt.data.text_files import read_lines, read_pairs

    if options.tgt is None:
        lines = read_lines(options.src)
        pairs = [Pair(line, "") for line in islice(lines, options.limit)]
        count = len(pairs) + sum(1 for _ in lines)  # a large file is counted, not kept
    else:
        pairs = read_pairs(options.src, options.tgt, options.links)
        count = len(pairs)
    if options.limit is not None and options.limit < count:
        print_message(f"limit={options.limit}: draws the first of {count:,} pairs; set limit=null to draw all")
    return pairs[: options.limit]


def _aligned(
    pairs: Sequence[Pair], options: HeatmapOptions, translator: Translator
) -> Iterator[tuple[int, Pair, Translation]]:
    """Yield line number, texts and alignment of each pair: force-decoded, or with the model's own translation.

    Pairs without words on a side are skipped and counted in one warning at the end.
    """
    sources = [pair.source for pair in pairs]
    alignments: Sequence[Translation] = []
    if options.tgt is None:
        warn = warn_of_line(options.src, EMPTY)
        search = replace(options.search, sentences=None) if options.forced else options.search
        alignments = own = translate_lines(translator, sources, search, alignments=not options.forced, on_failure=warn)
        pairs = [Pair(source, best.text) for source, best in zip(sources, own, strict=True)]
    if options.forced:
        from nmt.inference.forced_decoding import force_decode

        warn = warn_of_line(options.src, "it is not aligned")
        alignments = force_decode(translator, sources, [pair.target for pair in pairs], on_failure=warn)
    empty = 0
    for number, (pair, aligned) in enumerate(zip(pairs, alignments, strict=True), 1):
        words = [max(side, default=-1) for side in (aligned.source_words, aligned.target_words)]
        if aligned.alignment is None or min(words) < 0:
            empty += aligned.log_prob > float("-inf")  # -inf: the line was too long and has its own warning
        else:
            yield number, pair, aligned
    if empty:
        print_message(
            f"warning: {options.src}: {empty:,} of {counted(len(pairs), 'pair')} not drawn: "
            "the line or its translation is empty"
        )


def _draw_weights(
    pairs: Sequence[tuple[int, Pair, Translation]], options: HeatmapOptions, translator: Translator
) -> list[Picture]:
    """Return a picture of the weights of each pair, or one page of all."""
    from nmt.alignment.heatmap import draw_heatmap
    from nmt.alignment.page import Example, alignment_page
    from nmt.alignment.word_weights import display_pieces, display_weights, lost_words
    from nmt.files.atomic import write_lines

    signed = options.granularity == "piece" and translator.attention.signed
    lost = LostWords({"source": options.src, "target": str(options.tgt)})
    examples: list[Example] = []
    for number, pair, aligned in pairs:
        gold = None if pair.links is None else frozenset((*pair.links, *pair.possible))
        if options.granularity == "piece":
            display = display_pieces(aligned, signed=signed)
        else:
            display = display_weights(aligned, split=gold is None)
            for side, words in lost_words(aligned):
                lost.add(number - 1, side, words)
        examples.append(Example(number, *display, gold))
    lost.warn()
    if options.format != "html":
        return [
            (example.number, partial(_save, draw_heatmap, example[1:5], signed=signed, gold=example.gold))
            for example in examples
        ]

    def save(file: Path, title: str) -> None:
        page = alignment_page(
            examples,
            title=f"Alignments of {Path(options.src).name} by {Path(options.model).resolve().name}",
            attention=translator.attention.name,
            note=f"{_origin(options)}, by {options.granularity}",
            signed=signed,
        )
        write_lines(file, page.rstrip("\n").split("\n"))

    return [(0, save)]


def _draw_slots(
    pairs: Sequence[tuple[int, Pair, Translation]], options: HeatmapOptions, translator: Translator
) -> list[Picture]:
    """Return a picture of each pair that shows which slot each weight comes from.

    Raises UserError if the slots cannot be drawn.
    """
    from nmt.alignment.heatmap import draw_slots
    from nmt.inference.forced_decoding import slot_weights

    pictures: list[Picture] = []
    for number, pair, aligned in pairs:
        slots = slot_weights(translator, pair.source, pair.target)
        if slots is None or min(slots.write.min(), slots.read.min()) < 0:  # also of kernels whose sums are positive
            reason = "keeps every source state" if slots is None else "has negative weights"
            name = translator.attention.name
            raise UserError(
                f"granularity=slot: {name} attention {reason}; use a model with slots, such as attention=memory"
            )
        pictures.append((number, partial(_save, draw_slots, (*slots, aligned.source_tokens, aligned.tokens))))
    return pictures


def _save(draw: Callable[..., Figure], shown: Sequence[Any], file: Path, **options: Any) -> None:
    """Draw ``shown`` into the file."""
    from nmt.alignment.figures import save_figure

    save_figure(draw(*shown, **options), file)
