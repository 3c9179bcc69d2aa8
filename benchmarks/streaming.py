"""How much memory does encoding a source of 10,000, 100,000, 1,000,000 tokens take, part by part?

Makes a model of random weights (a one-directional encoder; what it has learnt does not matter here), writes lines of so
many tokens, and runs nmt-encode on each in a process of its own, with and without parts. Compares the memory written in
parts with that written at once. Writes a table.

    python benchmarks/streaming.py
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from machine import most_resident, provenance, writable
from safetensors.torch import load_file

from nmt.config import train_config
from nmt.inference.model_folder import TrainedModel, save_folder
from nmt.model.build import build_model
from nmt.text.tokenizer import Tokenizer

TOKENS = [10_000, 100_000, 1_000_000]
PARTS = 1_000
AT_ONCE = 100_000  # the longest line that is encoded whole as well
KINDS = {
    "covariance": ["attention=covariance"],
    "memory, K=32": ["attention=memory", "attention.renormalise=null"],
    "kernel softmax": ["attention=kernel", "attention.feature_map=softmax"],
    "delta rule": ["attention=delta"],
}
WORDS = [f"{first}{last}" for first in "b d f g k l m n p r s t v w".split() for last in "a e i o u".split()]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    lines = ["# A source of any length", "", *(f"- {line}" for line in provenance())]
    lines += [
        f"- nmt-encode with piece_length={PARTS}; encoder of 256, random weights; peak resident memory of the command"
    ]
    head = [f"{tokens:,} tokens, MB" for tokens in TOKENS]
    lines += ["", f"| attention | {' | '.join(head)} | most − least | 1,000,000 tokens, s | "]
    lines[-1] += f"{AT_ONCE:,} at once, MB | greatest difference from that |"
    lines += ["|---" * (len(head) + 5) + "|"]
    work = Path(tempfile.mkdtemp())
    try:
        texts = {tokens: text(work / f"{tokens}.txt", tokens) for tokens in TOKENS}
        for name, words in KINDS.items():
            folder = model(work / name.split(",")[0].replace(" ", "-"), words)
            row = [encode(folder, texts[tokens], work / f"{folder.name}-{tokens}", PARTS) for tokens in TOKENS]
            whole = encode(folder, texts[AT_ONCE], work / f"{folder.name}-whole", None)
            apart = difference(work / f"{folder.name}-whole", work / f"{folder.name}-{AT_ONCE}")
            peaks = [peak for peak, _ in row]
            cells = [name, *(f"{peak:.0f}" for peak in peaks), f"{max(peaks) - min(peaks):.0f}", f"{row[-1][1]:.0f}"]
            lines.append(f"| {' | '.join([*cells, f'{whole[0]:.0f}', f'{apart:.0e}'])} |")
            print(lines[-1], flush=True)
    finally:
        shutil.rmtree(work)
    lines += ["", "The difference is relative to the largest number of each tensor of the file, float32."]
    (asked.output / "streaming.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def text(file: Path, tokens: int) -> Path:
    """One line of so many words, each one piece of the tokenizer below."""
    random.seed(1)
    file.write_text(" ".join(random.choices(WORDS, k=tokens)) + "\n")
    return file


def model(folder: Path, words: list[str]) -> Path:
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 50, vocab_size=360)
    config = train_config([*words, "encoder=lstm", "encoder.hidden_size=256", "decoder.hidden_size=256"])
    torch.manual_seed(1)
    built = build_model(config, source_vocabulary=360, target_vocabulary=360, longest_source=100)
    folder.mkdir()
    save_folder(folder, TrainedModel(built, tokenizer, tokenizer, config, 100))
    return folder


def encode(folder: Path, source: Path, output: Path, parts: int | None) -> tuple[float, float]:
    """Peak resident memory of the command in MB, and its seconds."""
    command = [sys.executable, "-m", "nmt.commands.encode", f"model={folder}", f"input={source}", f"output={output}"]
    command += [f"piece_length={parts}"] if parts is not None else []
    started = time.perf_counter()
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    most = 0.0
    while running.poll() is None:
        most = max(most, most_resident(running.pid))  # the mark only rises, so the last look counts
        time.sleep(0.02)
    if running.returncode:
        sys.exit(f"{' '.join(command)}: failed")
    return most, time.perf_counter() - started


def difference(one: Path, other: Path) -> float:
    left, right = (load_file(folder / "00000001.safetensors") for folder in (one, other))
    floats = [name for name, tensor in left.items() if tensor.is_floating_point()]
    return max(float((left[name] - right[name]).abs().max() / left[name].abs().max()) for name in floats)


if __name__ == "__main__":
    main()
