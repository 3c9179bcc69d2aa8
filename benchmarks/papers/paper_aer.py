"""Alignment error rate of attentions on gold alignments of German-English Europarl sentences.

Each kind trains German to English on Tatoeba and Multi30k together, with the sizes of +experiment=multi30k. Then the
reference translations of 508 sentences are force-decoded and their alignments compared with the gold links. IBM Model
1, a statistical aligner of words, learns from the same text, which shows how far the text is from Europarl. An
interrupted benchmark continues where it stopped; a run that has not finished says "not run". data/README.md says where
the text comes from. The gold links are in a folder with test.de, test.en and gold.talp, whose words count from 1.

    python -m benchmarks.papers.paper_aer --gold data/alignments/de-en \\
        --tatoeba data/tatoeba-de-en --multi30k data/multi30k
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.report import argument_parser, header, save, table
from benchmarks.runs import Runs, evaluate
from nmt.alignment.aer import alignment_error_rate
from nmt.alignment.model1 import train_ibm_model_1
from nmt.alignment.word_weights import argmax_links
from nmt.data.links import parse_links
from nmt.data.text_files import read_pairs
from nmt.files.atomic import write_lines

KINDS = {
    "bahdanau": ["attention=bahdanau"],
    "memory-32": ["attention=memory"],
    "luong": ["attention=luong"],
    "memory-64": ["attention=memory", "attention.slots=64"],
    "memory-32-no-encodings": ["attention=memory", "attention.position_encoding=false"],
    "covariance": ["attention=covariance"],
}
SHORT = 12  # words
GOLD = ("test.de", "test.en", "gold.talp")
WORDS = re.compile(r"\w+(?:-\w+)*|[^\w\s]")  # and marks, as in the gold text
COLUMNS = ("attention", "AER", f"AER, up to {SHORT} source words", "BLEU of Tatoeba's test", "updates", "training, min")


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/paper_aer", report_only=True)
    parser.add_argument("--gold", type=Path, default=Path("data/alignments/de-en"), help="default: %(default)s")
    parser.add_argument("--tatoeba", type=Path, default=Path("data/tatoeba-de-en"), help="default: %(default)s")
    parser.add_argument("--multi30k", type=Path, default=Path("data/multi30k"), help="default: %(default)s")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--updates", type=int, default=10_000, help="of each run; default: %(default)s")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="bf16", help="default: %(default)s")
    parser.add_argument("--settings", nargs="*", default=[], help="settings of nmt-train that all runs get")
    args = parser.parse_args()
    runs = Runs.of(args)
    for kind in [] if args.report_only else args.kinds:
        runs.train(kind, [*settings(args), *KINDS[kind], *args.settings])
        write_report(args, runs, [])
    write_report(args, runs, statistical_row(args))


def training_text(args: argparse.Namespace) -> Path:
    """Return the path of the training text without its suffix .de or .en, after writing it."""
    text: Path = args.runs.resolve() / "train"
    if not text.with_suffix(".en").is_file():
        pairs = read_pairs(args.tatoeba / "train.de.gz", args.tatoeba / "train.en.gz")
        pairs += read_pairs(args.multi30k / "train.de.gz", args.multi30k / "train.en.gz")
        random.Random(1).shuffle(pairs)
        args.runs.mkdir(parents=True, exist_ok=True)
        write_lines(text.with_suffix(".de"), [pair.source for pair in pairs])
        write_lines(text.with_suffix(".en"), [pair.target for pair in pairs])
    return text


def settings(args: argparse.Namespace) -> list[str]:
    """Return the arguments of nmt-train, after writing the training text."""
    text = training_text(args)
    words = [f"data.train.src={text}.de", f"data.train.tgt={text}.en"]
    for part in ("valid", "test"):
        place = args.tatoeba.resolve() / part
        words += [f"data.{part}.src={place}.de.gz", f"data.{part}.tgt={place}.en.gz"]
    limits = [f"training.max_steps={args.updates}", "training.max_epochs=null", "training.patience=null"]
    return ["+experiment=multi30k", *words, *limits, "training.decode_sentences=500", f"precision={args.precision}"]


def write_report(args: argparse.Namespace, runs: Runs, statistical: list[list[str]]) -> None:
    """Write the table of the finished runs, next to a statistical aligner."""
    rows = []
    for kind in args.kinds:
        run = runs.finished(kind)
        if run is None:
            rows.append([kind, "not run", *["–"] * (len(COLUMNS) - 2)])
            continue
        gold = runs.score(kind, "gold", partial(gold_scores, gold=args.gold))
        short = runs.score(kind, "short", partial(gold_scores, gold=args.gold, longest=SHORT))
        cells = [f"{gold['aer']:.3f}", f"{short['aer']:.3f}", f"{run['test']['bleu']:.1f}"]
        rows.append([kind, *cells, f"{run['updates']:,}", f"{run['seconds'] / 60:.0f}"])
    rows += statistical
    facts = ["508 Europarl sentences, German to English, lower-cased; one link per target word, no symmetrisation"]
    facts.append("one seed; trained on Tatoeba and Multi30k, which have shorter sentences and no Europarl")
    facts.append(runs.commits())
    save(args.output / "paper_aer.md", [*header("AER on gold alignments", *facts), *table(COLUMNS, rows)], show=False)


def gold_scores(model: Path, gold: Path, *, longest: float = inf) -> dict[str, Any]:
    """Return the scores of the model on the gold alignments of sources with at most ``longest`` words."""
    with TemporaryDirectory() as folder:
        source, target, links = (Path(folder) / name for name in GOLD)
        for path, column in zip((source, target, links), gold_lines(gold, longest), strict=True):
            write_lines(path, column)
        return evaluate(f"model={model}", f"src={source}", f"tgt={target}", "lowercase=true", f"links={links}")


def gold_lines(gold: Path, longest: float) -> list[tuple[str, ...]]:
    """Return source lines, target lines and lines of links from 0, of sources with at most ``longest`` words."""
    source, target, links = ((gold / name).read_text("utf-8") for name in GOLD)
    links = re.sub(r"\d+", lambda number: str(int(number[0]) - 1), links)
    lines = zip(*(text.splitlines() for text in (source, target, links)), strict=True)
    return list(zip(*(line for line in lines if len(line[0].split()) <= longest), strict=True))


def statistical_row(args: argparse.Namespace) -> list[list[str]]:
    """Return the row of IBM Model 1 after five iterations on the words of the training text."""
    text = training_text(args)
    numbers: list[dict[str, int]] = [{}, {}]  # of the words of each side

    def ids(words: Sequence[str], side: int) -> np.ndarray:
        return np.array([numbers[side].setdefault(word, len(numbers[side])) for word in words])

    sides = [text.with_suffix(suffix).read_text("utf-8").lower().split("\n") for suffix in (".de", ".en")]
    pairs = ([ids(WORDS.findall(line), side) for side, line in enumerate(pair)] for pair in zip(*sides, strict=True))
    learned = train_ibm_model_1((source, target) for source, target in pairs)
    words = zip(learned.source.tolist(), learned.target.tolist(), strict=True)
    probability = dict(zip(words, learned.probability, strict=True))

    def links(source: str, target: str) -> frozenset[tuple[int, int]]:
        rows, columns = (ids(line.lower().split(), side).tolist() for side, line in enumerate((source, target)))
        return argmax_links(np.array([[probability.get((row, column), 0.0) for row in rows] for column in columns]))

    cells = []
    for longest in (inf, SHORT):
        sources, targets, lines = gold_lines(args.gold, longest)
        gold = parse_links(lines, "gold.talp", list(zip(sources, targets, strict=True)))
        cells.append(f"{alignment_error_rate([*map(links, sources, targets)], gold):.3f}")
    return [["IBM Model 1, same text", *cells, *["–"] * (len(COLUMNS) - 3)]]


if __name__ == "__main__":
    main()
