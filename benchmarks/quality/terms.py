"""Measure glossary terms on the generated corpus: position against gold links, the rest of the line, and BLEU.

Each test sentence gets one term: a word of the reference with one gold link, which must be written as another word of
the same kind. ``exchanged`` terms are the translations of other words of the test set; ``unknown`` ones are written in
no training text. The references have the new word, too. ``position``: the term stands in place of the word that the
gold link names, where the translation without terms is the reference. ``rest``: all other words are those of the
translation without terms. ``same``: with the reference's own word as the term, nothing changes.

    python -m benchmarks.quality.terms --model runs/demo
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sacrebleu

from benchmarks.report import header, row, save, table_head
from nmt.data.links import parse_links
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions


@dataclass(frozen=True)
class Case:
    """A test sentence, its reference, and the index of a source word and of the target word that it is linked to."""

    source: list[str]
    target: list[str]
    i: int
    j: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("runs/demo"), help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/terms.md"), help="default: %(default)s")
    args = parser.parse_args()
    translator = Translator.load(args.model, threads=1)
    cases = read_cases(args.model)
    plain = [text.split() for text in translator.texts([" ".join(case.source) for case in cases])]
    names = sorted({case.target[case.j] for case in cases})
    rng = random.Random(1)
    terms = {
        "same": [case.target[case.j] for case in cases],
        "exchanged": [rng.choice([name for name in names if name not in case.target]) for case in cases],
        "unknown": [rng.choice(["Quorplim", "Zweibrax", "Xyntha"]) for _ in cases],
    }
    references = [case.target for case in cases]
    table = [*table_head("terms", "lines", "written", "position", "rest", "BLEU without terms", "BLEU with terms")]
    for kind, targets in terms.items():
        texts = translated(translator, cases, targets)
        changed = [[*it.target[: it.j], new, *it.target[it.j + 1 :]] for it, new in zip(cases, targets, strict=True)]
        right = [number for number, words in enumerate(plain) if words == references[number]]
        position = sum(texts[number] == changed[number] for number in right) / len(right)
        written = sum(new in text for new, text in zip(targets, texts, strict=True))
        rest = sum(is_rest(text, words, new) for text, words, new in zip(texts, plain, targets, strict=True))
        bleus = [f"{bleu(plain, references):.2f}", f"{bleu(texts, changed):.2f}"]
        shares = [f"{written / len(cases):.1%}", f"{position:.1%} of {len(right)}", f"{rest / len(cases):.1%}"]
        table.append(row(kind, len(cases), *shares, *bleus))
    save(args.output, [*header("Terms", __doc__), *table])


def read_cases(run: Path) -> list[Case]:
    """Return a case for each test sentence of a run that has a noun with one link."""
    sources, references = (
        (run / f"test.{part}.txt").read_text("utf-8").splitlines() for part in ("source", "references")
    )
    rng = random.Random(1)
    cases = []
    lines = (run / "test.gold.links.txt").read_text("utf-8").splitlines()
    links = parse_links(lines, "gold links")
    for source, reference, gold in zip(sources, references, links, strict=True):
        words, targets = source.split(), reference.split()
        pairs = [
            (i, j)
            for i, j in sorted(gold.sure)
            if sum(a == i or b == j for a, b in gold.sure) == 1
            and targets[j][:1].isupper()
            and j
            and words[i].islower()
            and words.count(words[i]) == 1
        ]
        if pairs:
            cases.append(Case(words, targets, *rng.choice(pairs)))
    return cases


def translated(translator: Translator, cases: Sequence[Case], targets: Sequence[str]) -> list[list[str]]:
    """Return the words of each translation with its term."""
    texts = []
    for case, target in zip(cases, targets, strict=True):
        options = SearchOptions(terms={case.source[case.i]: target})
        texts.append(translator.texts([" ".join(case.source)], options)[0].split())
    return texts


def is_rest(text: Sequence[str], plain: Sequence[str], new: str) -> bool:
    """Return whether a translation differs from the one without terms in the words that its term replaces only."""
    if text == plain:
        return True
    at = text.index(new) if new in text else 0
    behind = len(text) - at - 1
    return [*text[:at]] == [*plain[:at]] and [*text[at + 1 :]] == [*plain[len(plain) - behind :]]


def bleu(texts: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Return BLEU of tokenised texts."""
    score: float = sacrebleu.corpus_bleu(
        [" ".join(t) for t in texts], [[" ".join(r) for r in references]], force=True
    ).score
    return score


if __name__ == "__main__":
    main()
