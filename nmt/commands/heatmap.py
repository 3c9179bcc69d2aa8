"""nmt-heatmap: draw a model's alignments as heatmaps, one picture per pair or one HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nmt.alignment.aer import LostWords
from nmt.commands.options import (
    EMPTY,
    ModelOptions,
    command,
    load_model,
    require_attention,
    translate_lines,
    warn_of_line,
)
from nmt.commands.streams import print_path, require_stdout
from nmt.data.pair import Pair
from nmt.errors import UserError, counted, print_message
from nmt.files.atomic import own_folder, require_own
from nmt.inference.engines import EngineName
from nmt.inference.run_files import ALIGNMENTS
from nmt.search.options import SearchOptions
from nmt.settings.arguments import Count

if TYPE_CHECKING:
    from nmt.alignment.page import Example
    from nmt.inference.forced_decoding import Slots
    from nmt.inference.translation import Translation
    from nmt.inference.translator import Translator


HELP = """nmt-heatmap: draw a model's alignments, for given sentence pairs or for its own translations.

  nmt-heatmap model=runs/demo src=test.en output=pictures                    the model's own translations
  nmt-heatmap model=runs/demo src=test.en tgt=test.de output=pictures        given translations, force-decoded
  nmt-heatmap model=runs/demo src=test.en tgt=test.de links=test.links output=pictures format=html limit=null
  nmt-heatmap model=runs/demo src=test.en output=pictures format=svg granularity=piece
  nmt-heatmap model=runs/demo src=test.en output=figures format=pdf title=false      for a paper
  nmt-heatmap model=runs/demo src=test.en output=slots slots=true            what each slot of a memory contributes

Writes one picture per pair, named by its line number, or one HTML page. Prints the name of each file written.
Colours go from 0 to 1 in every picture, so a colour means the same weight everywhere.

granularity=word: |A| normalised over the source, </s> dropped; the sum over a source word's pieces and the mean over
a target word's pieces. Words of scripts without spaces, such as Chinese or Thai, are split into their pieces, except
with links=. granularity=piece: </s> included; attentions with negative weights keep the sign and are drawn
in two colours, with 0 in the middle of the scale; the others are normalised over the source. The
bytes of a character that the tokenizer does not know are labelled <0xE2> ❤ 1/3, <0x9D> ❤ 2/3 and <0xA4> ❤ 3/3.
slots=true: draws the pieces of memories such as attention=memory, one colour per slot. Slot k contributes β_tk α_ks
to a cell, and a cell mixes the colours of its slots.
In a picture, a side of more than 250 tokens is labelled with numbers from 0. A page skips pairs of more than 100,000
cells."""

FIX = "choose another output="
BUSY = "another process is drawing into it; wait until it ends, or choose another output="
MAX_PAGE_CELLS = 100_000  # for one pair: 8 MB of HTML


@dataclass(frozen=True, kw_only=True)
class HeatmapOptions(ModelOptions):
    """The settings in conf/heatmap.yaml."""

    model: str
    src: str
    tgt: str | None
    output: str
    format: Literal["png", "svg", "pdf", "html"]
    title: bool
    granularity: Literal["word", "piece"]
    slots: bool
    limit: Count | None
    links: str | None
    search: SearchOptions
    engine: EngineName

    @property
    def forced(self) -> bool:
        """Whether the model is forced to decode given targets, or its own ones again."""
        return self.tgt is not None or self.slots

    def __post_init__(self) -> None:
        self.search.require_one_best("only the best translation of a line is drawn")
        if self.tgt is not None and self.search != SearchOptions():
            raise UserError(f"tgt={self.tgt}: given translations are not searched for; remove search options, or tgt=")
        if self.forced and self.engine not in ("auto", "torch"):
            raise UserError(f"engine={self.engine}: tgt= and slots=true need engine=torch; remove engine=")
        if self.links is not None and (self.tgt is None or self.granularity == "piece"):
            fix = "add tgt=FILE" if self.tgt is None else "use granularity=word"
            raise UserError(f"links={self.links}: gold links connect words of given translations; {fix}")
        with_slots = {"links": self.links, "search.sentences": self.search.sentences}
        if self.format == "html":
            with_slots["format"] = self.format
        for key, value in with_slots.items() if self.slots else ():
            if value is not None:
                raise UserError(f"{key}={value}: slots=true draws a picture of the pieces of each line; remove {key}=")


@command(HELP, HeatmapOptions)
def heatmap(options: HeatmapOptions) -> None:
    """Draw the alignments."""
    require_stdout()
    pairs = _read(options)
    engine = "torch" if options.forced else options.engine
    translator = load_model(options.model, replace(options.load_settings, engine=engine))
    require_attention(translator, f"model={options.model}")
    folder = Path(options.output)
    require_own(folder, fix=FIX)
    # Before the folder is created: a model may have nothing to draw.
    if options.slots:
        files = _draw_slots([*_slots(pairs, options, translator)], options, translator)
    else:
        files = _draw([*_examples(pairs, options, translator)], options, translator)
    with own_folder(folder, busy=BUSY, fix=FIX):
        for file in files:
            print_path(file)


def _read(options: HeatmapOptions) -> list[Pair]:
    """Return the first ``limit`` pairs, with their gold links if given. Without ``tgt``, their targets are empty.

    The files are read to the end, so that unequal lengths are always an error.
    """
    from nmt.data.text_files import read_lines, read_pairs

    if options.tgt is None:
        return [Pair(line, "") for line in islice(read_lines(options.src), options.limit)]
    return read_pairs(options.src, options.tgt, options.links, limit=options.limit)


def _examples(pairs: Sequence[Pair], options: HeatmapOptions, translator: Translator) -> Iterator[Example]:
    """Yield the pairs to draw."""
    from nmt.alignment.page import Example
    from nmt.alignment.word_weights import display_pieces, display_weights, lost_words

    lost = LostWords({"source": options.src, "target": str(options.tgt)})
    for row, pair, aligned in _aligned(pairs, options, translator):
        gold = None if pair.links is None else frozenset((*pair.links, *pair.possible))
        if options.granularity == "piece":
            display = display_pieces(aligned, signed=translator.attention.signed)
        else:
            display = display_weights(aligned, split=gold is None)
            for side, words in lost_words(aligned):
                lost.add(row, side, words)
        yield Example(row + 1, *display, gold)
    lost.warn()


def _aligned(
    pairs: Sequence[Pair], options: HeatmapOptions, translator: Translator
) -> Iterator[tuple[int, Pair, Translation]]:
    """Yield row, texts and alignment of each pair: force-decoded, or with the model's own translation as target.

    Pairs without words on a side are skipped and counted in one warning at the end.
    """
    alignments: Sequence[Translation]
    if options.forced:
        from nmt.inference.forced_decoding import force_decode

        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        alignments = force_decode(translator, *sides, on_failure=warn_of_line(options.src, "it is not aligned"))
    else:
        pairs, alignments = _translate(pairs, options, translator, alignments=True)
    empty = 0
    for row, pair in enumerate(pairs):
        aligned = alignments[row]
        words = [max(side, default=-1) for side in (aligned.source_words, aligned.target_words)]
        if aligned.alignment is None or min(words) < 0:
            empty += aligned.log_prob > float("-inf")  # -inf: the line was too long and has its own warning
        else:
            yield row, pair, aligned
    if empty:
        print_message(
            f"warning: {options.src}: {empty:,} of {counted(len(pairs), 'pair')} not drawn: "
            "the line or its translation is empty"
        )


def _translate(
    pairs: Sequence[Pair], options: HeatmapOptions, translator: Translator, *, alignments: bool = False
) -> tuple[list[Pair], list[Translation]]:
    """Return the pairs with the model's own translations as targets, and these translations."""
    sources = [pair.source for pair in pairs]
    warn = warn_of_line(options.src, EMPTY)
    translations = translate_lines(translator, sources, options.search, alignments=alignments, on_failure=warn)
    return [Pair(source, best.text) for source, best in zip(sources, translations, strict=True)], translations


def _draw(examples: Sequence[Example], options: HeatmapOptions, translator: Translator) -> Iterator[Path]:
    """Draw the examples and yield each file as soon as it is complete."""
    from nmt.alignment.heatmap import save_heatmap
    from nmt.alignment.page import alignment_page
    from nmt.files.atomic import write_lines

    origin = "own translation" if options.tgt is None else "force-decoded"
    signed = options.granularity == "piece" and translator.attention.signed
    if options.format == "html":
        page = alignment_page(
            list(_page_examples(examples, options)),
            title=f"Alignments of {Path(options.src).name} by {Path(options.model).resolve().name}",
            attention=translator.attention.name,
            note=f"{origin}, by {options.granularity}",
            signed=signed,
            heading=options.title,
        )
        file = Path(options.output, ALIGNMENTS)
        write_lines(file, page.rstrip("\n").split("\n"))
        yield file
        return
    for number, weights, source, target, gold in examples:
        file = Path(options.output, f"{number:04}.{options.format}")
        title = _title(options, translator, "", f"{number}, {origin}")
        save_heatmap(weights, source, target, file, title=title, signed=signed, gold=gold)
        yield file


def _slots(
    pairs: Sequence[Pair], options: HeatmapOptions, translator: Translator
) -> Iterator[tuple[int, Translation, Slots]]:
    """Yield number, pieces and weights of the slots of each pair. Raises UserError if they cannot be drawn."""
    from nmt.inference.forced_decoding import slot_weights

    if options.tgt is None:
        pairs, _ = _translate(pairs, options, translator)
    for row, pair, aligned in _aligned(pairs, options, translator):
        slots = slot_weights(translator, pair.source, pair.target)
        if slots is None or min(slots.write.min(), slots.read.min()) < 0:  # also of kernels whose sums are positive
            reason = "keeps every source state" if slots is None else "has negative weights"
            name = translator.attention.name
            raise UserError(f"slots=true: {name} attention {reason}; use a model with slots, such as attention=memory")
        yield row + 1, aligned, slots


def _draw_slots(
    slots: Sequence[tuple[int, Translation, Slots]], options: HeatmapOptions, translator: Translator
) -> Iterator[Path]:
    """Draw which slot each weight comes from, and yield each file as soon as it is complete."""
    from nmt.alignment.heatmap import save_slots
    from nmt.alignment.word_weights import piece_labels

    for number, aligned, weights in slots:
        file = Path(options.output, f"{number:04}.{options.format}")
        labels = (piece_labels(aligned.source_tokens), piece_labels(aligned.tokens))
        save_slots(*weights, *labels, file, title=_title(options, translator, ", slots", f"{number}"))
        yield file


def _title(options: HeatmapOptions, translator: Translator, drawn: str, line: str) -> str:
    """Return the title of a picture, empty with ``title=false``."""
    model = Path(options.model).resolve().name
    title = f"{model}, {translator.attention.name} attention{drawn}\n{Path(options.src).name}, line {line}"
    return title if options.title else ""


def _page_examples(examples: Sequence[Example], options: HeatmapOptions) -> Iterator[Example]:
    """Yield the examples that are small enough for a page, and warn of the others."""
    for example in examples:
        if example.weights.size <= MAX_PAGE_CELLS:
            yield example
        else:
            height, width = example.weights.shape
            print_message(
                f"warning: {options.src}:{example.number}: {width:,} × {height:,} {options.granularity}s are too many "
                "for a page, skipped; use format=png"
            )
