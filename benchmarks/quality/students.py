"""How much quality do small models keep that learn from a large one, and how fast and small are they?

The teacher translates the training text (nmt-distill): captions of Multi30k, or short sentences of Tatoeba. Students
with three attentions and three decoders, and a Transformer, then learn from the original text or from the distilled
one. An interrupted benchmark continues where it stopped; results/records keeps what has finished. Speeds and sizes are
those of the folder that nmt-export engine=onnx-int8 writes.

    python -m benchmarks.quality.students --data data/multi30k
    python -m benchmarks.quality.students --cells memory-ssru-original --epochs 16
    python -m benchmarks.quality.students --cells bahdanau-lstm-both-long --seed 2
    python -m benchmarks.quality.students --corpus tatoeba --data data/tatoeba-de-en
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import torch

from benchmarks.quality.memory_gap import CORPORA, HALF, Corpus, add_corpus, files, sides
from benchmarks.report import argument_parser, header, save, table, with_deviation
from benchmarks.runs import Runs, evaluate, program
from nmt import Translator
from nmt.data.text_files import read_lines

TEACHER = ["+experiment=multi30k", *HALF, "training.max_epochs=12", "training.patience=12", "attention=bahdanau"]
MIN_CHRF = 20
TEXTS = {
    "distilled": [],
    "interpolated": ["search.beam_size=10", "search.n_best=10"],
    "both": ["add_original=true"],
    "ensemble": ["add_original=true"],
}
"""Settings of nmt-distill for each distilled text."""
DOUBLE = ("both", "ensemble")
"""Texts that also have the references: they are twice as long, and students read them half as often."""
TEACHERS = {"ensemble": 2}
"""Number of teachers, with seeds 1, 2, …, that translate a text together; 1 for the other texts."""
CELLS = [f"{attention}-lstm-distilled" for attention in ("bahdanau", "located_memory", "memory")]
CELLS += ["bahdanau-ssru-distilled", "memory-ssru-distilled", "located_memory-mingru-distilled"]
CELLS += [f"{cell}-long" for cell in ("bahdanau-lstm-distilled", "located_memory-lstm-distilled")]
CELLS += ["located_memory-mingru-distilled-long"]
CELLS += [f"located_memory-{decoder}-distilled-wide" for decoder in ("lstm", "mingru")]
CELLS += ["bahdanau-lstm-interpolated", "bahdanau-lstm-original", "bahdanau-lstm-both-long", "memory-lstm-original"]
CELLS += ["luong-lstm-both-long", "luong-lstm-ensemble-long"]
CELLS += [f"multi_head-transformer-{text}" for text in ("distilled", "both", "ensemble")]
TATOEBA_CELLS = ["bahdanau-lstm-distilled", "located_memory-mingru-distilled"]
TATOEBA_CELLS += ["bahdanau-lstm-both", "bahdanau-lstm-distilled-wide", "bahdanau-lstm-both-wide"]
TATOEBA_CELLS += ["luong-lstm-both-wide", "multi_head-transformer-distilled", "multi_head-transformer-both"]
SIZE = 192
DROPOUT = 0.2
WIDE = 256  # units of students called wide
TRANSFORMER = [
    *("encoder=transformer", "attention.heads=4"),
    *(f"{part}.feedforward_size=384" for part in ("encoder", "decoder")),
    *("encoder.layers=4", "decoder.layers=2", "decoder.tied=true", "schedule.warmup_steps=1000"),
    *("batches.max_tokens=1536", "precision=bf16"),
]


class Plan(NamedTuple):
    """The students of a corpus."""

    cells: list[str]
    long_epochs: int
    """Epochs of the Transformer, and of students called long or wide."""
    long_dropout: float
    """Dropout of the same students."""
    transformer: list[str]
    """Settings of the Transformer, beside TRANSFORMER."""
    shared: list[str]
    """Settings of all runs."""


PLANS = {
    "captions": Plan(CELLS, 20, 0.2, [], []),
    "tatoeba": Plan(TATOEBA_CELLS, 16, 0.1, ["optimizer.lr=0.001"], ["batches.max_tokens=1536", "precision=bf16"]),
}
COLUMNS = ("model", "seeds", "parameters", "BLEU", "BLEU int8", "chrF int8", "MB int8", "words/s int8", "min")
ROUNDS = 3
SEEDS = 5  # the largest seed


def main() -> None:
    parser = argument_parser(__doc__, "students.md", runs="runs/students", threads=1, report_only=True)
    add_corpus(parser, PLANS)
    cells = ["teacher", *sorted({*CELLS, *TATOEBA_CELLS})]
    parser.add_argument("--cells", nargs="+", choices=cells, help="models; default: all students of the corpus")
    parser.add_argument("--epochs", type=int, default=12, help="of the students; default: %(default)s")
    help_text = "of --cells, which learn from the same text; default: %(default)s"
    parser.add_argument("--seed", type=int, choices=range(1, SEEDS + 1), default=1, help=help_text)
    args = parser.parse_args()
    corpus, plan = CORPORA[args.corpus], PLANS[args.corpus]
    data = args.data or Path(corpus.default)
    runs = Runs.of(args)
    if not args.report_only:
        train(args.cells or plan.cells, args, data, runs)
    write_report(args.output.with_stem(args.output.stem + corpus.suffix), args, data, runs)


def train(cells: Sequence[str], args: Any, data: Path, runs: Runs) -> None:
    """Train the teacher, write the distilled text, and train the students ``cells``."""
    corpus, plan = CORPORA[args.corpus], PLANS[args.corpus]
    original = files(corpus, data.resolve())
    teacher = f"{corpus.prefix}teacher"
    teacher_words = [*TEACHER, *plan.shared, *original]
    runs.train(teacher, teacher_words)
    seed = [f"seed={args.seed}"] if args.seed > 1 else []
    for cell in cells:
        if cell == "teacher":
            runs.train(run_name(corpus, cell, args.seed), [*teacher_words, *seed])
            continue
        attention, decoder, name, *more = cell.split("-")
        is_transformer = decoder == "transformer"
        is_long = bool(more) or is_transformer
        dropout = plan.long_dropout if is_transformer or (is_long and name not in DOUBLE) else DROPOUT
        count = plan.long_epochs if is_long else args.epochs
        if name in DOUBLE:
            count //= 2
        words = [*student(WIDE if more == ["wide"] else SIZE, dropout), f"attention={attention}", f"decoder={decoder}"]
        words += [f"training.{key}={count}" for key in ("max_epochs", "patience")]
        if is_transformer:
            words += [word for word in (*TRANSFORMER, *plan.transformer) if word not in plan.shared]
        text = original
        if name in TEXTS:
            output = args.runs / f"{corpus.prefix}{name}"
            if not output.is_dir():
                for number in range(1, TEACHERS.get(name, 1) + 1):
                    of_number = [f"seed={number}"] if number > 1 else []
                    runs.train(run_name(corpus, "teacher", number), [*teacher_words, *of_number], model=True)
                runs.records[teacher]["scores"].pop(name, None)
            runs.score(teacher, name, partial(distil, corpus=corpus, data=data, output=output, name=name))
            text = [f"data.train.{side}={(output / f'train.{side}').resolve()}" for side in ("src", "tgt")]
            text += original[2:]
        runs.train(run_name(corpus, cell, args.seed), [*words, *plan.shared, *text, *seed])


def run_name(corpus: Corpus, cell: str, seed: int) -> str:
    return f"{corpus.prefix}{cell}" + (f"-seed{seed}" if seed > 1 else "")


def student(size: int, dropout: float) -> list[str]:
    """Return the settings that all students of ``size`` units have."""
    settings = ["+experiment=multi30k", f"embeddings.size={size}", "training.decode_sentences=300"]
    for part in ("encoder", "decoder"):
        settings += [f"{part}.hidden_size={size}", f"{part}.dropout={dropout}"]
    return settings


def distil(teacher: Path, corpus: Corpus, data: Path, output: Path, name: str) -> dict[str, Any]:
    """Write the distilled text ``name``, and return the lines that nmt-distill prints about it."""
    teachers = [teacher.with_name(run_name(corpus, "teacher", 1 + index)) for index in range(TEACHERS.get(name, 1))]
    for model in teachers:
        program("export", f"model={model}", "engine=onnx")
    text = (*sides(corpus, data / corpus.train), f"output={output}")
    models = f"model=[{','.join(map(str, teachers))}]"
    words = (models, *text, f"min_chrf={MIN_CHRF}", "engine=onnx", "threads=1", *TEXTS[name])
    return {"lines": program("distill", *words).splitlines()[:-2]}


def measure(run: Path, corpus: Corpus, data: Path) -> dict[str, float]:
    """Return scores, size and speed of the model in the folder ``run``."""
    small = run.with_name(f"{run.name}-int8")
    if not small.is_dir():
        program("export", f"model={run}", f"output={small}", "engine=onnx-int8")
    test = [*sides(corpus, data / corpus.sets[1]), "lowercase=true"]
    exact, integers = evaluate(f"model={run}", *test), evaluate(f"model={small}", *test, "engine=onnx-int8")
    weights = torch.load(run / "model.pt", weights_only=True)["weights"]
    lines = list(read_lines(Path(test[0].removeprefix("src="))))
    translator = Translator.load(small, engine="onnx-int8", threads=1)
    seconds = []
    for _ in range(ROUNDS):
        start = process_time()
        translator.texts(lines)
        seconds.append(process_time() - start)
    return {
        "parameters": sum({weight.data_ptr(): weight.numel() for weight in weights.values()}.values()),
        "bleu": exact["bleu"],
        "bleu_int8": integers["bleu"],
        "chrf_int8": integers["chrf"],
        "megabytes": sum(file.stat().st_size for file in small.iterdir()) / 1e6,
        "words_per_s": sum(len(line.split()) for line in lines) / min(seconds),
    }


def write_report(file: Path, args: Any, data: Path, runs: Runs) -> None:
    """Write the table of all runs that have finished."""
    corpus, plan = CORPORA[args.corpus], PLANS[args.corpus]
    rows = []
    for name in ("teacher", *plan.cells):
        title = name.replace("-", ", ")
        names = [run_name(corpus, name, seed) for seed in range(1, SEEDS + 1)]
        finished = {run: record for run in names if (record := runs.finished(run)) is not None}
        if not finished:
            rows.append([title, *["not run"] * (len(COLUMNS) - 1)])
            continue
        measured = [runs.score(run, "test", partial(measure, corpus=corpus, data=data)) for run in finished]
        score, run = measured[0], next(iter(finished.values()))
        numbers = [str(len(finished)), f"{score['parameters'] / 1e6:.1f} M"]
        numbers += [with_deviation([score[key] for score in measured]) for key in ("bleu", "bleu_int8", "chrf_int8")]
        numbers += [f"{score['megabytes']:.1f}", f"{score['words_per_s']:,.0f}"]
        rows.append([title, *numbers, f"{run['seconds'] / 60:.0f}"])
    scores = runs.records.get(f"{corpus.prefix}teacher", {"scores": {}})["scores"]
    facts = [
        "teacher: Bahdanau attention, 256 units, 12 epochs",
        f"students: {SIZE} units, {args.epochs} epochs, dropout {DROPOUT}",
        f"transformer: four layers in the encoder, two in the decoder, {plan.long_epochs} epochs, bf16, dropout "
        f"{plan.long_dropout} {' '.join(plan.transformer)}".rstrip(),
    ]
    if any(name.endswith(("long", "wide")) for name in plan.cells):
        facts.append(f"long: {plan.long_epochs} epochs, dropout {plan.long_dropout}; wide: as long, with {WIDE} units")
    if any("-both" in name for name in plan.cells):
        facts.append(
            f"both: translations and references, half as many epochs, recurrent decoders with dropout {DROPOUT}"
        )
    if any("-ensemble" in name for name in plan.cells):
        facts.append("ensemble: as both, but two teachers with other seeds translate together")
    facts += [f"all: {' '.join(plan.shared)}"] if plan.shared else []
    facts += [
        f"{corpus.sets[1]}, both sides lower-cased, beam 5; several seeds: mean ± deviation; the other columns are of "
        "the first; source words per second of processor time, one thread",
        *(f"{name} text: {line}" for name in TEXTS for line in scores.get(name, {"lines": []})["lines"]),
    ]
    save(
        file,
        [
            *header(f"Small models that learn from a large one{corpus.on}", *facts, runs.commits()),
            *table(COLUMNS, rows),
        ],
    )


if __name__ == "__main__":
    main()
