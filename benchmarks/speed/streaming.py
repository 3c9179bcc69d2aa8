"""Measure the memory of nmt-encode for a source of 10,000, 100,000 and 1,000,000 tokens, encoded in parts.

The model has random weights and a one-directional encoder. Each line is encoded in a separate process, in parts of
1,000 tokens; the line of 100,000 tokens is also encoded at once, and the two stored memories are compared.

    python -m benchmarks.speed.streaming
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from safetensors.torch import load_file

from benchmarks.machine import peak_memory
from benchmarks.report import argument_parser, header, row, save, table_head
from benchmarks.speed.reference import save_random
from nmt.text.tokenizer import Tokenizer

TOKENS = [10_000, 100_000, 1_000_000]
PART_LENGTH = 1_000
AT_ONCE = 100_000  # the longest line that is also encoded at once
VOCABULARY, MAX_LENGTH = 360, 100
KINDS = {
    "covariance": ["attention=covariance"],
    "memory, K=32": ["attention=memory", "attention.position_encoding=false"],
    "kernel softmax": ["attention=kernel", "attention.feature_map=softmax"],
    "delta rule": ["attention=delta"],
}
WORDS = [f"{consonant}{vowel}" for consonant in "b d f g k l m n p r s t v w".split() for vowel in "aeiou"]


def main() -> None:
    parser = argument_parser(__doc__, threads=None)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS, help="lengths; default: %(default)s")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="one of these lengths; default: %(default)s")
    args = parser.parse_args()
    settings = f"nmt-encode with piece_length={PART_LENGTH}; encoder of 256, random weights; peak resident memory"
    columns = ["attention", *(f"{tokens:,} tokens, MB" for tokens in args.tokens), "highest − lowest"]
    columns += [f"{args.tokens[-1]:,} tokens, s", f"{args.at_once:,} at once, MB", "relative difference from that"]
    lines = [*header("A source of any length", settings), *table_head(*columns)]
    work = Path(tempfile.mkdtemp())
    try:
        texts = {tokens: write_line(work / f"{tokens}.txt", tokens) for tokens in args.tokens}
        for name, words in KINDS.items():
            folder = save_model(work / name.split(",")[0].replace(" ", "-"), words)
            outputs = {tokens: work / f"{folder.name}-{tokens}" for tokens in args.tokens}
            results = [encode(folder, texts[tokens], outputs[tokens], PART_LENGTH) for tokens in args.tokens]
            at_once = work / f"{folder.name}-at-once"
            peak_at_once, _ = encode(folder, texts[args.at_once], at_once, None)
            difference = relative_difference(at_once, outputs[args.at_once])
            peaks = [peak for peak, _ in results]
            cells = [*(f"{peak:.0f}" for peak in peaks), f"{max(peaks) - min(peaks):.0f}", f"{results[-1][1]:.0f}"]
            lines.append(row(name, *cells, f"{peak_at_once:.0f}", f"{difference:.0e}"))
            print(lines[-1], flush=True)
    finally:
        shutil.rmtree(work)
    lines += ["", "The difference is relative to the largest number of each tensor of the file, float32."]
    save(args.output / "streaming.md", lines, show=False)


def write_line(file: Path, tokens: int) -> Path:
    """Write one line of ``tokens`` random words; each word is one piece of the tokenizer below."""
    random.seed(1)
    file.write_text(" ".join(random.choices(WORDS, k=tokens)) + "\n")
    return file


def save_model(folder: Path, words: list[str]) -> Path:
    """Save a model of random weights with this attention."""
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 50, vocab_size=VOCABULARY)
    folder.mkdir()
    sizes = ["encoder.hidden_size=256", "decoder.hidden_size=256"]
    save_random(folder, [*words, "encoder=lstm", *sizes], tokenizer, MAX_LENGTH)
    return folder


def encode(folder: Path, source: Path, output: Path, part_length: int | None) -> tuple[float, float]:
    """Run nmt-encode; return its peak resident memory in MB and its seconds."""
    command = [
        sys.executable,
        "-m",
        "nmt.commands.programs",
        "encode",
        f"model={folder}",
        f"input={source}",
        f"output={output}",
    ]
    command += [f"piece_length={part_length}"] if part_length is not None else []
    started = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_memory(process.pid))  # the peak only rises, so the last reading counts
        time.sleep(0.02)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: failed")
    return peak / 2**20, time.perf_counter() - started


def relative_difference(expected: Path, actual: Path) -> float:
    """Return the largest difference of two stored memories, relative to the largest number of each tensor."""
    left, right = (load_file(folder / "00000001.safetensors") for folder in (expected, actual))
    floats = [name for name, tensor in left.items() if tensor.is_floating_point()]
    return max(float((left[name] - right[name]).abs().max() / left[name].abs().max()) for name in floats)


if __name__ == "__main__":
    main()
