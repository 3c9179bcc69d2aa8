"""Compare the translations of a trained model by each engine: BLEU, chrF, equal lines and seconds.

python -m benchmarks.speed.engines --model runs/multi30k/m30k-memory-s1 runs/multi30k/m30k-bahdanau-s1 \\
    --data data/multi30k
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from pathlib import Path

from benchmarks.report import argument_parser, header, row, save, table_head
from benchmarks.runs import program
from nmt.data.text_files import read_lines
from nmt.inference.scores import corpus_scores

ENGINES = {
    "torch": ["engine=torch"],
    "onnx": ["engine=onnx"],
    "onnx-int8": ["engine=onnx-int8"],
    "onnx, shortlist": ["engine=onnx", "shortlist=true"],
    "onnx-int8, shortlist": ["engine=onnx-int8", "shortlist=true"],
}
COLUMNS = ("model", "engine", "BLEU", "chrF", "lines equal to torch", "s", "target words per second")


def main() -> None:
    parser = argument_parser(__doc__, threads=None, rounds=3, data="data/multi30k")
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="trained models")
    parser.add_argument("--part", default="test2016", help="default: %(default)s")
    help_text = "translations per source piece in the shortlist; default: %(default)s"
    parser.add_argument("--shortlist", type=int, default=100, help=help_text)
    args = parser.parse_args()
    source, target = (args.data / f"{args.part}.{side}.gz" for side in ("en", "de"))
    references = [line.lower() for line in read_lines(target)]
    lines = header(
        "Engines on a trained model",
        f"{args.part}, beam 5, lower-cased, the whole command, least of {args.rounds} rounds in turns",
        f"shortlist: {args.shortlist} translations per source piece, and the 200 most frequent pieces",
    )
    lines += table_head(*COLUMNS)
    for model in args.model:
        program("export", f"model={model}", f"shortlist={args.shortlist}")
        translations, seconds = in_turns(ENGINES, args.rounds, partial(translate, model, source))
        for name, texts in translations.items():
            rate = sum(len(text.split()) for text in texts) / seconds[name]
            cells = quality(texts, references, translations["torch"])
            lines.append(row(model.name, name, *cells, f"{seconds[name]:.1f}", f"{rate:,.0f}"))
            print(lines[-1], flush=True)
    save(args.output / "engines.md", lines, show=False)


def translate(model: Path, source: Path, engine: str) -> list[str]:
    """Return the translations of a file by nmt-translate."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.txt"
        program("translate", f"model={model}", *ENGINES[engine], f"input={source}", f"output={output}")
        return output.read_text(encoding="utf-8").splitlines()


def in_turns(
    names: Iterable[str], rounds: int, translate: Callable[[str], list[str]]
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return the translations of each candidate, and its least seconds in rounds in which all take turns."""
    translations: dict[str, list[str]] = {}
    seconds = dict.fromkeys(names, inf)
    for _ in range(rounds):
        for name in seconds:
            started = time.perf_counter()
            translations[name] = translate(name)
            seconds[name] = min(seconds[name], time.perf_counter() - started)
    return translations, seconds


def quality(texts: list[str], references: list[str], expected: list[str]) -> list[str]:
    """Return BLEU, chrF, and the share of lines that are ``expected``."""
    scores = corpus_scores(texts, references, lowercase=True)
    equal = sum(a == b for a, b in zip(texts, expected, strict=True)) / len(texts)
    return [f"{scores.bleu:.2f}", f"{scores.chrf:.2f}", f"{100 * equal:.1f} %"]


if __name__ == "__main__":
    main()
