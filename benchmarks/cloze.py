"""Does a document of fixed size in memory answer many questions? The covariance paper's task, for seven attentions.

A recurrent encoder reads a document once; each of its 16 questions is then one look-up, and the answer a softmax over
all candidates. Documents hold n facts, n up to 200 in training and 2,000 in the test. bAbI's first task, if its files
are named, is asked as it goes along: what a question can look up is what has been told by then. Writes a table of
accuracies, mean and range over seeds, and the time of look-ups against length. An interrupted benchmark goes on where
it was.

    python benchmarks/cloze.py --babi data/babi-qa1-en-10k
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import mean, median

import numpy as np
import torch
from cloze_task import FACT, PLACES, QUESTIONS, VOCABULARY, Batch, Stories, babi, facts
from machine import provenance, writable
from matplotlib.figure import Figure
from torch import Tensor, nn

from nmt.attention.base import Attention
from nmt.config import train_config
from nmt.model.build import construct

SIZE = 100  # of every state, as in the paper
TRAINED_TO = 200
TESTED = [10, 20, 50, 100, 200, 500, 1_000, 2_000]
LENGTHS = [100, 1_000, 5_000, 20_000]
LOOK_UPS = 1_000
KINDS = {
    "none": ["attention=none"],
    "covariance": ["attention=covariance"],
    "gated covariance": ["attention=gated_covariance"],
    "memory, K=32": ["attention=memory", "attention.renormalise=null"],
    "kernel elu": ["attention=kernel", f"attention.key_size={SIZE}"],
    "delta rule": ["attention=delta", f"attention.key_size={SIZE}"],
    "Luong dot": ["attention=luong", "attention.score=dot"],
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=3.0, help="training of one cell on generated documents")
    options.add_argument("--babi-minutes", type=float, default=0.75)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--babi", type=Path, default=None, help="folder with qa1_train.txt.gz and qa1_test.txt.gz")
    options.add_argument("--jobs", type=int, default=2, help="cells trained side by side, one thread each")
    options.add_argument("--runs", type=Path, default=Path("runs/cloze"))
    options.add_argument("--output", type=writable, default=Path(__file__).parent / "results")
    options.add_argument("--cell", nargs=2, default=None, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.cell is not None:
        run_cell(asked, asked.cell[0], int(asked.cell[1]))
        return
    asked.runs.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(lambda cell: launch(asked, *cell), product(asked.seeds, KINDS)))
    cells = {
        (kind, seed): json.loads(cell_file(asked, kind, seed).read_text()) for seed, kind in product(asked.seeds, KINDS)
    }
    times = look_up_times()
    lines = report(asked, cells, times)
    (asked.output / "cloze.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(cells, times, asked)
    print("\n".join(lines))


def cell_file(asked: argparse.Namespace, kind: str, seed: int) -> Path:
    return Path(asked.runs / f"{kind.replace(' ', '-').replace(',', '')}-{seed}.json")


def launch(asked: argparse.Namespace, seed: int, kind: str) -> None:
    """One cell in a process of its own; one that is there already is kept."""
    if cell_file(asked, kind, seed).is_file():
        return
    command = [sys.executable, __file__, "--cell", kind, str(seed), "--runs", str(asked.runs)]
    command += ["--minutes", str(asked.minutes), "--babi-minutes", str(asked.babi_minutes)]
    command += ["--babi", str(asked.babi)] if asked.babi is not None else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{kind}, seed {seed}:\n{done.stderr}")
    print(done.stdout.strip(), flush=True)


class Reader(nn.Module):
    """Document and question LSTMs, one attention between them, and a softmax over candidates."""

    def __init__(self, words: list[str], vocabulary: int, candidates: int) -> None:
        super().__init__()
        sizes = [f"encoder.hidden_size={SIZE}", f"decoder.hidden_size={SIZE}"]
        block = train_config([*words, *sizes])["attention"]
        self.embedding = nn.Embedding(vocabulary, SIZE)
        self.document = nn.LSTM(SIZE, SIZE, batch_first=True)
        self.question = nn.LSTM(SIZE, SIZE, batch_first=True)
        longest = TRAINED_TO * FACT
        self.attention: Attention = construct(block, (), state_size=SIZE, query_size=SIZE, max_length=longest)
        self.answer = nn.Sequential(
            nn.Linear(2 * SIZE + self.attention.context_size, SIZE), nn.Tanh(), nn.Linear(SIZE, candidates)
        )

    def forward(self, batch: Batch) -> Tensor:
        """Scores (B, m, candidates): of the question's own state, the document's state by then, and the context."""
        states, _ = self.document(self.embedding(batch.document))
        rows, count, length = batch.questions.shape
        asked = self.question(self.embedding(batch.questions.reshape(rows * count, length)))[1][0][0]
        asked = asked.reshape(rows, count, SIZE)
        by_then = states[:, [end - 1 for end in batch.ends]]
        return self.answer(torch.cat([asked, by_then, self.contexts(states, asked, batch.ends)], dim=2))

    def contexts(self, states: Tensor, asked: Tensor, ends: list[int]) -> Tensor:
        """One look-up a question, in the memory of what had been told when it was asked."""
        mask = torch.ones_like(states[..., 0], dtype=torch.bool)
        if len(set(ends)) == 1:
            return self.attention.read(asked, self.attention.write(states, mask))[0]
        found, start, memory = [], 0, None
        for at, end in enumerate(ends):
            if memory is None or not self.attention.streaming:
                memory = self.attention.write(states[:, :end], mask[:, :end])
            else:
                memory = self.attention.append(memory, states[:, start:end], mask[:, start:end])
            start = end
            found.append(self.attention.read(asked[:, at : at + 1], memory)[0])
        return torch.cat(found, dim=1)


def run_cell(asked: argparse.Namespace, kind: str, seed: int) -> None:
    """Train and test one attention with one seed, on both tasks, and write what came of it."""
    torch.set_num_threads(1)
    result = {**generated(kind, seed, asked.minutes), "babi": None}
    if asked.babi is not None:
        train = babi(asked.babi / "qa1_train.txt.gz")
        result["babi"] = told(kind, seed, asked.babi_minutes, train, babi(asked.babi / "qa1_test.txt.gz", train))
    cell_file(asked, kind, seed).write_text(json.dumps(result))
    print(f"{kind}, seed {seed}: {result}")


def generated(kind: str, seed: int, minutes: float) -> dict[str, object]:
    """Accuracy by number of facts, after so many minutes on documents of 2 to 200 facts, short ones oftener."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Reader(KINDS[kind], VOCABULARY, PLACES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    started, steps = time.perf_counter(), 0
    while (spent := (time.perf_counter() - started) / (60 * minutes)) < 1:
        count = int(np.exp(random.uniform(np.log(2), np.log(TRAINED_TO + 1))))
        learn(model, optimizer, facts(random, max(8, min(64, 3_200 // count)), count), lr=0.002 * (1 - spent))
        steps += 1
    tests = {
        count: facts(np.random.default_rng([7, count]), max(16, min(64, 6_400 // count)), count) for count in TESTED
    }
    return {"accuracy": {count: accuracy(model, [batch]) for count, batch in tests.items()}, "steps": steps}


def told(kind: str, seed: int, minutes: float, train: Stories, test: Stories) -> float:
    """Test accuracy on bAbI's stories."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Reader(KINDS[kind], len(train.vocabulary), len(train.candidates))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    chances = np.array([len(batch.document) for batch in train.batches], dtype=np.float64)
    started = time.perf_counter()
    while (spent := (time.perf_counter() - started) / (60 * minutes)) < 1:
        batch = train.batches[random.choice(len(train.batches), p=chances / chances.sum())]
        some = torch.from_numpy(random.integers(len(batch.document), size=min(32, len(batch.document))))
        learn(model, optimizer, Batch(*(field[some] for field in batch[:3]), batch.ends), lr=0.002 * (1 - spent))
    return accuracy(model, test.batches)


def learn(model: Reader, optimizer: torch.optim.Optimizer, batch: Batch, *, lr: float) -> None:
    optimizer.param_groups[0]["lr"] = lr
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.answers.flatten()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


@torch.no_grad()
def accuracy(model: Reader, batches: list[Batch]) -> float:
    right = sum(int((model(batch).argmax(2) == batch.answers).sum()) for batch in batches)
    return right / sum(batch.answers.numel() for batch in batches)


@torch.no_grad()
def look_up_times() -> dict[str, list[float]]:
    """Milliseconds of 1,000 look-ups, 16 at a time, in a document of so many states: medians of 5 rounds in turns."""
    torch.set_num_threads(1)
    attentions = {kind: Reader(words, 2, 2).attention for kind, words in KINDS.items()}
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for length in LENGTHS:
        states, mask = torch.randn(1, length, SIZE), torch.ones(1, length, dtype=torch.bool)
        memories = {kind: attention.write(states, mask) for kind, attention in attentions.items()}
        asked = torch.randn(1, QUESTIONS, SIZE)
        rounds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _, (kind, attention) in product(range(5), attentions.items()):
            started = time.perf_counter()
            for _ in range(LOOK_UPS // QUESTIONS):
                attention.read(asked, memories[kind])
            rounds[kind].append(1000 * (time.perf_counter() - started))
        for kind, each in rounds.items():
            found[kind].append(median(each))
    return found


def report(
    asked: argparse.Namespace, cells: dict[tuple[str, int], dict[str, object]], times: dict[str, list[float]]
) -> list[str]:
    lines = ["# Cloze questions", "", *(f"- {line}" for line in provenance())]
    lines += [
        f"- LSTMs and states of {SIZE}, trained {asked.minutes:g} minutes on one core a cell; accuracy in %, mean and "
        f"range of {len(asked.seeds)} seeds",
        f"- documents of n facts, 3 tokens each; trained on n = 2 to {TRAINED_TO}; {PLACES} candidates, so chance is "
        f"{100 / PLACES:.0f} %",
        "",
        f"| attention | {' | '.join(f'n = {count:,}' for count in TESTED)} | steps |"
        + (" bAbI 1 |" if asked.babi is not None else ""),
        "|---" * (len(TESTED) + 2 + (asked.babi is not None)) + "|",
    ]
    for kind in KINDS:
        each = [cells[kind, seed] for seed in asked.seeds]
        row = [kind, *(spread([100 * one["accuracy"][str(count)] for one in each]) for count in TESTED)]
        row.append(f"{mean(one['steps'] for one in each):,.0f}")
        if asked.babi is not None:
            row.append(spread([100 * one["babi"] for one in each]))
        lines.append(f"| {' | '.join(row)} |")
    lines += [
        "",
        f"Milliseconds of {LOOK_UPS:,} look-ups, {QUESTIONS} at a time, in a document of S states (one core):",
        "",
    ]
    lines += [
        f"| attention | {' | '.join(f'S = {length:,}' for length in LENGTHS)} |",
        "|---" * (len(LENGTHS) + 1) + "|",
    ]
    lines += [f"| {kind} | {' | '.join(f'{one:.1f}' for one in found)} |" for kind, found in times.items()]
    return [*lines, "", "![accuracy against the number of facts, and time against length](cloze.png)"]


def spread(numbers: list[float]) -> str:
    return f"{mean(numbers):.0f} ({min(numbers):.0f}–{max(numbers):.0f})"


def draw(
    cells: dict[tuple[str, int], dict[str, object]], times: dict[str, list[float]], asked: argparse.Namespace
) -> None:
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for kind in KINDS:
        each = [[100 * cells[kind, seed]["accuracy"][str(count)] for count in TESTED] for seed in asked.seeds]
        (line,) = left.plot(TESTED, np.mean(each, axis=0), marker=".", label=kind)
        left.fill_between(TESTED, np.min(each, axis=0), np.max(each, axis=0), color=line.get_color(), alpha=0.15)
        right.plot(LENGTHS, times[kind], marker=".", color=line.get_color())
    left.axvline(TRAINED_TO, color="0.7", linewidth=0.8)
    left.set(xscale="log", xlabel="facts in a document; trained up to the line", ylabel="accuracy, %")
    left.legend(frameon=False, fontsize=8)
    right.set(xscale="log", yscale="log", xlabel="source states", ylabel=f"ms for {LOOK_UPS:,} look-ups")
    figure.savefig(asked.output / "cloze.png", dpi=130)


if __name__ == "__main__":
    main()
