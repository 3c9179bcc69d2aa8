"""Which quality do our small models, Marian and CTranslate2 give per second of one core?

Marian trains a Transformer on the text of the students (see students.py), in the same pieces. It then translates in
Marian and, converted, in CTranslate2, in turns with the teacher and the students in onnx-int8. One student is a
Transformer, which is converted to CTranslate2 too. Seconds are those of the processor, from text to text.

    python -m benchmarks.quality.marian --marian marian/bin/python --ct2 ct2/bin/python
    python -m benchmarks.quality.marian --marian marian/bin/python --ct2 ct2/bin/python --report-only
    python -m benchmarks.quality.marian --marian marian/bin/python --ct2 ct2/bin/python --report-only --corpus tatoeba
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from sacrebleu import BLEU, CHRF

from benchmarks.machine import peak_memory
from benchmarks.quality.ct2_transformer import arrays
from benchmarks.quality.memory_gap import CORPORA, add_corpus, sides
from benchmarks.quality.students import PLANS
from benchmarks.report import argument_parser, header, save, table, with_quartiles
from benchmarks.runs import end_with_parent, program, read_records
from nmt.data.text_files import read_lines
from nmt.files.atomic import write_lines
from nmt.inference.model_folder import load_folder
from nmt.system.machine import usable_cores
from nmt.text.tokenizer import SPECIALS, Tokenizer

PEER = Path(__file__).with_name("marian_peer.py")
CONVERTED = "multi_head-transformer"  # these students run in CTranslate2 too
STUDENTS = {
    "captions": [
        "bahdanau-lstm-distilled-long",
        "bahdanau-lstm-both-long",
        "luong-lstm-both-long",
        "luong-lstm-ensemble-long",
        "located_memory-mingru-distilled-long",
        f"{CONVERTED}-distilled",
        f"{CONVERTED}-both",
        f"{CONVERTED}-ensemble",
    ],
    "tatoeba": PLANS["tatoeba"].cells,
}
MAX_LENGTH_RATIO = 1.5  # of the toolkit's search, which is exact; the others stop when a beam of hypotheses has ended
SHORTLIST = 20  # translations per source piece, in a second folder of each model; CTranslate2 gets the same lists
SIZES = {
    "small": "--dim-emb 192 --enc-depth 4 --dec-depth 2 --transformer-heads 4 --transformer-dim-ffn 384",
    "tiny": "--dim-emb 256 --enc-depth 6 --dec-depth 2 --transformer-heads 8 --transformer-dim-ffn 1536",
}
PRE_NORM = "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n"
VARIANTS = {
    "prenorm": PRE_NORM,
    # CTranslate2 can compute this one only. It normalises the keys and values of a pre-norm decoder; Marian does not.
    "postnorm": "--transformer-postprocess dan --output-omit-bias",
    "ssru": f"{PRE_NORM} --transformer-decoder-autoreg rnn --dec-cell ssru --dec-cell-base-depth 2",
}
# With self-attention in the decoder (postnorm, prenorm), Marian 1.12.42 learns badly on a CPU: see LOG.md.
CELLS = ("small-ssru-distilled", "small-postnorm-distilled", "small-prenorm-distilled", "tiny-ssru-distilled")
CELLS += ("small-prenorm-original",)
TRAINING = """
--type transformer --transformer-ffn-activation relu --tied-embeddings-all --transformer-postprocess-emb d
--transformer-dropout 0.3 --label-smoothing 0.1 --cost-type ce-mean-words --optimizer-params 0.9 0.98 1e-9 --clip-norm 1
--learn-rate 0.004 --lr-warmup 800 --lr-decay-inv-sqrt 800 --exponential-smoothing 3e-3 --mini-batch 2000
--mini-batch-words 4000 --maxi-batch 1000 --max-length 100 --seed 1 --shuffle-in-ram --workspace 3000 --data-threads 1
--overwrite --keep-best --valid-metrics bleu-segmented --valid-freq 200u --save-freq 200u --valid-mini-batch 64
--beam-size 1 --max-length-factor 2 --early-stopping 8 --disp-freq 50 --quiet --quiet-translation --quiet-validation
--dim-vocabs 0 0
"""
INT8 = "packed8avx512"
BEAMS = {5: "", 3: " beam 3", 2: " beam 2", 1: " greedy"}
MODES = {32: "words/s", 1: "words/s, one line"}
JOBS = {
    f"{mode}{title}": {"batch": batch, "beam": beam} for batch, mode in MODES.items() for beam, title in BEAMS.items()
}
LINES = {32: 200, 1: 40}  # timed lines of the test set
TWO_CORES = "words/s, two cores"  # all lines in batches, beam 5, by the clock
BASE = "CTranslate2 int8"
MAX_POSITIONS = 1024


class System(NamedTuple):
    """A model in a program: the Python that runs it, the engine of marian_peer.py, and two folders."""

    name: str
    python: str
    engine: str
    folder: Path
    trained: Path

    def command(self, threads: int = 1) -> list[str]:
        return [self.python, os.path.relpath(PEER), self.engine, str(self.folder), str(threads)]


def main() -> None:
    parser = argument_parser(__doc__, "marian.md", rounds=5, runs="runs/marian", threads=None, report_only=True)
    add_corpus(parser, STUDENTS)
    parser.add_argument("--marian", type=Path, required=True, help="a Python with pymarian and sentencepiece")
    parser.add_argument("--ct2", type=Path, required=True, help="a Python with ctranslate2 and sentencepiece")
    parser.add_argument("--students", type=Path, default=Path("runs/students"), help="default: %(default)s")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=CELLS[:1], help="models of Marian")
    parser.add_argument("--epochs", type=int, default=40, help="of Marian; default: %(default)s")
    args = parser.parse_args()
    corpus = CORPORA[args.corpus]
    args.data = args.data or Path(corpus.default)
    args.output = args.output.with_stem(args.output.stem + corpus.suffix)
    for cell in () if args.report_only else args.cells:
        train(cell, args)
    names = [
        name
        for name in ("teacher", *STUDENTS[args.corpus])
        if (args.students / f"{corpus.prefix}{name}" / "summary.json").is_file()
    ]
    systems = [system for name in names for system in ours(name, args)]
    for cell in CELLS:
        if (args.runs / cell / "model.npz.best-bleu-segmented.npz").is_file():
            systems += export(cell, args)
    source, references = (
        [line.lower() for line in read_lines(Path(file.partition("=")[2]))]
        for file in sides(corpus, args.data / corpus.sets[1])
    )
    args.test = args.runs / f"{corpus.prefix}test.src"
    write_lines(args.test, source)
    tokenizer = Tokenizer.from_file(args.students / f"{corpus.prefix}{names[0]}" / "data" / "source.model")
    args.pieces = round(mean(len(tokenizer.encode(line)) + 1 for line in source))
    records = args.output.parent / "records" / f"{args.output.stem}.jsonl"
    scores = {system: scored(system, args, references, records) for system in systems}
    rounds = [{system: timed(system, args) for system in systems} for _ in range(args.rounds)]
    write_report(args, scores, rounds)


def ours(name: str, args: Any) -> Iterator[System]:
    """Export a run of students.py, unless this has been done, and yield what translates with it."""
    prefixed, title = f"{CORPORA[args.corpus].prefix}{name}", name.replace("-", ", ")
    trained = args.students / prefixed
    for engine, words in (("nmt", []), ("nmt-short", [f"shortlist={SHORTLIST}"])):
        folder = args.runs / f"{prefixed}-int8{engine.removeprefix('nmt')}"
        if not folder.is_dir():
            program("export", f"model={trained}", f"output={folder}", "engine=onnx-int8", *words)
        shortlist = ", shortlist" if words else ""
        yield System(f"{title}, onnx-int8{shortlist}", sys.executable, engine, folder, trained)
        if name.startswith(CONVERTED):
            yield converted(trained, f"{title}{shortlist}", folder / "shortlist.npz", args)


def converted(trained: Path, title: str, shortlist: Path, args: Any) -> System:
    """Convert a Transformer of students.py to CTranslate2, unless this has been done, and return what runs it.

    If there is a ``shortlist`` of the toolkit, it becomes a vocabulary map.
    """
    has_map = shortlist.is_file()
    folder = args.runs / f"{trained.name}-ct2-int8{'-short' if has_map else ''}"
    if not (folder / "model.bin").is_file():
        folder.mkdir(exist_ok=True)
        model = load_folder(trained).model
        layers = (len(model.encoder.blocks), len(model.decoder.blocks))
        tokenizer = Tokenizer.from_file(trained / "data" / "source.model")
        shape = {"layers": layers, "heads": model.attention.heads, "pieces": tokenizer.pieces(range(len(tokenizer)))}
        if has_map:
            write_vocabulary_map(shortlist, shape["pieces"], folder / "lists.txt")
        np.savez(folder / "weights.npz", **arrays(model))
        (folder / "shape.json").write_text(json.dumps(shape), encoding="utf-8")
        shutil.copy(trained / "data" / "source.model", folder / "pieces.model")
        call(args.ct2, PEER, "convert", folder)
    return System(f"{BASE}, {title}", str(args.ct2), "ct2", folder, trained)


def write_vocabulary_map(shortlist: Path, pieces: Sequence[str], file: Path) -> None:
    """Write a line for each source piece: the piece, a tab and the target pieces. The first line is for all sources."""
    with np.load(shortlist) as lists:
        rows = [("", lists["frequent"]), *zip(pieces, lists["best"], strict=True)]
    lines = (f"{source}\t{' '.join(pieces[piece] for piece in np.unique(row))}" for source, row in rows)
    write_lines(file, lines)


def train(cell: str, args: Any) -> None:
    """Train a model with Marian. A training that was stopped continues."""
    size, variant, name = cell.split("-")
    text, folder = write_pieces(name, args), args.runs / cell
    folder.mkdir(exist_ok=True)
    files = [f"--{part}-sets {text / part}.src {text / part}.tgt" for part in ("train", "valid")]
    options = [*files, f"--vocabs {text / 'vocab.yml'} {text / 'vocab.yml'}", f"--model {folder / 'model.npz'}"]
    options += [f"--valid-log {folder / 'valid.log'} --log {folder / 'train.log'} --cpu-threads 1"]
    words = " ".join([*options, SIZES[size], VARIANTS[variant], TRAINING.replace("\n", " "), f"--after {args.epochs}e"])
    subprocess.run(
        [args.marian, PEER, "train", words], check=True, env=environment(args.marian), preexec_fn=end_with_parent
    )


def write_pieces(name: str, args: Any) -> Path:
    """Write the training text ``original`` or ``distilled``, and the validation text, as pieces; return the folder."""
    corpus = CORPORA[args.corpus]
    folder: Path = args.runs / f"{corpus.prefix}{name}"
    student = "teacher" if name == "original" else STUDENTS[args.corpus][0]
    model = args.students / f"{corpus.prefix}{student}" / "data" / "source.model"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(model, folder / "pieces.model")
    tokenizer = Tokenizer.from_file(model)
    distilled = args.students / f"{corpus.prefix}distilled"
    for side, language in zip(("src", "tgt"), corpus.languages, strict=True):
        original = args.data / f"{corpus.train}.{language}.gz"
        files = {"train": original if name == "original" else distilled / f"train.{side}"}
        files["valid"] = args.data / f"{corpus.sets[0]}.{language}.gz"
        for part, file in files.items():
            lines = (" ".join(tokenizer.pieces(tokenizer.encode(line.lower()))) for line in read_lines(file))
            write_lines(folder / f"{part}.{side}", lines)
    entries = ["</s>", "<unk>", *tokenizer.pieces(range(len(SPECIALS), len(tokenizer)))]
    words = (f"{json.dumps(entry, ensure_ascii=False)}: {number}" for number, entry in enumerate(entries))
    write_lines(folder / "vocab.yml", words)
    return folder


def export(cell: str, args: Any) -> Iterator[System]:
    """Write the folders of a model for each program, and yield what translates with them."""
    size, variant, name = cell.split("-")
    text, folder = args.runs / name, args.runs / cell
    title = ", ".join((size, variant, name))
    best = folder / "model.npz.best-bleu-segmented.npz"
    for kind in ("float32", INT8):
        output = args.runs / f"{cell}-{kind}"
        output.mkdir(exist_ok=True)
        for file in ("pieces.model", "vocab.yml"):
            shutil.copy(text / file, output)
        if kind == "float32":
            shutil.copy(best, output / "model.npz")
        else:
            files = ["-f", best, "-t", output / "model.bin", "--vocabs", *[text / "vocab.yml"] * 2]
            call(args.marian.with_name("pymarian"), "convert", *files, "--gemm-type", kind)
        yield System(f"Marian {kind}, {title}", str(args.marian), "marian", output, folder)
    if variant != "postnorm":
        return
    converted = folder / "ct2.npz"
    np.savez(converted, **with_positions(best))
    output = args.runs / f"{cell}-ct2-int8"
    files = ["--model_path", converted, "--vocab_paths", *[text / "vocab.yml"] * 2, "--output_dir", output]
    call(args.ct2.with_name("ct2-marian-converter"), *files, "--quantization", "int8", "--force")
    shutil.copy(text / "pieces.model", output)
    yield System(f"CTranslate2 int8, {title}", str(args.ct2), "ct2", output, folder)


def with_positions(file: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a model of Marian 1.12.42, changed so that CTranslate2 4.8.5 computes the same.

    Its converter expects a single zero behind the settings, and computes positions with size / 2 in place of
    size / 2 − 1.
    """
    with np.load(file) as arrays:
        model = dict(arrays)
    settings = model["special:model.yml"]
    model["special:model.yml"] = settings[: np.flatnonzero(settings)[-1] + 2]
    half = model["Wemb"].shape[1] // 2
    angles = np.outer(np.arange(MAX_POSITIONS), 10_000.0 ** (-np.arange(half) / (half - 1)))
    model["Wpos"] = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    return model


def call(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True, env=environment(words[0]))


def environment(python: str | Path) -> dict[str, str]:
    """Return the environment of a program with one thread, without our packages unless it runs in our Python."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if str(python) != sys.executable:
        variables.pop("PYTHONPATH", None)
    return variables


@contextmanager
def started(system: System, threads: int = 1) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        system.command(threads),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(system.python),
    )
    try:
        yield process
    finally:
        process.communicate()


def ask(process: subprocess.Popen[str], job: dict[str, Any]) -> dict[str, float]:
    """Return the answer of marian_peer.py to a job."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps({"output": None, **job}) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        sys.exit(f"{process.args!r}: ended without an answer")
    seconds: dict[str, float] = json.loads(answer)
    return seconds


def scored(system: System, args: Any, references: Sequence[str], file: Path) -> dict[str, float]:
    """Return the scores of a system. They are kept in ``file``, until the model changes."""
    records = {record["name"]: record for record in read_records(file, "name")}
    checksum = 0
    for part in sorted(system.folder.iterdir()):
        checksum = zlib.crc32(part.read_bytes(), checksum)
    record = records.get(system.name, {"scores": {}})
    if record.get("checksum") != checksum or any(f"bleu_{beam}" not in record["scores"] for beam in BEAMS):
        scores = score(system, args, references)
        records[system.name] = {"name": system.name, "checksum": checksum, "scores": scores}
        file.parent.mkdir(exist_ok=True)
        write_lines(file, [json.dumps(record) for record in records.values()])
    kept: dict[str, float] = records[system.name]["scores"]
    return kept


def score(system: System, args: Any, references: Sequence[str]) -> dict[str, float]:
    """Return size and parameters of a system, and the scores of its translations of the test set."""
    scores = {"megabytes": sum(file.stat().st_size for file in system.folder.iterdir()) / 1e6}
    scores["parameters"] = parameters(system.trained)
    with started(system) as process:
        for beam in BEAMS:
            output = args.test.with_suffix(f".{beam}.tgt")
            ask(process, {**job(args, beam=beam), "output": str(output)})
            lines = list(read_lines(output, allow_empty=True))
            scores[f"bleu_{beam}"] = BLEU(lowercase=True).corpus_score(lines, [references]).score
            scores[f"chrf_{beam}"] = CHRF(lowercase=True).corpus_score(lines, [references]).score
    return scores


def parameters(folder: Path) -> int:
    """Return the number of parameters of a run of the toolkit or of Marian."""
    if (folder / "model.pt").is_file():
        weights = torch.load(folder / "model.pt", weights_only=True)["weights"]
        return sum({weight.data_ptr(): weight.numel() for weight in weights.values()}.values())
    with np.load(folder / "model.npz.best-bleu-segmented.npz") as arrays:
        return sum(arrays[name].size for name in arrays.files if not name.startswith("special:"))


def job(args: Any, **changes: Any) -> dict[str, Any]:
    """Return a job for marian_peer.py: all lines of the test set, in batches, with beam 5, unless changed."""
    shared = {"input": str(args.test), "lines": None, "batch": 32, "beam": 5}
    return {**shared, "pieces": args.pieces, "ratio": MAX_LENGTH_RATIO, **changes}


def timed(system: System, args: Any) -> dict[str, float]:
    """Return the words per second of each job, those of the clock, peak RAM and the seconds to the first line."""
    lines = [len(line.split()) for line in read_lines(args.test)]
    with started(system) as process:
        first = ask(process, job(args, lines=1, batch=1))
        measured = {"first line": first["start"]}
        ask(process, job(args, lines=64))  # warm up
        for name, settings in JOBS.items():
            count = LINES[settings["batch"]]
            seconds = ask(process, job(args, lines=count, **settings))
            measured[name] = sum(lines[:count]) / seconds["processor"]
            measured[f"{name}, clock"] = sum(lines[:count]) / seconds["clock"]
            measured[f"{name}, length"] = seconds["words"] / sum(lines[:count])
        measured["RAM"] = peak_memory(process.pid) / 2**20
    if usable_cores() > 1:
        with started(system, threads=2) as process:
            ask(process, job(args, lines=64))
            measured[TWO_CORES] = sum(lines) / ask(process, job(args))["clock"]
    return measured


def write_report(
    args: Any, scores: dict[System, dict[str, float]], rounds: Sequence[dict[System, dict[str, float]]]
) -> None:
    """Write the table, the plot and the measured values of each round."""
    base = next((system for system in scores if system.name.startswith(BASE)), next(iter(scores)))
    columns = ["model", "parameters", "MB"]
    columns += [f"{score}{title}" for title in BEAMS.values() for score in ("BLEU", "chrF")]
    timed_jobs = [*JOBS, *([TWO_CORES] if TWO_CORES in rounds[0][base] else [])]
    columns += [word for name in timed_jobs for word in (name, name.replace("words/s", "ratio"))]
    columns += ["words out per word in", "the same, greedy", "RAM, MB", "first line, s"]
    rows = []
    for system, quality in scores.items():
        times = {name: [part[system][name] for part in rounds] for name in rounds[0][system]}
        row = [system.name, f"{quality['parameters'] / 1e6:.1f} M", f"{quality['megabytes']:.1f}"]
        row += [f"{quality[f'{key}_{beam}']:.2f}" for beam in BEAMS for key in ("bleu", "chrf")]
        for name in timed_jobs:
            ratios = [part[system][name] / part[base][name] for part in rounds]
            row += [f"{median(times[name]):,.0f}", with_quartiles(ratios)]
        row += [f"{times[f'{name}, length'][0]:.2f}" for name in ("words/s", "words/s greedy")]
        rows.append([*row, f"{max(times['RAM']):.0f}", f"{median(times['first line']):.2f}"])
    draw(scores, rounds, args.output.with_suffix(".png"))
    shares = [
        part[system][f"{name}, clock"] / part[system][name] for part in rounds for system in part for name in JOBS
    ]
    facts = [
        f"{CORPORA[args.corpus].sets[1]}, lower-cased, pieces of the students; BLEU and chrF of all lines with beam 5, "
        "with beams of 3 and 2, and with greedy search",
        "words/s: source words per second of processor time on one thread, from text to text, beam 5 unless named, in "
        f"batches of about 32 (the first {LINES[32]} lines) or one line at a time (the first {LINES[1]})",
        "two cores: all lines in batches, beam 5, two threads, seconds of the clock"
        if TWO_CORES in timed_jobs
        else "two cores: not run",
        f"{args.rounds} rounds, in each of which every model starts, translates and ends; ratio: to {base.name} in the "
        "same round, median (quartiles)",
        f"the processes with one thread got {median(shares):.0%} of a core",
        "RAM: highest of a process; first line: processor time from the start of Python to the first translation",
        *(f"{cell}: {progress(args.runs / cell)}" for cell in CELLS if (args.runs / cell).is_dir()),
        f"shortlists: {SHORTLIST} translations per source piece, for all programs",
        f"onnx-int8: search.max_length_ratio={MAX_LENGTH_RATIO}",
        f"CT2_FORCE_CPU_ISA: {os.environ.get('CT2_FORCE_CPU_ISA', 'not set')}",
        *(
            f"{system.name}: `{' '.join([Path(system.python).name, *system.command()[1:]])}`, jobs on stdin"
            for system in scores
        ),
    ]
    lines = [
        *header(f"Small models beside Marian and CTranslate2{CORPORA[args.corpus].on}", *facts),
        *table(columns, rows),
    ]
    save(args.output, [*lines, "", *fastest(scores, rounds)])


def fastest(scores: dict[System, dict[str, float]], rounds: Sequence[dict[System, dict[str, float]]]) -> Iterator[str]:
    """Yield, for each beam of CTranslate2, our fastest model and beam at no lower BLEU, as a table."""
    yield f"Beside each beam of {BASE}, the fastest of our models and beams at no lower BLEU:"
    yield ""
    rows = []
    for base in (system for system in scores if system.name.startswith(BASE)):
        for beam in BEAMS:
            bleu = scores[base][f"bleu_{beam}"]
            ours = [
                (system, ours_beam)
                for system in scores
                for ours_beam in BEAMS
                if system.engine.startswith("nmt") and scores[system][f"bleu_{ours_beam}"] >= bleu
            ]
            for mode in MODES.values() if ours else ():
                speeds = {(system, width): words_per_s(rounds, system, mode, width) for system, width in ours}
                best, ours_beam = max(speeds, key=lambda choice: median(speeds[choice]))
                pairs = zip(speeds[best, ours_beam], words_per_s(rounds, base, mode, beam), strict=True)
                ratios = [speed / other for speed, other in pairs]
                cells = [best.name, ours_beam, f"{scores[best][f'bleu_{ours_beam}']:.2f}", with_quartiles(ratios)]
                rows.append([base.name, beam, f"{bleu:.2f}", mode.partition(", ")[2] or "batches", *cells])
    yield from table(("model", "beam", "BLEU", "mode", "ours", "its beam", "its BLEU", "ratio of words/s"), rows)


def words_per_s(rounds: Sequence[dict[System, dict[str, float]]], system: System, mode: str, beam: int) -> list[float]:
    """Return what a system reached in each round."""
    return [part[system][f"{mode}{BEAMS[beam]}"] for part in rounds]


def progress(folder: Path) -> str:
    """Return the progress of Marian's training of a model."""
    file = folder / "model.npz.progress.yml"
    if not file.is_file():
        return "not run"
    state = yaml.safe_load(file.read_text(encoding="utf-8"))
    return f"{state['batches']:,} updates, {state['epochs']} epochs begun"


def draw(scores: dict[System, dict[str, float]], rounds: Sequence[dict[System, dict[str, float]]], file: Path) -> None:
    """Draw BLEU against words per second, in batches and line by line: a curve per model, a point per beam."""
    from matplotlib import color_sequences
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    markers = {"nmt": "o", "nmt-short": "D", "marian": "s", "ct2": "^"}
    colors = [*color_sequences["tab20"], *color_sequences["tab20b"]]
    for panel, mode, title in zip(panels, MODES.values(), ("batches of 32", "one line at a time"), strict=True):
        for number, (system, quality) in enumerate(scores.items()):
            speeds = [median(words_per_s(rounds, system, mode, beam)) for beam in BEAMS]
            style = {"marker": markers[system.engine], "color": colors[number], "markersize": 4}
            panel.plot(speeds, [quality[f"bleu_{beam}"] for beam in BEAMS], label=system.name, **style)
        panel.set(title=title, xlabel="source words per second of processor time", xscale="log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.xaxis.set_minor_locator(NullLocator())
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("BLEU with beams of 5, 3, 2 and 1")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8, frameon=False
    )
    figure.savefig(file, dpi=100)


if __name__ == "__main__":
    main()
