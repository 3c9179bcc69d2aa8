"""What does each attention reach in the default run? BLEU, chrF and AER of every kind after equally many epochs.

Each kind trains on the generated corpus with the default settings, translates the test set with beam search and is
compared with the gold links. Prints a table, writes a results file, and keeps for each kind the heatmap of one test
sentence: the same sentence for all.

    python benchmarks/attentions.py --threads 2
    python benchmarks/attentions.py --family efficient
"""

from __future__ import annotations

import argparse
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from machine import provenance, writable
from runs import train

FIRST = {
    "none": ["attention=none"],
    "bahdanau": ["attention=bahdanau"],
    "luong dot": ["attention=luong", "attention.score=dot"],
    "luong general": ["attention=luong"],
    "luong concat": ["attention=luong", "attention.score=concat"],
    "memory": ["attention=memory"],
    "covariance": ["attention=covariance"],
    "gated covariance": ["attention=gated_covariance"],
}
EFFICIENT = {
    "sparse, 8 kept": ["attention=sparse"],
    "local, w=10": ["attention=local"],
    "low rank, K=32": ["attention=low_rank"],
    "kernel elu": ["attention=kernel"],
    "delta rule": ["attention=delta"],
    "general covariance": ["attention=general_covariance"],
    "8 heads of luong": ["attention=multi_head"],
}
FAMILIES = {"first": (FIRST, "attentions"), "efficient": (EFFICIENT, "attentions_efficient")}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--family", choices=FAMILIES, default="first")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--jobs", type=int, default=1, help="runs side by side")
    options.add_argument("--runs", type=Path, default=Path("runs/attentions"))
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    kinds, results = FAMILIES[asked.family]
    with ThreadPoolExecutor(asked.jobs) as pool:  # runs that are done are then found, in order, below
        list(pool.map(lambda kind: train(asked.runs, name_of(kind), kinds[kind], threads=asked.threads), kinds))
    lines = ["# Every attention in the default run", "", *(f"- {line}" for line in provenance()), ""]
    lines += ["| attention | test BLEU | test chrF | AER | epochs |", "|---" * 5 + "|"]
    for kind, settings in kinds.items():
        name = name_of(kind)
        found = train(asked.runs, name, settings, threads=asked.threads)
        test = found["test"]
        aer = "–" if test["aer"] is None else f"{test['aer']:.3f}"
        row = [kind, f"{test['bleu']:.1f}", f"{test['chrf']:.1f}", aer, str(found["epochs"])]
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
        pictures = sorted((asked.runs / name / "heatmaps").glob("*.png"))
        if pictures:
            shutil.copy(pictures[len(pictures) // 2], asked.output / f"heatmap-{name}.png")
    lines += ["", f"AER: {found['signatures']['aer']}.", f"BLEU: {found['signatures']['bleu']}."]
    (asked.output / f"{results}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def name_of(kind: str) -> str:
    return kind.replace(",", "").replace("=", "").replace(" ", "-")


if __name__ == "__main__":
    main()
