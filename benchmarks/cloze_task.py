"""Documents of facts and questions about them: generated ones of any length, and bAbI's first task."""

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
QUESTIONS = 16
FACT = 3  # tokens: given name, family name, place
VOCABULARY = GIVEN + FAMILY + PLACES


class Batch(NamedTuple):
    """``ends`` (m,) says how many document tokens are known when question j is asked."""

    document: Tensor  # (B, S)
    questions: Tensor  # (B, m, L)
    answers: Tensor  # (B, m)
    ends: list[int]


def facts(random: np.random.Generator, rows: int, count: int) -> Batch:
    """``count`` people, no two with the same two names, and where each is; 16 of them are asked about.

    Which of the 60 × 60 names occur is drawn anew for each document, so an answer needs that one fact and nothing else.
    """
    names = np.stack([random.choice(GIVEN * FAMILY, size=count, replace=False) for _ in range(rows)])
    places = random.integers(PLACES, size=(rows, count))
    people = np.stack([names // FAMILY, GIVEN + names % FAMILY], axis=2)
    document = np.concatenate([people, (GIVEN + FAMILY + places)[..., None]], axis=2)
    asked = random.integers(count, size=(rows, QUESTIONS))
    questions = np.take_along_axis(people, asked[..., None], axis=1)
    return Batch(
        torch.from_numpy(document.reshape(rows, -1)),
        torch.from_numpy(questions),
        torch.from_numpy(np.take_along_axis(places, asked, axis=1)),
        [count * FACT] * QUESTIONS,
    )


class Stories(NamedTuple):
    """bAbI stories as batches of stories alike in length, and what their numbers mean."""

    batches: list[Batch]
    vocabulary: list[str]
    candidates: list[str]


def babi(file: Path, known: Stories | None = None) -> Stories:
    """The stories of a bAbI file; ``known`` gives the numbers of the training file's words."""
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
    """Each a list of (words, answer), the answer None for what is told and not asked."""
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
    told, asked, answers, ends = [], [], [], list[int]()
    for story in stories:
        told.append([vocabulary.index(word) for words, answer in story if answer is None for word in words])
        asked.append([[vocabulary.index(word) for word in words] for words, answer in story if answer is not None])
        answers.append([candidates.index(answer) for _, answer in story if answer is not None])
    length = 0
    for words, answer in stories[0]:
        length += len(words) if answer is None else 0
        ends += [] if answer is None else [length]
    return Batch(torch.tensor(told), torch.tensor(asked), torch.tensor(answers), ends)
