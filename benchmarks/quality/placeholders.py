"""Compare ways to keep placeholders: kept, in place, and BLEU of the rest of the line.

The test set gets a placeholder per line: at a random place between two words (``inserted``), or instead of a word and
its translation (``replaced``): words that stand once on each side, and most often together in the training text (Dice
coefficient of at least 0.5). The ways: the model reads the line as it is; the placeholder is taken out and put back by
alignment, as the package does; a stand-in takes its place: a number, a name that training text copies, or a reserved
symbol that a model with augmented training text has learned to copy. A line whose stand-in does not come out exactly
once is translated again with the placeholder taken out. ``in place``: a neighbour of the placeholder is that of the
reference.

    python -m benchmarks.quality.placeholders --model runs/t --train train.en train.de --test test.en test.de
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import sacrebleu

from benchmarks.report import header, row, save, table_head
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

PLACEHOLDER = "{name}"
MARKS = ".,;:!?\"'()"
Case = tuple[str, str]  # a source and its reference, both with the placeholder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a model")
    parser.add_argument("--augmented", help="folder of a model that has learned to copy the symbol")
    parser.add_argument("--train", nargs=2, type=Path, required=True, help="source and target of the training text")
    parser.add_argument("--test", nargs=2, type=Path, required=True, help="source and target of the test text")
    parser.add_argument("--name", default="Tom", help="a word that is equal on both sides; default: %(default)s")
    parser.add_argument("--symbol", default="①", help="the symbol of the augmented text; default: %(default)s")
    parser.add_argument("--output", type=Path, required=True, help="a file for the table")
    args = parser.parse_args()
    pairs = [*zip(*(path.read_text("utf-8").splitlines() for path in args.test), strict=True)]
    train = [*zip(*(path.read_text("utf-8").splitlines() for path in args.train), strict=True)]
    model = Translator.load(args.model, engine="torch", threads=1)
    ways: dict[str, Callable[[list[str]], list[str]]] = {
        "as it is": lambda lines: model.texts(lines, SearchOptions(keep_placeholders=False)),
        "taken out": model.texts,
        "number, or taken out": lambda lines: with_stand_in(model, lines, "7"),
        "name, or taken out": lambda lines: with_stand_in(model, lines, args.name),
    }
    if args.augmented:
        other = Translator.load(args.augmented, engine="torch", threads=1)
        ways["augmented: as it is"] = lambda lines: other.texts(lines, SearchOptions(keep_placeholders=False))
        ways["augmented: taken out"] = other.texts
        ways["augmented: symbol, or taken out"] = lambda lines: with_stand_in(other, lines, args.symbol)
    table = [*table_head("test", "way", "lines", "kept once", "in place", "BLEU of the rest")]
    for test, cases in {"inserted": inserted(pairs), "replaced": replaced(pairs, train)}.items():
        for way, translate in ways.items():
            texts = translate([source for source, _ in cases])
            table.append(row(test, way, f"{len(cases):,}", *scores(texts, cases)))
            print(table[-1], flush=True)
    save(args.output, [*header("Placeholders", __doc__), *table])


def inserted(pairs: Sequence[Case]) -> list[Case]:
    """Return the pairs with a placeholder at a random place of the source, and at the end of the reference."""
    rng = random.Random(1)
    cases = []
    for source, reference in pairs:
        words = source.split()
        words.insert(rng.randrange(len(words) + 1), PLACEHOLDER)
        cases.append((" ".join(words), f"{reference} {PLACEHOLDER}"))
    return cases


def replaced(pairs: Sequence[Case], train: Sequence[Case]) -> list[Case]:
    """Return the pairs that have a word and its translation, with a placeholder instead of both."""
    sides = [[{word.strip(MARKS) for word in line.split()} for line in side] for side in zip(*train, strict=True)]
    counts = [Counter(word for words in side for word in words) for side in sides]
    known = [{word.strip(MARKS) for line in side for word in line.split()} for side in zip(*pairs, strict=True)]
    together = Counter(
        (source, target)
        for left, right in zip(*sides, strict=True)
        for source in left & known[0]
        for target in right & known[1]
    )
    best = {pair: 2 * n / (counts[0][pair[0]] + counts[1][pair[1]]) for pair, n in together.items() if n > 2}
    rng = random.Random(1)
    cases = []
    for source, reference in pairs:
        words, targets = source.split(), reference.split()
        found = [
            (i, j)
            for i, word in enumerate(words)
            for j, target in enumerate(targets)
            if best.get((word.strip(MARKS), target.strip(MARKS)), 0) >= 0.5 and len(word.strip(MARKS)) > 2
        ]
        single = [(i, j) for i, j in found if sum(a == i or b == j for a, b in found) == 1]
        if single and len(words) > 3:
            i, j = rng.choice(single)
            words[i] = words[i].replace(words[i].strip(MARKS), PLACEHOLDER)
            targets[j] = targets[j].replace(targets[j].strip(MARKS), PLACEHOLDER)
            cases.append((" ".join(words), " ".join(targets)))
    return cases


def with_stand_in(model: Translator, lines: list[str], stand_in: str) -> list[str]:
    """Return translations in which the placeholder replaces a stand-in, or is put back by alignment."""
    fallback = model.texts(lines)
    texts = model.texts([line.replace(PLACEHOLDER, stand_in) for line in lines], SearchOptions(keep_placeholders=False))
    chosen = []
    for line, text, other in zip(lines, texts, fallback, strict=True):
        is_copied = text.count(stand_in) == 1 and stand_in not in line
        chosen.append(text.replace(stand_in, PLACEHOLDER) if is_copied else other)
    return chosen


def scores(texts: Sequence[str], cases: Sequence[Case]) -> list[str]:
    """Return the share of placeholders that are kept once, that of those in place, and BLEU of the rest."""
    kept = sum(text.count(PLACEHOLDER) == 1 for text in texts)
    is_same = [
        bool(neighbours(text) & neighbours(reference)) for text, (_, reference) in zip(texts, cases, strict=True)
    ]
    rest = [" ".join(text.replace(PLACEHOLDER, " ").split()) for text in texts]
    references = [" ".join(reference.replace(PLACEHOLDER, " ").split()) for _, reference in cases]
    bleu = sacrebleu.corpus_bleu(rest, [references]).score
    return [f"{kept / len(texts):.1%}", f"{sum(is_same) / len(texts):.1%}", f"{bleu:.2f}"]


def neighbours(text: str) -> set[tuple[int, str]]:
    """Return the words before and behind the placeholder; the beginning and the end count as words."""
    before, _, behind = text.partition(PLACEHOLDER)
    left, right = before.split()[-1:] or [""], behind.strip(MARKS + " ").split()[:1] or [""]
    return {(-1, left[0]), (1, right[0])} if PLACEHOLDER in text else set()


if __name__ == "__main__":
    main()
