"""Score word links against gold links, and warn about a wrong base or direction of the links."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from nmt.alignment.aer import AlignmentScores, alignment_scores, better_reading
from nmt.data.links import Link, Links, LinkSettings, is_naacl, parse_links, require_links, swap_advice
from nmt.data.text_files import read_lines, read_pairs
from nmt.errors import counted, print_message

if TYPE_CHECKING:
    from nmt.data.pair import Pair

SIGNATURES = {
    "precision": "|A & P| / |A|",
    "recall": "|A & S| / |S|",
    "aer": "1 - (|A & S| + |A & P|) / (|A| + |S|); A: links, S: sure gold links, P: sure and possible gold links",
}


def read_gold(path: str, settings: LinkSettings, pairs: Sequence[Pair]) -> list[Links]:
    """Return the gold links of ``pairs``. Raises UserError for links that do not fit them."""
    sentences = [(pair.source, pair.target) for pair in pairs]
    golds = parse_links(list(read_lines(path)), path, settings, sentences=sentences)
    require_links(golds, path)
    return golds


def read_both(
    alignments: str, how: LinkSettings, links: str, gold: LinkSettings, sides: tuple[str, str] | None
) -> tuple[list[frozenset[Link]], list[Links]]:
    """Return the links of a file, sure or possible, and the gold links.

    ``sides`` are the source and target text, if known: the links must lie within. Raises UserError for unequal numbers
    of sentences. A file in NAACL format has no lines for sentences without links, so the other file decides.
    """
    sentences = None if sides is None else [(pair.source, pair.target) for pair in read_pairs(*sides)]
    texts = {path: list(read_lines(path)) for path in (alignments, links)}
    count = next((len(lines) for lines in texts.values() if not is_naacl(lines)), None)
    hypotheses = parse_links(texts[alignments], alignments, how, sentences=sentences, count=count)
    golds = parse_links(texts[links], links, gold, sentences=sentences, count=count)
    require_links(golds, links)
    if not any(hypothesis.possible for hypothesis in hypotheses):
        print_message(f"warning: {alignments}: no links in {counted(len(hypotheses), 'line')}")
    nothing = Links(frozenset(), frozenset())
    size = max(len(hypotheses), len(golds))
    hypotheses, golds = (rows + [nothing] * (size - len(rows)) for rows in (hypotheses, golds))
    return [hypothesis.possible for hypothesis in hypotheses], golds


def score_links(
    hypotheses: Sequence[Collection[Link]], golds: Sequence[Links], *, place: str, settings: LinkSettings, bases: str
) -> AlignmentScores:
    """Return precision, recall and AER, and warn if the links fit much better when they are read differently.

    ``place`` and ``settings`` are those of the file whose sides the user is advised to swap. ``bases`` names the
    settings that say from which number words are counted.
    """
    scores = alignment_scores(hypotheses, golds)
    reading = better_reading(hypotheses, golds)
    if reading is not None:
        advice = [swap_advice(settings)] if reading.swapped else []
        advice += [f"words look counted from another number; check {bases}"] if reading.shift else []
        print_message(f"warning: {place}: {'; '.join(advice)}")
    return scores


def score_lines(scores: AlignmentScores, method: str = SIGNATURES["aer"]) -> list[str]:
    """Return one line per score: name, value, definition."""
    return [
        f"precision {scores.precision:.4f}  {SIGNATURES['precision']}",
        f"recall {scores.recall:.4f}  {SIGNATURES['recall']}",
        f"AER {scores.error_rate:.4f}  {method}",
    ]
