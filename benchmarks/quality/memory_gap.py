"""Why does memory attention translate worse than Bahdanau attention on 29,000 captions?

Each cell trains a model of half the size of +experiment=multi30k to the end of its schedule, with one change of
attention=memory, and is scored on the validation and test sets by beam search. An interrupted benchmark continues where
it stopped; results/records keeps what has finished. Cells that have not run say "not run".

    python -m benchmarks.quality.memory_gap --data data/multi30k
    python -m benchmarks.quality.memory_gap --cells bahdanau memory abc --seeds 1 2 3

``--corpus`` compares attentions on other text: 164,652 short sentences of Tatoeba, German to English, or 30,000
sentences of talks, English to Vietnamese, which are longer than captions. For talks, the test sets are also scored by
the length of their sources.

    python -m benchmarks.quality.memory_gap --corpus tatoeba --data data/tatoeba-de-en
    python -m benchmarks.quality.memory_gap --corpus talks --data data/iwslt15-en-vi/noapos
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import argument_parser, header, save, table, with_deviation
from benchmarks.runs import Runs
from nmt.data.text_files import read_pairs
from nmt.inference.scores import corpus_scores
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

MEMORY = ["attention=memory"]


CELLS = {
    "bahdanau": ["attention=bahdanau"],
    "luong, scaled_dot": ["attention=luong", "attention.score=scaled_dot"],
    "luong, general": ["attention=luong", "attention.score=general"],
    "memory": MEMORY,
    "located_memory": ["attention=located_memory"],
    "stretch_memory": ["attention=stretch_memory"],
    "abc": ["attention=abc"],
    "no encodings": [*MEMORY, "attention.position_encoding=false"],
    "K = 8": [*MEMORY, "attention.slots=8"],
    "K = 64": [*MEMORY, "attention.slots=64"],
    "located_memory, K = 64": ["attention=located_memory", "attention.slots=64"],
    "located_memory, K = 128": ["attention=located_memory", "attention.slots=128"],
}
TALKS = (
    "data=text tokenizer.vocab_size=4000 embeddings.size=192 batches.max_tokens=1000 optimizer.lr=0.004 "
    "schedule=linear training.label_smoothing=0.1 training.decode_sentences=0 training.monitor=valid_loss"
).split()
HALF = ["encoder.hidden_size=256", "decoder.hidden_size=256", "encoder.dropout=0.3", "decoder.dropout=0.3"]
BEAM = 5
LONGEST = 10**6  # pieces


class Corpus(NamedTuple):
    """Text to train on: its languages, the names of its sets, and how it is trained."""

    title: str
    languages: tuple[str, str]
    train: str
    sets: tuple[str, ...]
    """The validation set and the test sets."""
    default: str
    """Its usual folder."""
    settings: tuple[str, ...] = ("+experiment=multi30k",)
    epochs: int = 12
    groups: Mapping[str, range] = {}
    """Numbers of pieces of the sources that are scored by themselves, by the name of the group."""
    cells: tuple[str, ...] = ("bahdanau", "memory", "located_memory")
    prefix: str = ""
    """The names of its runs begin with it."""
    facts: str = ""

    @property
    def on(self) -> str:
        """The end of a title, which does not name the captions."""
        return f" on {self.title}" if self.prefix else ""

    @property
    def suffix(self) -> str:
        """The end of the name of its results file."""
        return f"_{self.prefix.removesuffix('-')}" if self.prefix else ""


CORPORA = {
    "captions": Corpus(
        "Multi30k",
        ("en", "de"),
        "train",
        ("valid", "test2016", "test2017"),
        "data/multi30k",
        cells=tuple(cell for cell in CELLS if not cell.startswith("located_memory, K")),
    ),
    "tatoeba": Corpus(
        "164,652 pairs of Tatoeba",
        ("de", "en"),
        "train",
        ("valid", "test"),
        "data/tatoeba-de-en",
        ("+experiment=multi30k", "precision=bf16", "training.decode_sentences=1765"),
        prefix="tatoeba-",
        facts="; German to English, bf16",
    ),
    "talks": Corpus(
        "30,000 pairs of talks",
        ("en", "vi"),
        "train30k",
        ("tst2012", "tst2013"),
        "data/iwslt15-en-vi/noapos",
        tuple(TALKS),
        epochs=8,
        groups={"≤ 32": range(33), "33–64": range(33, 65), "> 64": range(65, LONGEST)},
        cells=(
            "bahdanau",
            "luong, general",
            "stretch_memory",
            "located_memory",
            "located_memory, K = 64",
            "located_memory, K = 128",
        ),
        prefix="talks-",
        facts="; English to Vietnamese",
    ),
}


def main() -> None:
    parser = argument_parser(__doc__, "memory_gap.md", runs="runs/memory_gap", seeds=[1], report_only=True)
    add_corpus(parser, CORPORA)
    parser.add_argument("--cells", nargs="+", choices=CELLS, help="default: all of the corpus")
    parser.add_argument("--epochs", type=int, help="default: 12; 8 for talks")
    args = parser.parse_args()
    corpus = CORPORA[args.corpus]
    data = args.data or Path(corpus.default)
    output = args.output.with_stem(args.output.stem + corpus.suffix)
    runs = Runs.of(args, curves=("valid_bleu",))
    epochs = args.epochs or corpus.epochs
    common = [*corpus.settings, *HALF, f"training.max_epochs={epochs}", f"training.patience={epochs}"]
    common += files(corpus, data.resolve())
    for seed in args.seeds:
        for cell in [] if args.report_only else args.cells or corpus.cells:
            runs.train(run_name(corpus, cell, seed), [*common, f"seed={seed}", *CELLS[cell]])
            write_report(output, corpus, data, runs, epochs)
    write_report(output, corpus, data, runs, epochs)


def add_corpus(parser: ArgumentParser, choices: Collection[str]) -> None:
    """Add the options that choose one of the corpora ``choices``, and its folder."""
    parser.add_argument("--corpus", choices=choices, default="captions", help="default: %(default)s")
    parser.add_argument("--data", type=Path, help="default: data/multi30k, or the usual folder of another corpus")


def files(corpus: Corpus, data: Path) -> list[str]:
    """Return the settings that name the text."""
    return [
        f"data.{part}.{file}"
        for part, name in zip(("train", "valid", "test"), (corpus.train, *corpus.sets), strict=False)
        for file in sides(corpus, data / name)
    ]


def sides(corpus: Corpus, stem: Path) -> list[str]:
    """Return the settings that name both files of a set."""
    return [f"{side}={stem}.{language}.gz" for side, language in zip(("src", "tgt"), corpus.languages, strict=True)]


def run_name(corpus: Corpus, cell: str, seed: int) -> str:
    return f"{corpus.prefix}{cell.replace(',', '').replace(' = ', '').replace(' ', '-')}-s{seed}"


def write_report(file: Path, corpus: Corpus, data: Path, runs: Runs, epochs: int) -> None:
    """Write the table of all finished cells."""
    scored = [*corpus.sets, *(f"{part}, {group}" for part in corpus.sets for group in corpus.groups)]
    columns = ("change", "seeds", *scored, "best valid, greedy", "tokens/s", "min")
    rows = []
    for cell in corpus.cells:
        names = [run_name(corpus, cell, seed) for seed in range(1, 10)]
        finished = {name: run for name in names if (run := runs.finished(name)) is not None}
        if not finished:
            rows.append([cell, 0, *["not run"] * (len(columns) - 2)])
            continue
        scores = [runs.score(name, f"beam{BEAM}", partial(evaluate_sets, corpus, data)) for name in finished]
        row = [with_deviation([score[part] for score in scores]) for part in scored]
        curves = [[bleu for _, bleu in run["curves"].get("valid_bleu", [])] for run in finished.values()]
        row.append(with_deviation([*map(max, curves)]) if all(curves) else "–")
        row.append(with_deviation([run["tokens_per_s"] for run in finished.values()], ",.0f"))
        row.append(with_deviation([run["seconds"] / 60 for run in finished.values()], ".0f"))
        rows.append([cell, len(finished), *row])
    facts = f"BLEU, beam {BEAM}, both sides lower-cased; {epochs} epochs, 256 units; mean ± deviation{corpus.facts}"
    lines = header(f"Changes of memory attention on {corpus.title}", facts, runs.commits())
    save(file, [*lines, *table(columns, rows)])


def evaluate_sets(corpus: Corpus, data: Path, model: Path) -> dict[str, Any]:
    """Return the BLEU of the model on each set, and on each group of its sources."""
    translator = Translator.load(model)
    options = SearchOptions(beam_size=BEAM, sentences=None)
    result = {}
    for part in corpus.sets:
        pairs = read_pairs(*(str(data / f"{part}.{language}.gz") for language in corpus.languages))
        hypotheses = translator.texts([pair.source for pair in pairs], options)
        lengths = [len(translator.encode(pair.source)) for pair in pairs]
        for name, members in {"": range(LONGEST), **corpus.groups}.items():
            rows = [row for row, length in enumerate(lengths) if length in members]
            texts, references = [hypotheses[row] for row in rows], [pairs[row].target for row in rows]
            result[f"{part}, {name}" if name else part] = corpus_scores(texts, references, lowercase=True).bleu
    return result


if __name__ == "__main__":
    main()
