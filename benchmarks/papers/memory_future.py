"""Try the future work of the paper on memory attention: guided alignments, and K chosen when translating.

Each run trains for the same updates on the same text, and translates the test set with beam search. Memory attention
with K = 32 is trained plain, guided by gold links, and guided by the alignments or the contexts of a Bahdanau model,
with a weight that falls to 0. One nested memory is decoded with several K and compared with a model trained for each
K. An interrupted benchmark continues where it stopped.

    python -m benchmarks.papers.memory_future --threads 1
    python -m benchmarks.papers.memory_future --data data/multi30k --output benchmarks/results/memory_future_multi30k.md
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import argument_parser, header, row, save, table_head
from benchmarks.runs import Runs

SLOTS = (8, 32, 64)
SCORES = ("BLEU", "chrF", "AER")


def main() -> None:
    parser = argument_parser(__doc__, "memory_future.md", threads=1, runs="runs/memory_future")
    parser.add_argument("--data", type=Path, help="folder of Multi30k; default: generated sentences")
    parser.add_argument("--pairs", type=int, default=40_000, help="generated training pairs; default: %(default)s")
    parser.add_argument("--epochs", type=int, default=4, help="on generated sentences; default: %(default)s")
    parser.add_argument("--updates", type=int, default=1160, help="until the weight of the teacher is 0")
    parser.add_argument("--settings", nargs="*", default=[], help="further settings of all runs, such as seed=2")
    args = parser.parse_args()
    if args.data is None:
        text = prepared(args.runs / "data", args.pairs, args.threads)
        text += [f"training.max_epochs={args.epochs}", "training.decode_sentences=0", "training.monitor=valid_loss"]
    else:
        text = ["+experiment=multi30k", f"data.folder={args.data}"]

    runs = Runs.of(args)

    def run(name: str, *settings: str) -> dict[str, Any]:
        """Return the test scores of a run, trained now or before, and its validation loss."""
        summary = runs.train(name, [*text, *args.settings, *settings], model=name in ("bahdanau", "nested"))
        scores = {**summary["test"], "loss": summary["metrics"]["valid_loss"]}
        print(row(name, *cells(scores)), flush=True)
        return scores

    lines = header("Future work of the paper on memory attention", "one seed")
    lines += ["Guided alignments, memory with K = 32:", "", *table_head("model", *SCORES, "valid loss, nats")]
    memories = {32: run("memory-32", "attention=memory")}
    guided = {"bahdanau, the teacher": run("bahdanau", "attention=bahdanau"), "memory": memories[32]}
    teacher = [f"guide.model={args.runs / 'bahdanau'}", f"guide.decay_steps={args.updates}"]
    guides = {
        "teacher": ("a teacher", ["guide=teacher", *teacher]),
        "contexts": ("the contexts of a teacher", ["guide=contexts", *teacher]),
    }
    if args.data is None:  # Multi30k has no gold links
        for weight in ("1", "0.1"):
            words = ["guide=links", f"guide.weight={weight}"]
            guides = {f"links-{weight}": (f"gold links, weight {weight}", words), **guides}
    for name, (title, words) in guides.items():
        guided[f"memory, guided by {title}"] = run(name, "attention=memory", *words)
    lines += [row(name, *cells(scores), f"{scores['loss']:.2f}") for name, scores in guided.items()]
    save(args.output, lines, show=False)

    run("nested", "attention=nested_memory")
    lines += ["", "K chosen when translating: one nested memory against one memory trained for each K:", ""]
    lines += table_head("K", *(f"{kind} {score}" for score in SCORES for kind in ("nested", "memory")), "BLEU gap")
    for slots in SLOTS:
        nested = evaluate(args.runs / "nested", slots, args.threads)
        memory = memories.get(slots) or run(f"memory-{slots}", "attention=memory", f"attention.slots={slots}")
        both = [cell for pair in zip(cells(nested), cells(memory), strict=True) for cell in pair]
        lines.append(row(slots, *both, f"{nested['bleu'] - memory['bleu']:+.1f}"))
    save(args.output, lines)


def prepared(folder: Path, pairs: int, threads: int) -> list[str]:
    """Return the settings of text that is generated and prepared once for all runs."""
    if not folder.is_dir():
        command("prepare", threads, "data=generated", f"data.train_pairs={pairs}", f"output={folder}")
    return ["data=prepared", f"data.folder={folder}"]


def evaluate(model: Path, slots: int, threads: int) -> dict[str, Any]:
    """Return the test scores of a run that translates with the first ``slots`` slots."""
    words = [f"src={model}/test.source.txt", f"tgt={model}/test.references.txt", f"slots={slots}", "json=true"]
    if (gold := model / "test.gold.links.txt").is_file():
        words.append(f"links={gold}")
    scores: dict[str, Any] = json.loads(command("evaluate", threads, f"model={model}", *words, f"threads={threads}"))
    return scores


def command(name: str, threads: int, *words: str) -> str:
    """Return the output of a command. Exits with its messages if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    arguments = [sys.executable, "-m", "nmt.commands.programs", name, *words]
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(words)}:\n{result.stderr}")
    return result.stdout


def cells(scores: dict[str, Any]) -> list[str]:
    """Return BLEU, chrF and AER as text."""
    aer = scores.get("aer")
    return [f"{scores['bleu']:.1f}", f"{scores['chrf']:.1f}", "–" if aer is None else f"{aer:.3f}"]


if __name__ == "__main__":
    main()
