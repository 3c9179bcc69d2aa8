"""Cloze questions about news, in the files of Hermann et al. (2015), arXiv 1506.03340: CNN and Daily Mail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.papers.cloze_task import Batch, Stories
from nmt.errors import UserError, counted

PAD, UNKNOWN = 0, 1
GROUP = 256  # questions about documents of similar lengths; each batch of the training is drawn from one group
BLOCKS = ("URL", "document", "question", "answer", "entities")
ENTITY = re.compile(r"@entity\d+")


class Question(NamedTuple):
    """The words of a document and of a question about it, and the answer, such as ``@entity3``."""

    document: list[str]
    question: list[str]
    answer: str


def read_question(file: Path) -> Question:
    """Return the content of a ``.question`` file. Raises UserError if it has another form."""
    try:
        blocks = file.read_text(encoding="utf-8").strip().split("\n\n")
    except UnicodeDecodeError:
        raise UserError(f"{file}: not UTF-8; extract the file again") from None
    if len(blocks) != len(BLOCKS):
        parts = counted(len(blocks), "part")
        raise UserError(f"{file}: {parts} between blank lines; must be {', '.join(BLOCKS)}; extract the file again")
    _, document, question, answer, _ = (block.split() for block in blocks)
    if len(answer) != 1 or not ENTITY.fullmatch(answer[0]):
        raise UserError(f"{file}: answer {' '.join(answer)!r:.40}: must be one @entityN; correct or delete the file")
    if "@placeholder" not in question:
        raise UserError(f"{file}: question without @placeholder; correct or delete the file")
    return Question(document, question, answer[0])


def read_questions(folder: Path, known: Stories | None = None) -> Stories:
    """Return the questions of ``folder``; ``known`` is the training set, whose words and answers a test set uses.

    Raises UserError that names every broken file.
    """
    questions, problems = [], []
    for file in sorted(folder.glob("*.question")):
        try:
            questions.append(read_question(file))
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    if not questions:
        raise UserError(f"{folder}: no .question files; extract those of CNN or Daily Mail there")
    if known is None:
        words = {word for question in questions for word in (*question.document, *question.question)}
        vocabulary = ["<pad>", "<unk>", *sorted(words)]
        candidates = sorted({word for word in words if ENTITY.fullmatch(word)} | {item.answer for item in questions})
    else:
        vocabulary, candidates = known.vocabulary, known.candidates
    questions.sort(key=lambda question: len(question.document))
    ids = {word: index for index, word in enumerate(vocabulary)}
    answers = {answer: index for index, answer in enumerate(candidates)}
    groups = (questions[first : first + GROUP] for first in range(0, len(questions), GROUP))
    return Stories([_batch(group, ids, answers) for group in groups], vocabulary, candidates)


def _batch(questions: Sequence[Question], ids: dict[str, int], answers: dict[str, int]) -> Batch:
    """Return one question about each document. An answer that is not a candidate is −1, which no answer equals."""
    document = _padded([[ids.get(word, UNKNOWN) for word in item.document] for item in questions])
    words = _padded([[ids.get(word, UNKNOWN) for word in item.question] for item in questions])
    expected = torch.tensor([[answers.get(item.answer, -1)] for item in questions])
    return Batch(document, words[:, None], expected, [document.shape[1]], PAD)


def _padded(rows: list[list[int]]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
