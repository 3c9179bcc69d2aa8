"""Choose the defaults of memory attention: compare score functions and scalings of the position encoding.

Each cell trains one epoch of the default run (generated English-German sentences, K = 32). Its figure is the
cross-entropy, in nats per target piece, of the reference translations of 500 unseen sentences. An interrupted benchmark
continues where it stopped.

    python -m benchmarks.quality.memory_settings --seeds 2
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

from benchmarks.report import argument_parser, header, row, save, table_head, with_range
from benchmarks.runs import Runs

SCORES = ("sigmoid", "softmax")
ENCODINGS = {
    "null": ["attention.renormalise=null"],
    "mean": ["attention.renormalise=mean"],
    "sum": ["attention.renormalise=sum"],
    "off": ["attention.position_encoding=false"],
}
TASK = ["training.max_epochs=1", "training.decode_sentences=0", "training.monitor=valid_loss", "data.test_pairs=20"]


def main() -> None:
    parser = argument_parser(__doc__, "memory_settings.md", threads=None, runs="runs/memory_settings")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds; default: %(default)s")
    args = parser.parse_args()
    runs = Runs(args.runs, args.output.parent / "records")

    def train_cell(cell: tuple[int, str, str, str]) -> tuple[float, float]:
        """Return validation loss and number of the last step."""
        seed, write, read, encoding = cell
        settings = ["attention=memory", f"attention.write_score={write}", f"attention.read_score={read}"]
        settings += [*ENCODINGS[encoding], *TASK, f"seed={seed}"]
        metrics = runs.train("-".join(map(str, cell)), settings)["metrics"]
        return metrics["valid_loss"], metrics["step"]

    cells = list(itertools.product(range(1, args.seeds + 1), SCORES, SCORES, ENCODINGS))
    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(cells, pool.map(train_cell, cells), strict=True))
    updates = round(max(step for _, step in results.values())) + 1
    lines = header("Loss of memory attention by its settings")
    lines += [f"Nats per target piece after {updates} updates; seeds: {args.seeds}; mean (lowest–highest).", ""]
    lines += table_head("write / read", *ENCODINGS)
    for write, read in itertools.product(SCORES, SCORES):
        losses = {
            encoding: [results[seed, write, read, encoding][0] for seed in range(1, args.seeds + 1)]
            for encoding in ENCODINGS
        }
        lines.append(row(f"{write} / {read}", *(with_range(values) for values in losses.values())))
    save(args.output, lines)


if __name__ == "__main__":
    main()
