"""Which quality do our small models give per second of one core, beside a Transformer in CTranslate2?

The models are runs of students.py. All translate in int8, with and without a shortlist; a Transformer of the same text
also runs in CTranslate2. In each round, every model starts, translates and ends. Seconds are those of the processor,
from text to text.

    python -m venv ct2 && ct2/bin/pip install ctranslate2 sentencepiece
    python -m benchmarks.quality.ctranslate2 --ct2 ct2/bin/python
    python -m benchmarks.quality.ctranslate2 --ct2 ct2/bin/python --corpus tatoeba
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
from sacrebleu import BLEU, CHRF

from benchmarks.machine import peak_memory
from benchmarks.quality.ct2_transformer import arrays
from benchmarks.quality.memory_gap import CORPORA, add_corpus, sides
from benchmarks.report import argument_parser, header, save, table, with_quartiles
from benchmarks.runs import program
from nmt.data.text_files import read_lines
from nmt.files.atomic import write_lines
from nmt.inference.model_folder import load_folder
from nmt.text.tokenizer import Tokenizer

# Started with -P, because this file in its folder has the name of the package that it imports.
PEER = Path(__file__).with_name("ctranslate2_peer.py")
CONVERTED = "multi_head-transformer"  # these students run in CTranslate2 too
SHORTLIST = 20  # translations per source piece, in a second folder of each model; CTranslate2 gets the same lists
BEAMS = (5, 2, 1)
MODES = {"batches": (32, 200), "one line": (1, 40)}  # lines in a batch, timed lines


class System(NamedTuple):
    """A model in a program: the Python that runs it, the engine of ctranslate2_peer.py, and its folder."""

    name: str
    python: str
    engine: str
    folder: Path


def main() -> None:
    parser = argument_parser(__doc__, "ctranslate2.md", rounds=5, runs="runs/ctranslate2", threads=None)
    add_corpus(parser, ("captions", "tatoeba"))
    parser.add_argument("--ct2", type=Path, required=True, help="a Python with ctranslate2 and sentencepiece")
    parser.add_argument("--students", type=Path, default=Path("runs/students"), help="default: %(default)s")
    args = parser.parse_args()
    corpus = CORPORA[args.corpus]
    args.data = args.data or Path(corpus.default)
    args.output = args.output.with_stem(args.output.stem + corpus.suffix)
    runs = sorted(file.parent for file in args.students.glob(f"{corpus.prefix}*/summary.json"))
    systems = [system for run in runs for system in exported(run, args)]
    source, references = (
        [line.lower() for line in read_lines(Path(file.partition("=")[2]))]
        for file in sides(corpus, args.data / corpus.sets[1])
    )
    args.test = args.runs / f"{corpus.prefix}test.src"
    write_lines(args.test, source)
    tokenizer = Tokenizer.from_file(runs[0] / "data" / "source.model")
    args.pieces = round(mean(len(tokenizer.encode(line)) + 1 for line in source))
    scores = {system: score(system, args, references) for system in systems}
    rounds = [{system: timed(system, args) for system in systems} for _ in range(args.rounds)]
    write_report(args, scores, rounds)


def exported(run: Path, args: Any) -> Iterator[System]:
    """Export a run, unless this has been done, and yield what translates with it."""
    for engine, words in (("nmt", []), ("nmt-short", [f"shortlist={SHORTLIST}"])):
        folder = args.runs / f"{run.name}-{engine}"
        if not folder.is_dir():
            program("export", f"model={run}", f"output={folder}", "engine=onnx-int8", *words)
        title = f"{run.name}{', shortlist' if words else ''}"
        yield System(title, sys.executable, engine, folder)
        if CONVERTED in run.name:
            yield converted(run, f"CTranslate2 int8, {title}", folder / "shortlist.npz", args)


def converted(run: Path, title: str, shortlist: Path, args: Any) -> System:
    """Convert a Transformer to CTranslate2, unless this has been done, and return what runs it.

    If there is a ``shortlist`` of the toolkit, it becomes a vocabulary map.
    """
    folder = args.runs / f"{run.name}-ct2{'-short' if shortlist.is_file() else ''}"
    if not (folder / "model.bin").is_file():
        folder.mkdir(exist_ok=True)
        model = load_folder(run).model
        tokenizer = Tokenizer.from_file(run / "data" / "source.model")
        pieces = tokenizer.pieces(range(len(tokenizer)))
        layers = (len(model.encoder.blocks), len(model.decoder.blocks))
        if shortlist.is_file():
            write_vocabulary_map(shortlist, pieces, folder / "lists.txt")
        np.savez(folder / "weights.npz", **arrays(model))
        shape = {"layers": layers, "heads": model.attention.heads, "pieces": pieces}
        (folder / "shape.json").write_text(json.dumps(shape), encoding="utf-8")
        shutil.copy(run / "data" / "source.model", folder / "pieces.model")
        subprocess.run([args.ct2, "-P", PEER, "convert", folder], check=True, env=environment(args.ct2))
    return System(title, str(args.ct2), "ct2", folder)


def write_vocabulary_map(shortlist: Path, pieces: Sequence[str], file: Path) -> None:
    """Write a line for each source piece: the piece, a tab and the target pieces. The first line is for all sources."""
    with np.load(shortlist) as lists:
        rows = [("", lists["frequent"]), *zip(pieces, lists["best"], strict=True)]
    write_lines(file, (f"{source}\t{' '.join(pieces[piece] for piece in np.unique(row))}" for source, row in rows))


def environment(python: str | Path) -> dict[str, str]:
    """Return the environment of a program with one thread, without our packages unless it runs in our Python."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if str(python) != sys.executable:
        variables.pop("PYTHONPATH", None)
    return variables


class Process:
    """A system that waits for jobs."""

    def __init__(self, system: System) -> None:
        command = [system.python, "-P", str(PEER), system.engine, str(system.folder), "1"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes, env=environment(system.python))

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def ask(self, args: Any, **job: Any) -> dict[str, float]:
        """Return the answer to a job: all lines of the test set, in batches, with beam 5, unless changed."""
        shared = {"input": str(args.test), "output": None, "lines": None, "batch": 32, "beam": 5}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({**shared, "pieces": args.pieces, **job}) + "\n")
        self.process.stdin.flush()
        seconds: dict[str, float] = json.loads(self.process.stdout.readline())
        return seconds


def score(system: System, args: Any, references: Sequence[str]) -> dict[str, float]:
    """Return the size of a system in MB, and BLEU and chrF of its translations of the test set by beam size."""
    scores = {"MB": sum(file.stat().st_size for file in system.folder.iterdir()) / 1e6}
    with Process(system) as process:
        for beam in BEAMS:
            output = args.test.with_suffix(".tgt")
            process.ask(args, beam=beam, output=str(output))
            lines = list(read_lines(output, allow_empty=True))
            scores[f"BLEU, beam {beam}"] = BLEU(lowercase=True).corpus_score(lines, [references]).score
            scores[f"chrF, beam {beam}"] = CHRF(lowercase=True).corpus_score(lines, [references]).score
    return scores


def timed(system: System, args: Any) -> dict[str, float]:
    """Return the words per second of processor time for each mode and beam, peak RAM, and seconds to the first line."""
    words = [len(line.split()) for line in read_lines(args.test)]
    with Process(system) as process:
        measured = {"first line": process.ask(args, lines=1, batch=1)["start"]}
        process.ask(args, lines=64)  # warm up
        for mode, (batch, count) in MODES.items():
            for beam in BEAMS:
                seconds = process.ask(args, lines=count, batch=batch, beam=beam)
                measured[f"words/s, {mode}, beam {beam}"] = sum(words[:count]) / seconds["processor"]
        measured["RAM"] = peak_memory(process.process.pid) / 2**20
    return measured


def write_report(
    args: Any, scores: dict[System, dict[str, float]], rounds: Sequence[dict[System, dict[str, float]]]
) -> None:
    """Write a row for each system. The ratio is to the first model of CTranslate2 in the same round."""
    base = next(system for system in scores if system.engine == "ct2")
    jobs = [name for name in rounds[0][base] if name.startswith("words/s")]
    columns = ["model", *scores[base], *(part for job in jobs for part in (job, "ratio")), "RAM, MB", "first line, s"]
    rows = []
    for system, quality in scores.items():
        cells = [f"{value:.2f}" for value in quality.values()]
        for job in jobs:
            ratios = [part[system][job] / part[base][job] for part in rounds]
            cells += [f"{median(part[system][job] for part in rounds):,.0f}", with_quartiles(ratios)]
        cells.append(f"{max(part[system]['RAM'] for part in rounds):.0f}")
        rows.append([system.name, *cells, f"{median(part[system]['first line'] for part in rounds):.2f}"])
    corpus = CORPORA[args.corpus]
    facts = (
        f"{corpus.sets[1]}, lower-cased; words/s: source words per second of processor time on one thread",
        f"{args.rounds} rounds; ratio to {base.name}, median (quartiles); shortlists of {SHORTLIST} for both programs",
    )
    save(args.output, [*header(f"Small models beside CTranslate2{corpus.on}", *facts), *table(columns, rows)])


if __name__ == "__main__":
    main()
