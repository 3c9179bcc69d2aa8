"""Documents of facts with questions about them: generated ones of any length, and the first bAbI task."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

GIVEN, FAMILY, PLACES = 60, 60, 50
STRANGERS = 60  # family names of people about whom no question asks
QUESTIONS = 16
FACT = 3  # tokens: given name, family name, place
VOCABULARY = GIVEN + FAMILY + STRANGERS + PLACES


class Batch(NamedTuple):
    """Documents with m questions about each. ``ends`` (m,): document tokens before each question.

    Shorter documents and questions end in ``pad``, if they have different lengths. Then m is 1.
    """

    document: Tensor  # (B, S)
    questions: Tensor  # (B, m, L)
    answers: Tensor  # (B, m)
    ends: list[int]
    pad: int = -1


def facts(random: np.random.Generator, rows: int, count: int, distractors: int = 0) -> Batch:
    """Return ``rows`` documents that tell the places of ``count`` people, and 16 questions about each document.

    People have distinct pairs of names. Each document draws new ones from the 60 × 60 pairs, so that an answer depends
    on one fact of this document only. ``distractors`` facts per document tell the places of strangers, in random order
    among the others. Their family names come from 60 other names, and no question asks about them. A model can
    therefore recognise a distractor while it reads it, and keep it out of its memory.
    """
    total = count + distractors
    names = np.stack([random.choice(GIVEN * FAMILY, size=total, replace=False) for _ in range(rows)])
    places = random.integers(PLACES, size=(rows, total))
    people = np.stack([names // FAMILY, GIVEN + names % FAMILY], axis=2)
    people[:, count:, 1] += FAMILY
    chosen = random.integers(count, size=(rows, QUESTIONS))
    document = np.concatenate([people, (GIVEN + FAMILY + STRANGERS + places)[..., None]], axis=2)
    if distractors:
        order = random.permuted(np.tile(np.arange(total), (rows, 1)), axis=1)
        document = np.take_along_axis(document, order[..., None], axis=1)
    return Batch(
        torch.from_numpy(document.reshape(rows, -1)),
        torch.from_numpy(np.take_along_axis(people, chosen[..., None], axis=1)),
        torch.from_numpy(np.take_along_axis(places, chosen, axis=1)),
        [total * FACT] * QUESTIONS,
    )


class Stories(NamedTuple):
    """Documents in batches of equal or similar lengths, with the vocabulary and the candidate answers."""

    batches: list[Batch]
    vocabulary: list[str]
    candidates: list[str]


def read_babi(file: Path, known: Stories | None = None) -> Stories:
    """Return the stories of a bAbI file; ``known`` is the training set, whose vocabulary a test set uses."""
    stories = list(_stories(file))
    if known is None:
        vocabulary = ["", *sorted({word for story in stories for words, _ in story for word in words})]
        candidates = sorted({answer for story in stories for _, answer in story if answer is not None})
    else:
        vocabulary, candidates = known.vocabulary, known.candidates
    groups: dict[tuple[tuple[int, bool], ...], list[list[tuple[list[str], str | None]]]] = {}
    for story in stories:
        groups.setdefault(tuple((len(words), answer is None) for words, answer in story), []).append(story)
    return Stories([_batch(group, vocabulary, candidates) for group in groups.values()], vocabulary, candidates)


def _stories(file: Path) -> Iterator[list[tuple[list[str], str | None]]]:
    """Yield each story as a list of (words, answer); a statement has the answer None."""
    story: list[tuple[list[str], str | None]] = []
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            number, _, rest = line.partition(" ")
            if number == "1" and story:
                yield story
                story = []
            text, *answer = rest.split("\t")
            story.append((re.findall(r"\w+", text.lower()), answer[0] if answer else None))
    yield story


def _batch(
    stories: Sequence[list[tuple[list[str], str | None]]], vocabulary: list[str], candidates: list[str]
) -> Batch:
    documents = []
    questions = []
    answers = []
    ends: list[int] = []
    for story in stories:
        documents.append([vocabulary.index(word) for words, answer in story if answer is None for word in words])
        questions.append([[vocabulary.index(word) for word in words] for words, answer in story if answer is not None])
        answers.append([candidates.index(answer) for _, answer in story if answer is not None])
    length = 0
    for words, answer in stories[0]:
        length += len(words) if answer is None else 0
        ends += [] if answer is None else [length]
    return Batch(torch.tensor(documents), torch.tensor(questions), torch.tensor(answers), ends)
