"""How much quality do small models keep that learn from a large one, and how fast and small are they?

The teacher translates the training text of Multi30k (nmt-distill). Students with three attentions and three decoders,
and a Transformer, then learn from the original text or from the distilled one. An interrupted benchmark continues where
it stopped; results/records keeps what has finished. Speeds and sizes are those of the folder that nmt-export
engine=onnx-int8 writes.

    python -m benchmarks.quality.students --data data/multi30k
    python -m benchmarks.quality.students --cells memory-ssru-original --epochs 16
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import torch

from benchmarks.quality.memory_gap import HALF
from benchmarks.report import argument_parser, header, save, table
from benchmarks.runs import Runs, evaluate, program
from nmt import Translator
from nmt.data.text_files import read_lines

TEACHER = ["+experiment=multi30k", *HALF, "training.max_epochs=12", "training.patience=12", "attention=bahdanau"]
MIN_CHRF = 20
CELLS = [f"{attention}-lstm-distilled" for attention in ("bahdanau", "located_memory", "memory")]
CELLS += ["bahdanau-ssru-distilled", "memory-ssru-distilled", "located_memory-mingru-distilled"]
CELLS += [f"{cell}-long" for cell in ("bahdanau-lstm-distilled", "located_memory-lstm-distilled")]
CELLS += ["located_memory-mingru-distilled-long"]
CELLS += [f"located_memory-{decoder}-distilled-wide" for decoder in ("lstm", "mingru")]
CELLS += ["bahdanau-lstm-original", "memory-lstm-original", "multi_head-transformer-distilled"]
SIZE = 192
LONG_EPOCHS = 20  # of the Transformer, and of students called long or wide
WIDE = 256  # units of students called wide
TRANSFORMER = [
    *("encoder=transformer", "attention.heads=4", "attention.inner.score=scaled_dot", "attention.separate_values=true"),
    *(f"{part}.feedforward_size=384" for part in ("encoder", "decoder")),
    *("encoder.layers=4", "decoder.layers=2", "decoder.tied=true", "schedule.warmup_steps=1000"),
    *("batches.max_tokens=2048", "precision=bf16"),
]
COLUMNS = ("model", "parameters", "BLEU", "BLEU int8", "chrF int8", "MB int8", "words/s int8", "min")
ROUNDS = 3


def main() -> None:
    parser = argument_parser(
        __doc__, "students.md", runs="runs/students", threads=1, data="data/multi30k", report_only=True
    )
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=CELLS, help="students; default: all")
    parser.add_argument("--epochs", type=int, default=12, help="of the students; default: %(default)s")
    args = parser.parse_args()
    runs = Runs.of(args)
    folder = f"data.folder={args.data.resolve()}"
    if not args.report_only:
        runs.train("teacher", [*TEACHER, folder])
        distilled = args.runs / "distilled"
        if not distilled.is_dir():
            runs.records["teacher"]["scores"].pop("distilled", None)
        runs.score("teacher", "distilled", partial(distil, data=args.data, output=distilled))
        for cell in args.cells:
            attention, decoder, text, *more = cell.split("-")
            is_transformer = decoder == "transformer"
            files = [f"data.train.{side}={(distilled / f'train.{side}').resolve()}" for side in ("src", "tgt")]
            count = LONG_EPOCHS if more or is_transformer else args.epochs
            epochs = [f"training.{key}={count}" for key in ("max_epochs", "patience")]
            settings = student(WIDE if more == ["wide"] else SIZE)
            settings += [f"attention={attention}", f"decoder={decoder}", *epochs, folder]
            settings += TRANSFORMER if is_transformer else []
            runs.train(cell, [*settings, *(files if text == "distilled" else [])])
    write_report(args.output, args.data, runs, args.epochs)


def student(size: int) -> list[str]:
    """Return the settings that all students of ``size`` units have."""
    settings = ["+experiment=multi30k", f"embeddings.size={size}", "training.decode_sentences=300"]
    for part in ("encoder", "decoder"):
        settings += [f"{part}.hidden_size={size}", f"{part}.dropout=0.2"]
    return settings


def distil(teacher: Path, data: Path, output: Path) -> dict[str, Any]:
    """Write the distilled text, and return the lines that nmt-distill prints about it."""
    program("export", f"model={teacher}", "engine=onnx")
    files = (f"src={data / 'train.en.gz'}", f"tgt={data / 'train.de.gz'}", f"output={output}")
    words = (f"model={teacher}", *files, f"min_chrf={MIN_CHRF}", "engine=onnx", "threads=1")
    return {"lines": program("distill", *words).splitlines()[:-2]}


def measure(run: Path, data: Path) -> dict[str, float]:
    """Return scores, size and speed of the model in the folder ``run``."""
    small = run.with_name(f"{run.name}-int8")
    if not small.is_dir():
        program("export", f"model={run}", f"output={small}", "engine=onnx-int8")
    test = [f"src={data / 'test2016.en.gz'}", f"tgt={data / 'test2016.de.gz'}", "lowercase=true"]
    exact, integers = evaluate(f"model={run}", *test), evaluate(f"model={small}", *test, "engine=onnx-int8")
    weights = torch.load(run / "model.pt", weights_only=True)["weights"]
    lines = list(read_lines(data / "test2016.en.gz"))
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


def write_report(file: Path, data: Path, runs: Runs, epochs: int) -> None:
    """Write the table of all runs that have finished."""
    rows = []
    for name in ("teacher", *CELLS):
        title = name.replace("-", ", ")
        run = runs.finished(name)
        if run is None:
            rows.append([title, *["not run"] * (len(COLUMNS) - 1)])
            continue
        score = runs.score(name, "test", partial(measure, data=data))
        numbers = [f"{score['parameters'] / 1e6:.1f} M", *(f"{score[key]:.2f}" for key in ("bleu", "bleu_int8"))]
        numbers += [f"{score['chrf_int8']:.2f}", f"{score['megabytes']:.1f}", f"{score['words_per_s']:,.0f}"]
        rows.append([title, *numbers, f"{run['seconds'] / 60:.0f}"])
    teacher = runs.records.get("teacher", {"scores": {}})["scores"].get("distilled", {"lines": []})
    facts = [
        f"teacher: Bahdanau attention, 256 units, 12 epochs; students: {SIZE} units, {epochs} epochs",
        f"transformer: four layers in the encoder, two in the decoder, {LONG_EPOCHS} epochs, bf16",
        f"long: {LONG_EPOCHS} epochs; wide: {LONG_EPOCHS} epochs, {WIDE} units",
        "test2016, both sides lower-cased, beam 5, one seed; source words per second of processor time, one thread",
        *(f"distilled text: {line}" for line in teacher["lines"]),
    ]
    save(file, [*header("Small models that learn from a large one", *facts, runs.commits()), *table(COLUMNS, rows)])


if __name__ == "__main__":
    main()
