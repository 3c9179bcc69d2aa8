"""What does each attention reach in the default run? BLEU, chrF and AER of every kind after equally many epochs.

Each kind trains on the generated corpus with the default settings, translates the test set with beam search and is
compared with the gold links. Prints a table, writes a results file, and keeps for each kind the heatmap of one test
sentence: the same sentence for all.

    python benchmarks/attentions.py --threads 2
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from machine import provenance
from runs import train

KINDS = {
    "none": ["attention=none"],
    "bahdanau": ["attention=bahdanau"],
    "luong dot": ["attention=luong", "attention.score=dot"],
    "luong general": ["attention=luong"],
    "luong concat": ["attention=luong", "attention.score=concat"],
    "memory": ["attention=memory"],
    "covariance": ["attention=covariance"],
    "gated covariance": ["attention=gated_covariance"],
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--runs", type=Path, default=Path("runs/attentions"))
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    lines = ["# Every attention in the default run", "", *(f"- {line}" for line in provenance()), ""]
    lines += ["| attention | test BLEU | test chrF | AER | epochs |", "|---" * 5 + "|"]
    for kind, settings in KINDS.items():
        name = kind.replace(",", "").replace("=", "").replace(" ", "-")
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
    (asked.output / "attentions.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
