"""Scores of word links: alignment error rate (AER), precision and recall, and the words that no link can have."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from nmt.data.links import Link, Links, parse_links
from nmt.data.text_files import read_gold, read_lines, read_pairs
from nmt.errors import UserError, counted, print_message

AER_METHOD = (
    "the reference is force-decoded; |A| normalised over the source, </s> dropped; a word's weight is the sum over its "
    "source pieces and the mean over its target pieces; one link per target word, the largest; no symmetrisation"
)
"""How the toolkit obtains the links that it scores; printed beside every AER."""

SIGNATURES = {
    "precision": "|A & P| / |A|",
    "recall": "|A & S| / |S|",
    "aer": "1 - (|A & S| + |A & P|) / (|A| + |S|); A: links, S: sure gold links, P: sure and possible gold links",
}


class AlignmentScores(NamedTuple):
    """Precision |A∩P| / |A|, recall |A∩S| / |S| and AER 1 − (|A∩S| + |A∩P|) / (|A| + |S|) over a corpus, in [0, 1].

    A are the hypothesis' links, S the sure gold links and P ⊇ S the possible ones (Och & Ney 2003, A Systematic
    Comparison of Various Statistical Alignment Models, §5). With nothing to count, nothing is wrong: precision or
    recall is 1, and AER is 0.
    """

    precision: float
    recall: float
    aer: float


def alignment_error_rate(hypotheses: Sequence[Collection[Link]], golds: Sequence[Links]) -> float:
    """Return the AER over a corpus; see ``AlignmentScores``."""
    return alignment_scores(hypotheses, golds).aer


def alignment_scores(hypotheses: Sequence[Collection[Link]], golds: Sequence[Links]) -> AlignmentScores:
    """Return precision, recall and AER over a corpus. Raises UserError if the two lists differ in length."""
    if len(hypotheses) != len(golds):
        raise UserError(
            f"{counted(len(hypotheses), 'line')} of alignments, {counted(len(golds), 'line')} of gold links:"
            " both files must be parallel"
        )
    size = sure = sure_hits = possible_hits = 0
    for hypothesis, gold in zip(hypotheses, golds, strict=True):
        links = set(hypothesis)
        size += len(links)
        sure += len(gold.sure)
        sure_hits += len(links & gold.sure)
        possible_hits += len(links & gold.possible)
    return AlignmentScores(
        possible_hits / size if size else 1.0,
        sure_hits / sure if sure else 1.0,
        1 - (sure_hits + possible_hits) / (size + sure) if size + sure else 0.0,
    )


def read_both(alignments: str, links: str, sides: tuple[str, str] | None) -> tuple[list[frozenset[Link]], list[Links]]:
    """Return the links of a file, sure or possible, and the gold links.

    ``sides`` are the source and target text, if known: links must be inside their sentences.
    """
    sentences = None if sides is None else [(pair.source, pair.target) for pair in read_pairs(*sides)]
    hypotheses = [line.possible for line in parse_links(list(read_lines(alignments)), alignments, sentences)]
    if not any(hypotheses):
        print_message(f"warning: {alignments}: no links in {counted(len(hypotheses), 'line')}")
    return hypotheses, read_gold(links, sentences)


class LostWords:
    """Collects the words that a tokenizer removes, to warn once about each side's file."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self._words: dict[str, dict[int, list[str]]] = {side: {} for side in files}

    def add(self, row: int, side: str, words: list[str], *, first: int = 0) -> None:
        """Add the lost ``words`` of a line; ``first`` is the number of lines before the row 0."""
        self._words[side][first + row] = words

    def warn(self) -> None:
        """Print a warning to stderr for each file that has such words."""
        for side, file in self.files.items():
            if lines := self._words[side]:
                count = sum(map(len, lines.values()))
                row, words = min(lines.items())
                print_message(
                    f"warning: {file}:{row + 1}: the tokenizer removes the word {words[0]!r:.60}, so it has no link"
                    f" and no weight; {counted(count, 'such word')} in {counted(len(lines), 'line')}"
                )
