"""Which settings suit little text? English to German, the first 20, 1,000 and 10,000 pairs of Multi30k.

For each number of pairs, the model is trained with the default settings and with settings that suit the number. The
table has the BLEU of the training pairs, which says whether the model has learned them, and that of the test set,
which it has not seen. An interrupted benchmark continues where it stopped.

    python -m benchmarks.quality.little_text --data data/multi30k --threads 1
"""

from __future__ import annotations

import gzip
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.report import argument_parser, header, save, table, with_range
from benchmarks.runs import Runs, evaluate
from nmt.errors import counted

SCORED = 500  # training pairs whose BLEU is measured
MEMORISED = 100  # up to this number, pairs are learned by heart
VOCABULARY = "tokenizer.vocab_size=400"  # 20 pairs yield fewer pieces than the default vocabulary has
SETTINGS: dict[int, list[str]] = {
    20: [
        VOCABULARY,
        *("embeddings.size=64", "encoder.hidden_size=64", "decoder.hidden_size=64"),
        *("encoder.dropout=0", "decoder.dropout=0", "batches.max_sentences=4"),
        *("schedule=constant", "schedule.warmup_steps=20"),
        *("training.max_epochs=200", "training.patience=null"),
        *("training.monitor=valid_loss", "training.decode_sentences=0"),
    ],
    1_000: ["experiment=little"],
    10_000: ["experiment=medium"],
}
COLUMNS = ("pairs", "settings", "updates", "BLEU, training pairs", "BLEU, test set", "minutes")


def main() -> None:
    parser = argument_parser(__doc__, "little_text.md", threads=1, runs="runs/little_text", seeds=[1, 2, 3])
    parser.add_argument("--data", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--pairs", type=int, nargs="+", default=list(SETTINGS), help="default: %(default)s")
    args = parser.parse_args()
    runs = Runs.of(args)

    rows = []
    for pairs in args.pairs:
        files = text(args.data, args.runs / "text", pairs)
        default = [VOCABULARY] if pairs <= MEMORISED else []
        for title, settings in (("default", default), ("chosen", SETTINGS[pairs])):
            names = {seed: f"{pairs}-{title}-s{seed}" for seed in args.seeds}
            words = [*files, *settings]
            records = [runs.train(name, [*words, f"seed={seed}"], model=True) for seed, name in names.items()]
            measure = partial(score_training_pairs, args.runs / "text" / str(min(pairs, SCORED)), args.threads)
            learned = [runs.score(name, "training pairs", measure)["bleu"] for name in names.values()]
            scores = [record["test"]["bleu"] for record in records]
            minutes = [record["seconds"] / 60 for record in records]
            cells = (with_range(learned, ".1f"), with_range(scores, ".1f"), with_range(minutes, ".1f"))
            rows.append((f"{pairs:,}", title, f"{records[0]['updates']:,}", *cells))
            facts = f"{counted(len(args.seeds), 'seed')}: mean (range)"
            lines = header("Settings for little text, Multi30k English to German", facts)
            lines += [f"- {runs.commits()}", *(f"- {n:,} pairs: {' '.join(SETTINGS[n])}" for n in args.pairs), ""]
            save(args.output, [*lines, *table(COLUMNS, rows)], show=False)
    print(args.output.read_text("utf-8"))


def score_training_pairs(text: Path, threads: int, model: Path) -> dict[str, Any]:
    """Return the scores of a model on pairs that it was trained on, ``text``.src and ``text``.tgt."""
    return evaluate(f"model={model}", f"src={text}.src", f"tgt={text}.tgt", f"threads={threads}")


def text(data: Path, folder: Path, pairs: int) -> list[str]:
    """Write the training pairs, those that are scored, and validation pairs; return the settings of the three parts.

    Little text has a small validation set: a tenth of the training pairs. 20 pairs can only be learned by heart, so
    they are their own validation set: with another one, the model of the first epochs would be kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = ["data=text"]
    for side, language in (("src", "en"), ("tgt", "de")):
        for count in {pairs, min(pairs, SCORED)}:
            write_start(data / f"train.{language}.gz", count, folder / f"{count}.{side}")
        files = dict.fromkeys(("train", "valid"), folder / f"{pairs}.{side}")
        if pairs > MEMORISED:
            files["valid"] = folder / f"{pairs}.valid.{side}"
            write_start(data / f"valid.{language}.gz", pairs // 10, files["valid"])
        files["test"] = data / f"test2016.{language}.gz"
        words += [f"data.{part}.{side}={file.resolve()}" for part, file in files.items()]
    return words


def write_start(corpus: Path, count: int, file: Path) -> None:
    """Write the first ``count`` lines of a compressed corpus to ``file``."""
    with gzip.open(corpus, "rt", encoding="utf-8", newline="\n") as lines:
        file.write_text("".join(islice(lines, count)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
