"""Which memory attention should be the default? Every pair of scores and every scale of its position encodings.

One epoch of the default run, the generated English-German sentences, K = 32: cross-entropy (nats per target piece)
of the reference translations of 500 unseen sentences. Prints a table and writes a results file.

    python benchmarks/memory_settings.py --seeds 2
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from machine import provenance, writable
from runs import train

SCORES = ("sigmoid", "softmax")
ENCODINGS = {
    "null": ["attention.renormalise=null"],
    "mean": ["attention.renormalise=mean"],
    "sum": ["attention.renormalise=sum"],
    "off": ["attention.position_encoding=false"],
}
TASK = ["training.max_epochs=1", "training.decode_sentences=0", "training.monitor=valid_loss", "data.test_pairs=20"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--runs", type=Path, default=Path("runs/memory_settings"))
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results" / "memory_settings.md")
    asked = options.parse_args()

    def loss(cell: tuple[int, str, str, str]) -> tuple[float, float]:
        seed, write, read, encoding = cell
        settings = [f"attention.write_score={write}", f"attention.read_score={read}", *ENCODINGS[encoding]]
        settings += [*TASK, f"seed={seed}"]
        found = train(asked.runs, "-".join(map(str, cell)), settings, threads=1)["metrics"]
        return found["valid_loss"], found["step"]

    cells = list(itertools.product(range(1, asked.seeds + 1), SCORES, SCORES, ENCODINGS))
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(cells, pool.map(loss, cells), strict=True))
    updates = round(max(step for _, step in found.values())) + 1
    lines = ["# Loss of memory attention by its settings", "", *(f"- {line}" for line in provenance())]
    lines += ["", f"Nats per target piece after {updates} updates; seeds: {asked.seeds}; mean (lowest–highest).", ""]
    lines += [f"| write / read | {' | '.join(ENCODINGS)} |", "|---" * (1 + len(ENCODINGS)) + "|"]
    for write, read in itertools.product(SCORES, SCORES):
        row = []
        for encoding in ENCODINGS:
            values = [found[seed, write, read, encoding][0] for seed in range(1, asked.seeds + 1)]
            spread = f" ({min(values):.3f}–{max(values):.3f})" if len(values) > 1 else ""
            row.append(f"{statistics.mean(values):.3f}{spread}")
        lines.append(f"| {write} / {read} | {' | '.join(row)} |")
    print("\n".join(lines))
    asked.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
