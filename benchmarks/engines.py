"""What does another engine change in a trained model's translations? BLEU, chrF, equal lines, and seconds.

python benchmarks/engines.py --model runs/multi30k/m30k-memory runs/multi30k/m30k-bahdanau --data data/multi30k
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import provenance, writable

from nmt.evaluation import corpus_scores
from nmt.text.files import read_lines

ENGINES = {
    "torch": ["engine=torch"],
    "onnx": ["engine=onnx"],
    "onnx-int8": ["engine=onnx-int8"],
    "onnx, shortlist": ["engine=onnx", "shortlist=true"],
    "onnx-int8, shortlist": ["engine=onnx-int8", "shortlist=true"],
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path, nargs="+", required=True)
    options.add_argument("--data", type=Path, default=Path("data/multi30k"))
    options.add_argument("--part", default="test2016")
    options.add_argument("--shortlist", type=int, default=100, help="translations of each source piece")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    source, target = (asked.data / f"{asked.part}.{side}.gz" for side in ("en", "de"))
    references = [line.lower() for line in read_lines(target)]
    lines = ["# Engines on a trained model", "", *(f"- {line}" for line in provenance())]
    lines += [f"- {asked.part}, beam 5, lower-cased, the whole command, least of {asked.rounds} rounds in turns"]
    lines += [f"- shortlist: {asked.shortlist} translations of each source piece, and the 200 most frequent pieces", ""]
    lines += ["| model | engine | BLEU | chrF | lines as torch has them | s | words out a second |", "|---" * 7 + "|"]
    for model in asked.model:
        run("export", f"model={model}", f"shortlist={asked.shortlist}")
        found, seconds = {}, {name: float("inf") for name in ENGINES}
        for _ in range(asked.rounds):
            for name in ENGINES:
                started = time.perf_counter()
                found[name] = translations(model, source, name)
                seconds[name] = min(seconds[name], time.perf_counter() - started)
        for name, texts in found.items():
            scores = corpus_scores(texts, references, lowercase=True)
            equal = sum(one == other for one, other in zip(texts, found["torch"], strict=True)) / len(texts)
            rate = sum(len(text.split()) for text in texts) / seconds[name]
            row = [model.name, name, f"{scores.bleu:.2f}", f"{scores.chrf:.2f}", f"{100 * equal:.1f} %"]
            lines.append(f"| {' | '.join([*row, f'{seconds[name]:.1f}', f'{rate:,.0f}'])} |")
            print(lines[-1], flush=True)
    (asked.output / "engines.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def translations(model: Path, source: Path, engine: str) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.txt"
        run("translate", f"model={model}", *ENGINES[engine], f"input={source}", f"output={output}")
        return output.read_text(encoding="utf-8").splitlines()


def run(command: str, *words: str) -> None:
    subprocess.run([sys.executable, "-m", f"nmt.commands.{command}", *words], check=True, capture_output=True)


if __name__ == "__main__":
    main()
