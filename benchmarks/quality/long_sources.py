"""How much do attentions lose when a source is longer than the memory? Quality and cost against S/K.

A source is 1, 2, 4, 8 or 16 sentences: captions of Multi30k, joined at random, so that no sentence helps to translate
another one, or consecutive sentences of talks. Each attention trains on all five lengths, with equally many pieces of
each, and is tested on each. The longest sources are rare in training, so every kind loses there. BLEU, chrF, and the
recall of names and numbers are those of the test set. The cost is that of the same models: milliseconds of a decoder
step for five hypotheses of each of eight sources, and the bytes that the attention stores for a source.

    python -m benchmarks.quality.long_sources --data data/multi30k
    python -m benchmarks.quality.long_sources --corpus talks --data data/iwslt15-en-vi/noapos
    python -m benchmarks.quality.long_sources --report-only

It trains all kinds with the first seed, then with the next one. An interrupted benchmark continues where it stopped;
results/records keeps what has finished.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice, product
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from benchmarks.report import argument_parser, header, save, table, with_deviation
from benchmarks.runs import Runs
from benchmarks.speed.decode import in_turns
from benchmarks.speed.reference import FIRST_PIECE
from nmt.data.links import Pair
from nmt.data.text_files import read_pairs
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder
from nmt.inference.onnx.export import export
from nmt.inference.onnx.model import exported_engines
from nmt.inference.scores import corpus_scores
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.testing import prepare
from nmt.text.specials import BOS, EOS

COUNTS = (1, 2, 4, 8, 16)
"""Sentences of a source."""
KINDS = {
    "none": ["attention=none"],
    "bahdanau": ["attention=bahdanau"],
    "luong general": ["attention=luong"],
    "memory": ["attention=memory", "attention.slots={slots}"],
    "abc": ["attention=abc", "attention.slots={slots}"],
    "located_memory": ["attention=located_memory", "attention.slots={slots}"],
    "stretch_memory": ["attention=stretch_memory", "attention.slots={slots}"],
    "stretch_memory, K = 32": ["attention=stretch_memory", "attention.slots=32"],  # the bytes of located_memory, K = 16
    "stretch_memory, K = 64": ["attention=stretch_memory", "attention.slots=64"],
    "low_rank": ["attention=low_rank", "attention.slots={slots}"],
    "covariance": ["attention=covariance"],
    "kernel taylor2": ["attention=kernel", "attention.feature_map=taylor2", "attention.key_size=16"],
    "gated_delta": ["attention=gated_delta"],
}
COMMON = (
    "data=text tokenizer.vocab_size=2000 embeddings.size=192 encoder.hidden_size=192 encoder.dropout=0.3 "
    "decoder.hidden_size=192 decoder.dropout=0.3 batches.max_tokens=2000 optimizer.lr=0.004 schedule=linear "
    "training.label_smoothing=0.1 training.patience=null training.decode_sentences=0 training.monitor=valid_loss "
    "data.max_length=400"
).split()
SIZE = 192
BEAM = 5
BATCH, STEPS, ROUNDS = 8, 20, 9  # of the timing
COSTS = ("ms per step", "bytes")
SCORES = {"bleu": ("BLEU", ".1f"), "chrf": ("chrF", ".1f"), "names": ("Names and numbers found, %", ".0f")}


class Corpus(NamedTuple):
    """Text to join: its languages, the names of its sets, and the memory that it is tested with."""

    title: str
    languages: tuple[str, str]
    sets: tuple[str, str, str]
    """The names of the training, validation and test set."""
    slots: int
    """K of the kinds that have it."""
    shuffled: bool = False
    """Join sentences at random instead of consecutive ones."""
    lowercase: bool = False
    folder: str = ""
    """Its usual folder."""


CORPORA = {
    "captions": Corpus(
        "joined captions", ("en", "de"), ("train", "valid", "test2016"), 16, True, True, folder="data/multi30k"
    ),
    "talks": Corpus(
        "joined sentences of talks",
        ("en", "vi"),
        ("train30k", "tst2012", "tst2013"),
        16,
        folder="data/iwslt15-en-vi/noapos",
    ),
}
WORD = re.compile(r"\w+(?:[.,'’-]\w+)*")


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/long_sources", threads=1, seeds=[1, 2, 3], report_only=True)
    parser.add_argument("--corpus", choices=CORPORA, default="captions", help="default: %(default)s")
    parser.add_argument("--data", type=Path, help="default: the usual folder of the corpus")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--epochs", type=int, default=3, help="passes over the text; default: %(default)s")
    parser.add_argument("--costs", action="store_true", help="also time one model of each kind; needs a quiet machine")
    args = parser.parse_args()
    corpus, runs = CORPORA[args.corpus], Runs.of(args, curves=("valid_loss",))
    texts = args.runs / f"{args.corpus}-text"
    write_texts(corpus, args.data or Path(corpus.folder), texts.resolve())
    settings = [*COMMON, *files(texts.resolve(), corpus), f"data.lowercase={str(corpus.lowercase).lower()}"]
    settings.append(f"training.max_epochs={args.epochs}")
    for seed, kind in product(args.seeds, [] if args.report_only else args.kinds):
        words = [word.format(slots=corpus.slots) for word in KINDS[kind]]
        name = run_name(args.corpus, kind, seed)
        runs.train(name, [*settings, *words, f"seed={seed}"])
        runs.score(name, "lengths", partial(measure, corpus, texts))
    if args.costs:
        measure_costs(args, texts)
    save_report(args, corpus, runs)


def write_texts(corpus: Corpus, data: Path, folder: Path) -> None:
    """Write the training mixture, the validation mixture, and one test set for each of ``COUNTS``."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in zip(("train", "valid", "test"), corpus.sets, strict=True):
        sides = (data / f"{name}.{language}.gz" for language in corpus.languages)
        pairs = read_pairs(*map(str, sides))
        joined = {count: join(pairs, count, shuffled=corpus.shuffled) for count in COUNTS}
        if part == "test":
            for count in COUNTS:
                write_pairs(folder / f"test-{count}", joined[count])
        else:
            write_pairs(folder / part, [pair for count in COUNTS for pair in joined[count]])


def join(pairs: list[Pair], count: int, *, shuffled: bool) -> list[Pair]:
    """Return pairs of ``count`` sentences each, in order or in a random order that depends on ``count``."""
    pairs = random.Random(count).sample(pairs, len(pairs)) if shuffled and count > 1 else pairs
    groups = (pairs[first : first + count] for first in range(0, len(pairs) - count + 1, count))
    return [Pair(" ".join(pair.source for pair in group), " ".join(pair.target for pair in group)) for group in groups]


def write_pairs(stem: Path, pairs: list[Pair]) -> None:
    """Write the sources to STEM.src and the targets to STEM.tgt, one per line."""
    for side, suffix in enumerate(("src", "tgt")):
        stem.with_name(f"{stem.name}.{suffix}").write_text("".join(f"{pair[side]}\n" for pair in pairs))


def files(folder: Path, corpus: Corpus) -> list[str]:
    """Return the settings that name the text of the trainings."""
    return [f"data.{part}.{side}={folder / part}.{side}" for part in ("train", "valid") for side in ("src", "tgt")]


def run_name(corpus: str, kind: str, seed: int) -> str:
    return f"{corpus}-{re.sub('[ ,=]+', '-', kind)}-s{seed}"


def measure(corpus: Corpus, texts: Path, run: Path) -> dict[str, Any]:
    """Return the scores of each test set by its number of sentences, with the pieces of its sources."""
    translator = Translator.load(run, engine="torch", threads=torch.get_num_threads())
    options = SearchOptions(sentences=None, keep_placeholders=False)
    result = {}
    for count in COUNTS:
        pairs = test_pairs(texts, count)
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
        hypotheses = translator.texts(sources, options)
        scores = corpus_scores(hypotheses, references, lowercase=corpus.lowercase)
        lengths = [len(translator.encode(source)) for source in sources]
        result[str(count)] = {
            "bleu": scores.bleu,
            "chrf": scores.chrf,
            "names": recall(sources, hypotheses, references),
            "pieces": mean(lengths),
            "above": mean(length > corpus.slots for length in lengths),
        }
    return result


def test_pairs(texts: Path, count: int) -> list[Pair]:
    """Return the test set whose sources have ``count`` sentences."""
    return read_pairs(*(str(texts / f"test-{count}.{side}") for side in ("src", "tgt")))


def recall(sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the percentage of names and numbers in both source and reference that the translations have, too."""
    found = wanted = 0
    for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True):
        written, expected = words(hypothesis), words(reference)
        for word, times in names_and_numbers(source).items():
            shared = min(times, expected[word])
            wanted, found = wanted + shared, found + min(shared, written[word])
    return 100 * found / wanted


def words(text: str) -> Counter[str]:
    return Counter(match.group().lower() for match in WORD.finditer(text))


def names_and_numbers(text: str) -> Counter[str]:
    """Return the words with a digit, and those with a capital that do not begin a sentence, in lower case."""
    found = Counter[str]()
    for match in WORD.finditer(text):
        word, before = match.group(), text[: match.start()].rstrip(" \"'“”‘’(")
        inside = before and before[-1] not in ".!?:"
        if re.search(r"\d", word) or (word[0].isupper() and inside and not re.fullmatch(r"I(['’]\w+)?", word)):
            found[word.lower()] += 1
    return found


def measure_costs(args: argparse.Namespace, texts: Path) -> None:
    """Write the milliseconds of a decoder step and the stored bytes per source, of each kind and length."""
    folders = {kind: [args.runs / run_name(args.corpus, kind, seed) for seed in args.seeds] for kind in args.kinds}
    runs = {kind: found[0] for kind, seeds in folders.items() if (found := [*filter(Path.is_dir, seeds)])}
    engines, attentions = {}, {}
    for kind, run in runs.items():
        trained = load_folder(run)
        attentions[kind] = trained.model.attention
        try:
            if not exported_engines(run):
                export(trained, run)
        except UserError as error:
            print(f"{kind}: not timed: {error}", flush=True)
            continue
        engines[kind] = Translator.load(run, engine="onnx", threads=1).loaded_model.engine(trace=False)
    translator = Translator.load(runs[next(iter(engines))], engine="onnx", threads=1)
    rows = []
    for count in COUNTS:
        lines = [translator.encode(pair.source) for pair in test_pairs(texts, count)]
        length = round(mean(map(len, lines)))
        batch = [[*islice(cycle(line), length - 1), EOS] for line in lines[:BATCH]]
        started = {kind: first_step(engine, batch) for kind, engine in engines.items()}
        times = in_turns(started, ROUNDS, take_steps)
        for kind, attention in attentions.items():
            call = prepare(attention, "look-up", torch.randn(1, length, SIZE), torch.randn(1, 1, SIZE))
            milliseconds = f"{1000 * median(times[kind]) / STEPS:.4f}" if kind in times else ""
            rows.append([kind, count, length, milliseconds, call.memory_bytes])
        print(*rows[-len(runs) :], sep="\n", flush=True)
    with costs_file(args).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("kind", "sentences", "pieces", *COSTS), *rows])


def first_step(engine: Any, batch: list[list[int]]) -> tuple[Any, Any]:
    """Return the engine, and its state after the first step of a batch: five hypotheses of each source."""
    state = engine.init(engine.encode(batch))
    tokens = np.full((len(batch), 1), BOS)
    return engine, engine.step(state, tokens, np.zeros_like(tokens), BEAM)[0]


def take_steps(started: tuple[Any, Any]) -> None:
    """Take ``STEPS`` decoder steps after the first one."""
    engine, state = started
    tokens = np.full((BATCH, BEAM), FIRST_PIECE)
    for _ in range(STEPS):
        state, *_ = engine.step(state, tokens, np.zeros_like(tokens), BEAM)


def costs_file(args: argparse.Namespace) -> Path:
    return Path(args.output) / f"long_sources_{args.corpus}.csv"


def read_costs(args: argparse.Namespace) -> dict[str, dict[tuple[str, int], float]]:
    """Return each cost by kind and number of sentences; nothing before they have been measured."""
    if not costs_file(args).is_file():
        return {}
    with costs_file(args).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        cost: {(row["kind"], int(row["sentences"])): float(row[cost]) for row in rows if row[cost]} for cost in COSTS
    }


def save_report(args: argparse.Namespace, corpus: Corpus, runs: Runs) -> None:
    """Write the tables of the kinds that have finished runs, and the picture."""
    scores: dict[str, list[dict[str, Any]]] = {}
    updates: dict[str, str] = {}
    for kind in KINDS:
        names = [run_name(args.corpus, kind, seed) for seed in args.seeds]
        if finished := [run for name in names if (run := runs.finished(name))]:
            scores[kind] = [run["scores"]["lengths"] for run in finished]
            updates[kind] = ", ".join(f"{count:,}" for count in sorted({run["updates"] for run in finished}))
    first, costs = next(iter(scores.values()))[0], read_costs(args)
    lines = header(
        f"Quality against the length of the source: {corpus.title}",
        f"K = {corpus.slots}; {args.epochs} passes over the training text of all lengths; {SIZE} units",
        "beam 5; mean ± standard deviation over the seeds",
        f"a step: {BEAM} hypotheses of each of {BATCH} sources, engine onnx, one thread, median of {ROUNDS} rounds",
        runs.commits(),
    )
    lengths = [["mean S", *(f"{first[str(count)]['pieces']:.0f}" for count in COUNTS)]]
    lengths += [["mean S / K", *(f"{first[str(count)]['pieces'] / corpus.slots:.1f}" for count in COUNTS)]]
    lengths += [["sources with S > K, %", *(f"{100 * first[str(count)]['above']:.0f}" for count in COUNTS)]]
    counts = [*map(str, COUNTS)]
    lines += table(("sentences of a source", *counts), lengths)
    for key, (title, form) in SCORES.items():
        rows = [
            [
                kind,
                len(found),
                updates[kind],
                *(with_deviation([run[str(count)][key] for run in found], form) for count in COUNTS),
            ]
            for kind, found in scores.items()
        ]
        lines += ["", f"## {title}", "", *table(("attention", "seeds", "updates", *counts), rows)]
    for cost, by_cell in costs.items():
        digits = 0 if cost == "bytes" else 2
        rows = [
            [kind, *(f"{by_cell[kind, count]:,.{digits}f}" for count in COUNTS)]
            for kind in scores
            if (kind, COUNTS[0]) in by_cell
        ]
        lines += ["", f"## {cost}", "", *table(("attention", *counts), rows)]
    picture = costs_file(args).with_suffix(".png")
    if costs:
        plot(scores, costs, first, corpus, picture)
        lines += ["", f"![BLEU against the milliseconds of a step, one panel per length]({picture.name})"]
    save(picture.with_suffix(".md"), lines)


def plot(
    scores: dict[str, list[dict[str, Any]]],
    costs: dict[str, dict[tuple[str, int], float]],
    lengths: dict[str, Any],
    corpus: Corpus,
    file: Path,
) -> None:
    """Draw BLEU against the milliseconds of a decoder step, one panel per length, one point per attention."""
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    panels = figure.subplots(1, len(COUNTS), sharex=True, sharey=True)
    for axes, count in zip(panels, COUNTS, strict=True):
        for index, (kind, found) in enumerate(scores.items()):
            if x := costs["ms per step"].get((kind, count)):
                bleu = mean(run[str(count)]["bleu"] for run in found)
                axes.scatter(x, bleu, color=f"C{index % 10}", marker="os"[index // 10], label=kind)
        pieces = lengths[str(count)]["pieces"]
        axes.set(title=f"S = {pieces:.0f}, S/K = {pieces / corpus.slots:.1f}", xlabel="ms per step")
        axes.locator_params(axis="x", nbins=4)
    panels[0].set_ylabel("BLEU")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    main()
