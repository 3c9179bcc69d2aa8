"""The reader for ``cloze.py``: two recurrent encoders with an attention between them, its training and accuracy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.papers.cloze_kinds import SIZE, build
from benchmarks.papers.cloze_task import FACT, PLACES, VOCABULARY, Batch, Stories, facts
from nmt.attention import LowRankAttention
from nmt.model import LSTMEncoder

ROWS = 16  # documents of a batch
MAX_TRAIN_FACTS = 50
CURVE_POINTS = 20
FIELDS = ("document", "questions", "answers")  # of a batch, with one row per document
CURVE_FACTS = 10  # facts of the documents that the learning curves are measured on
RATE = 0.004


class Reader(nn.Module):
    """Document and question encoders, one attention between them, and a softmax over the candidates."""

    def __init__(self, kind: str, vocabulary: int, candidates: int, *, longest: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, SIZE)
        settings: dict[str, Any] = {"hidden_size": SIZE, "bidirectional": False, "dropout": 0.0}
        self.document = LSTMEncoder(embedding_size=SIZE, **settings)
        self.question = LSTMEncoder(embedding_size=SIZE, **settings)
        self.attention = build(kind, longest=longest, size=SIZE)
        self.answer = nn.Sequential(
            nn.Linear(2 * SIZE + self.attention.context_size, SIZE), nn.Tanh(), nn.Linear(SIZE, candidates)
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return scores (B, m, candidates) from question state, document state at that point, and context."""
        mask = batch.document != batch.pad
        states, final = self.document(self.embedding(batch.document), mask)
        questions = batch.questions.flatten(0, 1)
        queries = self.question(self.embedding(questions), questions != batch.pad)[1].hidden
        queries = queries.reshape(*batch.answers.shape, -1)
        if len(set(batch.ends)) == 1:
            last_states = final.hidden.expand_as(queries)
        else:
            last_states = states[:, [end - 1 for end in batch.ends]]
        contexts = self.contexts(states, mask, queries, batch.ends)
        return self.answer(torch.cat([queries, last_states, contexts], dim=2))

    def contexts(self, states: Tensor, mask: Tensor, queries: Tensor, ends: list[int]) -> Tensor:
        """Return the context of each question from a memory of the states before it."""
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


def train_on_facts(kind: str, seed: int, updates: int, distractors: int, counts: Sequence[int]) -> dict[str, Any]:
    """Train on documents of 2 to 50 facts, mostly short ones, each with ``distractors`` distractor facts.

    Return the accuracy for each number of facts in ``counts``, None where documents are too long for the attention.
    ``curve`` holds (updates, loss, accuracy), and ``seconds`` the processor time. A seed gives every kind the same
    documents in the same order.
    """
    random = np.random.default_rng(seed)

    def draw() -> Batch:
        count = int(np.exp(random.uniform(np.log(2), np.log(MAX_TRAIN_FACTS + 1))))
        return facts(random, ROWS, count, distractors * count)

    def test(count: int) -> Batch:
        rows = max(16, min(64, 6_400 // count))
        return facts(np.random.default_rng([7, count]), rows, count, distractors * count)

    torch.manual_seed(seed)
    longest = MAX_TRAIN_FACTS * FACT * (1 + distractors)
    model = Reader(kind, VOCABULARY, PLACES, longest=longest)
    started = time.process_time()
    curve = train(model, draw, updates, [test(CURVE_FACTS)])
    seconds = time.process_time() - started
    limit = longest if isinstance(model.attention, LowRankAttention) else 10**9
    fits = {count: FACT * count * (1 + distractors) <= limit for count in counts}
    scores = {str(count): accuracy(model, [test(count)]) if fits[count] else None for count in counts}
    return {"accuracy": scores, "curve": curve, "seconds": seconds}


def train_on_stories(cell: tuple[str, str, int], updates: int, stories: Stories, test: Stories) -> dict[str, Any]:
    """Train a cell on stories and return the test accuracy, the learning curve and the processor time."""
    task, kind, seed = cell
    random = np.random.default_rng(seed)
    sizes = np.array([len(batch.document) for batch in stories.batches], dtype=np.float64)

    def draw() -> Batch:
        batch = stories.batches[random.choice(len(stories.batches), p=sizes / sizes.sum())]
        rows = torch.from_numpy(random.integers(len(batch.document), size=min(ROWS, len(batch.document))))
        return batch._replace(**{name: getattr(batch, name)[rows] for name in FIELDS})

    torch.manual_seed(seed)
    longest = max(batch.document.shape[1] for batch in [*stories.batches, *test.batches])
    model = Reader(kind, len(stories.vocabulary), len(stories.candidates), longest=longest)
    started = time.process_time()
    curve = train(model, draw, updates, test.batches[:1])
    seconds = time.process_time() - started
    return {"accuracy": {task: accuracy(model, test.batches)}, "curve": curve, "seconds": seconds}


def train(model: Reader, draw: Callable[[], Batch], updates: int, valid: list[Batch]) -> list[tuple[int, float, float]]:
    """Train with a rate that falls to 0; return the learning curve: updates, mean loss since, accuracy on ``valid``."""
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    curve = []
    losses: list[float] = []
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = RATE * (1 - update / updates)
        batch = draw()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.answers.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if (update + 1) * CURVE_POINTS // updates > update * CURVE_POINTS // updates:
            curve.append((update + 1, float(np.mean(losses)), accuracy(model, valid)))
            losses = []
    return curve


@torch.no_grad()
def accuracy(model: Reader, batches: list[Batch]) -> float:
    """Return the share of correct answers; documents are read one by one if they are long."""
    correct = 0
    for batch in batches:
        size = max(1, 20_000 // batch.document.shape[1])
        for document, questions, answers in zip(*(field.split(size) for field in batch[:3]), strict=True):
            scores = model(Batch(document, questions, answers, batch.ends, batch.pad))
            correct += int((scores.argmax(2) == answers).sum())
    return correct / sum(batch.answers.numel() for batch in batches)
