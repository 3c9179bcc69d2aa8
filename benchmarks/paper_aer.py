"""Alignment error rate of attentions on gold alignments of German-English Europarl sentences.

Each kind trains German to English on Tatoeba and Multi30k together, with the sizes of +experiment=multi30k. Then the
reference translations of 508 sentences are force-decoded and their alignments compared with the gold links. An
interrupted benchmark continues where it stopped; a run that has not finished says "not run". data/README.md says where
the text comes from. The gold links are in a folder with test.de, test.en and gold.talp, whose words count from 1.

    python benchmarks/paper_aer.py --gold data/alignments/de-en --tatoeba data/tatoeba-de-en --multi30k data/multi30k
"""

from __future__ import annotations

import argparse
import random
from functools import partial
from pathlib import Path
from typing import Any

from report import argument_parser, header, save, table
from runs import Runs, evaluate

from nmt.storage import write_lines
from nmt.text.files import read_pairs

KINDS = {
    "bahdanau": ["attention=bahdanau"],
    "memory-32": ["attention=memory"],
    "luong": ["attention=luong"],
    "memory-64": ["attention=memory", "attention.slots=64"],
    "memory-32-no-encodings": ["attention=memory", "attention.position_encoding=false"],
    "covariance": ["attention=covariance"],
}
PUBLISHED = (("attention, published", "0.32–0.39"), ("fast_align, published", "0.27–0.28"))
COLUMNS = ("attention", "AER", "BLEU of Tatoeba's test", "updates", "training, min")


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/paper_aer")
    parser.add_argument("--gold", type=Path, default=Path("data/alignments/de-en"), help="default: %(default)s")
    parser.add_argument("--tatoeba", type=Path, default=Path("data/tatoeba-de-en"), help="default: %(default)s")
    parser.add_argument("--multi30k", type=Path, default=Path("data/multi30k"), help="default: %(default)s")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--updates", type=int, default=10_000, help="of each run; default: %(default)s")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="bf16", help="default: %(default)s")
    parser.add_argument("--settings", nargs="*", default=[], help="settings of nmt-train that all runs get")
    parser.add_argument("--report-only", action="store_true", help="train nothing")
    args = parser.parse_args()
    runs = Runs(args.runs, args.output / "records", threads=args.threads)
    for kind in [] if args.report_only else args.kinds:
        runs.train(kind, [*settings(args), *KINDS[kind], *args.settings])
        write_report(args, runs)
    write_report(args, runs)


def settings(args: argparse.Namespace) -> list[str]:
    """Return the arguments of nmt-train, after writing the training text."""
    text = args.runs.resolve() / "train"
    if not text.with_suffix(".en").is_file():
        pairs = read_pairs(args.tatoeba / "train.de.gz", args.tatoeba / "train.en.gz")
        pairs += read_pairs(args.multi30k / "train.de.gz", args.multi30k / "train.en.gz")
        random.Random(1).shuffle(pairs)
        args.runs.mkdir(parents=True, exist_ok=True)
        write_lines(text.with_suffix(".de"), [pair.source for pair in pairs])
        write_lines(text.with_suffix(".en"), [pair.target for pair in pairs])
    words = [f"data.train.src={text}.de", f"data.train.tgt={text}.en"]
    for part in ("valid", "test"):
        place = args.tatoeba.resolve() / part
        words += [f"data.{part}.src={place}.de.gz", f"data.{part}.tgt={place}.en.gz"]
    limits = [f"training.max_steps={args.updates}", "training.max_epochs=null", "training.patience=null"]
    return ["+experiment=multi30k", *words, *limits, "training.decode_sentences=500", f"precision={args.precision}"]


def write_report(args: argparse.Namespace, runs: Runs) -> None:
    """Write the table of the finished runs, next to published values."""
    rows = []
    for kind in args.kinds:
        run = runs.finished(kind)
        if run is None:
            rows.append([kind, "not run", "–", "–", "–"])
            continue
        gold = runs.score(kind, "gold", partial(gold_scores, gold=args.gold))
        cells = [f"{gold['aer']:.3f}", f"{run['test']['bleu']:.1f}"]
        rows.append([kind, *cells, f"{run['updates']:,}", f"{run['seconds'] / 60:.0f}"])
    rows += [[name, value, "–", "–", "–"] for name, value in PUBLISHED]
    facts = ["508 Europarl sentences, German to English, lower-cased; one link per target word, no symmetrisation"]
    facts.append("one seed; trained on Tatoeba and Multi30k, which have shorter sentences and no Europarl")
    facts.append(runs.commits())
    save(args.output / "paper_aer.md", [*header("AER on gold alignments", *facts), *table(COLUMNS, rows)], show=False)


def gold_scores(model: Path, gold: Path) -> dict[str, Any]:
    """Return the scores of the model on the gold alignments."""
    words = [f"model={model}", f"src={gold / 'test.de'}", f"tgt={gold / 'test.en'}", "lowercase=true"]
    return evaluate(*words, f"links={gold / 'gold.talp'}", "links_base=1")


if __name__ == "__main__":
    main()
