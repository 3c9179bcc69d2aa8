"""The reader for ``cloze.py``: two LSTMs with one attention between them, its training and its accuracy."""

from __future__ import annotations

import time

import numpy as np
import torch
from cloze_task import FACT, PLACES, VOCABULARY, Batch, Stories, facts
from torch import Tensor, nn

from nmt.attention.base import Attention
from nmt.config import train_config
from nmt.model.build import ATTENTION
from nmt.plugins import construct

SIZE = 100  # of every state, as in the paper
MAX_TRAIN_FACTS = 200
TEST_FACTS = [10, 20, 50, 100, 200, 500, 1_000, 2_000]
KINDS = {
    "none": ["attention=none"],
    "covariance": ["attention=covariance"],
    "gated covariance": ["attention=gated_covariance"],
    "memory, K=32": ["attention=memory", "attention.renormalise=null"],
    "kernel elu": ["attention=kernel", f"attention.key_size={SIZE}"],
    "delta rule": ["attention=delta", f"attention.key_size={SIZE}"],
    "Luong dot": ["attention=luong", "attention.score=dot"],
}


class Reader(nn.Module):
    """Document and question LSTMs, one attention between them, and a softmax over the candidates."""

    def __init__(self, words: list[str], vocabulary: int, candidates: int) -> None:
        super().__init__()
        sizes = [f"encoder.hidden_size={SIZE}", f"decoder.hidden_size={SIZE}"]
        block = train_config([*words, *sizes])["attention"]
        self.embedding = nn.Embedding(vocabulary, SIZE)
        self.document = nn.LSTM(SIZE, SIZE, batch_first=True)
        self.question = nn.LSTM(SIZE, SIZE, batch_first=True)
        sizes_of_attention = {"state_size": SIZE, "query_size": SIZE, "max_length": MAX_TRAIN_FACTS * FACT}
        self.attention: Attention = construct(block, ATTENTION, **sizes_of_attention)
        self.answer = nn.Sequential(
            nn.Linear(2 * SIZE + self.attention.context_size, SIZE), nn.Tanh(), nn.Linear(SIZE, candidates)
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return scores (B, m, candidates) from question state, document state at that point, and context."""
        states, _ = self.document(self.embedding(batch.document))
        rows, count, length = batch.questions.shape
        queries = self.question(self.embedding(batch.questions.reshape(rows * count, length)))[1][0][0]
        queries = queries.reshape(rows, count, SIZE)
        last_states = states[:, [end - 1 for end in batch.ends]]
        return self.answer(torch.cat([queries, last_states, self.contexts(states, queries, batch.ends)], dim=2))

    def contexts(self, states: Tensor, queries: Tensor, ends: list[int]) -> Tensor:
        """Return the context of each question from a memory of the states before it."""
        mask = torch.ones_like(states[..., 0], dtype=torch.bool)
        if len(set(ends)) == 1:
            return self.attention.read(queries, self.attention.write(states, mask))[0]
        contexts, start, memory = [], 0, None
        for index, end in enumerate(ends):
            if memory is None or not self.attention.streaming:
                memory = self.attention.write(states[:, :end], mask[:, :end])
            else:
                memory = self.attention.append(memory, states[:, start:end], mask[:, start:end])
            start = end
            contexts.append(self.attention.read(queries[:, index : index + 1], memory)[0])
        return torch.cat(contexts, dim=1)


def train_on_facts(kind: str, seed: int, minutes: float) -> dict[str, object]:
    """Train for ``minutes`` on documents of 2 to 200 facts, mostly short; return steps and accuracy by facts."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Reader(KINDS[kind], VOCABULARY, PLACES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    started, steps = time.perf_counter(), 0
    while (progress := (time.perf_counter() - started) / (60 * minutes)) < 1:
        count = int(np.exp(random.uniform(np.log(2), np.log(MAX_TRAIN_FACTS + 1))))
        batch = facts(random, max(8, min(64, 3_200 // count)), count)
        train_step(model, optimizer, batch, lr=0.002 * (1 - progress))
        steps += 1
    scores = {}
    for count in TEST_FACTS:
        batch = facts(np.random.default_rng([7, count]), max(16, min(64, 6_400 // count)), count)
        scores[count] = accuracy(model, [batch])
    return {"accuracy": scores, "steps": steps}


def train_on_babi(kind: str, seed: int, minutes: float, train: Stories, test: Stories) -> float:
    """Train for ``minutes`` on bAbI stories and return the test accuracy."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Reader(KINDS[kind], len(train.vocabulary), len(train.candidates))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    sizes = np.array([len(batch.document) for batch in train.batches], dtype=np.float64)
    started = time.perf_counter()
    while (progress := (time.perf_counter() - started) / (60 * minutes)) < 1:
        batch = train.batches[random.choice(len(train.batches), p=sizes / sizes.sum())]
        rows = torch.from_numpy(random.integers(len(batch.document), size=min(32, len(batch.document))))
        sample = Batch(*(field[rows] for field in batch[:3]), batch.ends)
        train_step(model, optimizer, sample, lr=0.002 * (1 - progress))
    return accuracy(model, test.batches)


def train_step(model: Reader, optimizer: torch.optim.Optimizer, batch: Batch, *, lr: float) -> None:
    """Make one update with this learning rate."""
    optimizer.param_groups[0]["lr"] = lr
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.answers.flatten()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


@torch.no_grad()
def accuracy(model: Reader, batches: list[Batch]) -> float:
    """Return the share of correct answers."""
    correct = sum(int((model(batch).argmax(2) == batch.answers).sum()) for batch in batches)
    return correct / sum(batch.answers.numel() for batch in batches)
