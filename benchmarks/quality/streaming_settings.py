"""Choose how memory attention reads long sources part by part: without position encodings, or with unscaled ones.

Scaling the position encodings needs the whole source, so a source that is read in parts has two choices:
``position_encoding=false`` and ``renormalise=null``. Each trains on documents, which are generated sentences joined
into one line, with a one-directional encoder and equal updates. The figure is the cross-entropy, in nats per target
piece, of unseen documents of the trained length and of twice that length. An interrupted benchmark continues where it
stopped.

    python -m benchmarks.quality.streaming_settings --threads 1
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.report import argument_parser, header, row, save, table_head, with_range
from benchmarks.runs import Runs
from nmt import Translator
from scripts.grammar.corpus import generate

SETTINGS = {
    "position_encoding=false": ["attention=memory", "attention.position_encoding=false"],
    "renormalise=null": ["attention=memory", "attention.renormalise=null"],
}
TASK = ["encoder=lstm", "data.max_length=2000", "batches.max_tokens=1024"]
TASK += ["training.decode_sentences=0", "training.monitor=valid_loss"]
VALID_DOCUMENTS = 100
Document = tuple[str, str]


def main() -> None:
    parser = argument_parser(__doc__, "streaming_settings.md", runs="runs/streaming_settings")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--train-sentences", type=int, default=40_000, help="in all; default: %(default)s")
    parser.add_argument("--sentences", type=int, nargs="+", default=[3, 10], help="per document; default: 3 10")
    parser.add_argument("--epochs", type=int, default=2, help="default: %(default)s")
    args = parser.parse_args()
    runs = Runs.of(args)
    facts = f"{args.train_sentences:,} sentences, {args.epochs} epochs; nats per target piece, mean (lowest–highest)"
    lines = header("Memory attention that streams", facts, f"seeds: {', '.join(map(str, args.seeds))}")
    lines += table_head("setting", "sentences per document", "updates", "trained length", "twice that length")
    for sentences in args.sentences:
        folder = args.runs / f"{sentences}-sentences"
        longer = write_documents(folder, args.train_sentences // sentences, sentences)
        for name, settings in SETTINGS.items():
            losses, updates = [], 0
            for seed in args.seeds:
                run = f"{sentences}-{name.replace('=', '-')}-{seed}"
                words = [*files(folder), *TASK, *settings, f"training.max_epochs={args.epochs}", f"seed={seed}"]
                metrics = runs.train(run, words)["metrics"]
                twice = runs.score(run, "twice the length", partial(loss, documents=longer))
                losses.append((metrics["valid_loss"], twice["loss"]))
                updates = round(metrics["step"]) + 1
            cells = (with_range(column) for column in zip(*losses, strict=True))
            lines.append(row(name, sentences, updates, *cells))
            print(lines[-1], flush=True)
    save(args.output, lines, show=False)


def write_documents(folder: Path, documents: int, sentences: int) -> list[Document]:
    """Write training and validation text, one document per line; return documents of twice the length."""
    folder.mkdir(parents=True, exist_ok=True)
    valid_pairs = 3 * VALID_DOCUMENTS * sentences
    parts = generate({"train": documents * sentences, "valid": valid_pairs, "test": 1}, seed=1)
    valid = [(pair.source, pair.target) for pair in parts["valid"]]
    cut = VALID_DOCUMENTS * sentences
    texts = {
        "train": joined([(pair.source, pair.target) for pair in parts["train"]], sentences),
        "valid": joined(valid[:cut], sentences),
    }
    for part, lines in texts.items():
        for side, ending in enumerate(("en", "de")):
            text = "".join(f"{line[side]}\n" for line in lines)
            (folder / f"{part}.{ending}").write_text(text, encoding="utf-8")
    return joined(valid[cut:], 2 * sentences)


def joined(pairs: list[Document], sentences: int) -> list[Document]:
    """Return documents of this number of consecutive sentences."""
    groups = (pairs[first : first + sentences] for first in range(0, len(pairs), sentences))
    return [(" ".join(source for source, _ in group), " ".join(target for _, target in group)) for group in groups]


def files(folder: Path) -> list[str]:
    """Return the settings that read the text of the folder."""
    sides = {"src": "en", "tgt": "de"}
    words = [f"data.{part}.{side}={part}.{end}" for part in ("train", "valid") for side, end in sides.items()]
    return ["data=text", f"data.folder={folder.resolve()}", *words]


def loss(run: Path, documents: list[Document]) -> dict[str, float]:
    """Return as ``loss`` the cross-entropy of the documents in nats per target piece, ``</s>`` included."""
    scores = Translator.load(str(run), engine="torch", threads=1).score(documents)
    return {"loss": -sum(score.log_prob for score in scores) / sum(len(score.tokens) for score in scores)}


if __name__ == "__main__":
    main()
