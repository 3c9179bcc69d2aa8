"""Which memory attention should be the default? Every pair of scores and every scale of its position encodings.

The copy task, sentences of 1 to 10 words, 128 units, K = 32: the accuracy of the next piece given the reference's
beginning, on 500 unseen sentences, after equally many updates. Prints a table and writes a results file.

    python benchmarks/memory_settings.py --seeds 3 --epochs 12
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from machine import provenance
from runs import train

SCORES = ("sigmoid", "softmax")
ENCODINGS = {
    "null": ["attention.renormalise=null"],
    "mean": ["attention.renormalise=mean"],
    "sum": ["attention.renormalise=sum"],
    "off": ["attention.position_encoding=false"],
}
TASK = [
    *("data=copy", "data.train_pairs=8000", "data.valid_pairs=500", "data.test_pairs=20", "tokenizer.vocab_size=300"),
    *("embeddings.size=64", "encoder.hidden_size=128", "decoder.hidden_size=128", "batches.max_tokens=1024"),
    *("training.decode_sentences=20", "training.patience=100", "training.monitor=valid_accuracy"),
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--epochs", type=int, default=12)
    options.add_argument("--runs", type=Path, default=Path("runs/memory_settings"))
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "memory_settings.md")
    asked = options.parse_args()

    def accuracy(cell: tuple[str, str, str, int]) -> tuple[float, float]:
        write, read, encoding, seed = cell
        settings = [f"attention.write_score={write}", f"attention.read_score={read}", *ENCODINGS[encoding]]
        settings += [*TASK, f"training.max_epochs={asked.epochs}", f"seed={seed}"]
        found = train(asked.runs, "-".join(map(str, cell)), settings, threads=1)["metrics"]
        return found["valid_accuracy"], found["step"]

    cells = list(itertools.product(SCORES, SCORES, ENCODINGS, range(1, asked.seeds + 1)))
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(cells, pool.map(accuracy, cells), strict=True))
    updates = round(max(step for _, step in found.values())) + 1
    lines = ["# Accuracy of memory attention by its settings", "", *(f"- {line}" for line in provenance())]
    lines += ["", f"Copy task, {updates} updates, {asked.seeds} seeds: mean (lowest–highest).", ""]
    lines += [f"| write / read | {' | '.join(ENCODINGS)} |", "|---" * (1 + len(ENCODINGS)) + "|"]
    for write, read in itertools.product(SCORES, SCORES):
        row = []
        for encoding in ENCODINGS:
            values = [found[write, read, encoding, seed][0] for seed in range(1, asked.seeds + 1)]
            row.append(f"{statistics.mean(values):.3f} ({min(values):.3f}–{max(values):.3f})")
        lines.append(f"| {write} / {read} | {' | '.join(row)} |")
    print("\n".join(lines))
    asked.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
