"""Compare all attentions in the default run: BLEU, chrF and AER after the same number of epochs.

Each kind trains on the generated corpus with the default settings and translates the test set with beam search. AER
compares its alignments with the gold links. The script writes a table and, for each kind, the heatmap of the same test
sentence. An interrupted benchmark continues where it stopped.

    python benchmarks/attentions.py --threads 2
    python benchmarks/attentions.py --family efficient
"""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

from report import argument_parser, header, row, save, table_head
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
    "abc": ["attention=abc"],
    "delta rule": ["attention=delta"],
    "gated_delta": ["attention=gated_delta"],
    "mesa": ["attention=mesa"],
    "mlstm": ["attention=mlstm"],
    "general covariance": ["attention=general_covariance"],
    "8 heads of luong": ["attention=multi_head"],
}
FAMILIES = {"first": (FIRST, "attentions"), "efficient": (EFFICIENT, "attentions_efficient")}


def main() -> None:
    parser = argument_parser(__doc__, runs="runs/attentions")
    parser.add_argument("--family", choices=FAMILIES, default="first", help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time; default: %(default)s")
    args = parser.parse_args()
    kinds, results = FAMILIES[args.family]
    with ThreadPoolExecutor(args.jobs) as pool:  # train all; the loop below reuses the finished runs in order
        list(pool.map(lambda kind: train(args.runs, run_name(kind), kinds[kind], threads=args.threads), kinds))
    lines = header("Every attention in the default run")
    lines += table_head("attention", "test BLEU", "test chrF", "AER", "epochs")
    for kind, settings in kinds.items():
        name = run_name(kind)
        summary = train(args.runs, name, settings, threads=args.threads)
        test = summary["test"]
        aer = "–" if test["aer"] is None else f"{test['aer']:.3f}"
        lines.append(row(kind, f"{test['bleu']:.1f}", f"{test['chrf']:.1f}", aer, summary["epochs"]))
        print(lines[-1], flush=True)
        heatmaps = sorted((args.runs / name / "heatmaps").glob("*.png"))
        if heatmaps:
            shutil.copy(heatmaps[len(heatmaps) // 2], args.output / f"heatmap-{name}.png")
    lines += ["", f"AER: {summary['signatures']['aer']}.", f"BLEU: {summary['signatures']['bleu']}."]
    save(args.output / f"{results}.md", lines, show=False)


def run_name(kind: str) -> str:
    """Return the kind as a folder name."""
    return kind.replace(",", "").replace("=", "").replace(" ", "-")


if __name__ == "__main__":
    main()
