"""Forced decoding: what a model attends to, and how likely it finds, a translation that is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from nmt.alignment.links import argmax_links
from nmt.alignment.word_weights import word_weights
from nmt.inference.translator import Translator
from nmt.search.search import batches_by_length
from nmt.text.specials import BOS, EOS, PAD

T = TypeVar("T")


class Forced(NamedTuple):
    """One given translation: tokens with ``</s>``, raw alignment (S, T) and natural log-probability."""

    source_tokens: list[str]
    tokens: list[str]
    source_words: list[int]
    target_words: list[int]
    alignment: np.ndarray
    log_prob: float


def force(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[Forced]:
    """Each source with its given target, pushed through the model in place of the model's own choices.

    Raises SourceTooLong where the attention cannot hold a source.
    """
    return _in_order(_batch_by_batch(translator, sources, targets))


def forced_links(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> list[frozenset[tuple[int, int]]]:
    """One link (source word, target word) for each target word: where it looks most when it is given.

    Only the alignments of a batch are held at a time. Raises SourceTooLong where the attention cannot hold a source.
    """
    forced = _batch_by_batch(translator, sources, targets)
    return _in_order((row, argmax_links(word_weights(one))) for row, one in forced)


def _in_order(numbered: Iterable[tuple[int, T]]) -> list[T]:
    found = dict(numbered)
    return [found[row] for row in range(len(found))]


@torch.inference_mode()
def _batch_by_batch(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> Iterator[tuple[int, Forced]]:
    trained = translator.trained
    device = trained.model.embedding.weight.device
    left = [translator.encode(line) for line in sources]
    translator.refuse_longer(max(map(len, left), default=0))
    right = [[*trained.target.encode(translator.case(line)), EOS] for line in targets]
    for rows in batches_by_length([max(map(len, pair)) for pair in zip(left, right, strict=True)], max_tokens=4096):
        source = _padded([left[row] for row in rows]).to(device)
        target = _padded([right[row] for row in rows]).to(device)
        shifted = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        memory, final = trained.model.encode(source, source != PAD, trace=True)
        logits, weights = trained.model.decoder(shifted, trained.model.decoder.init(final, memory), memory)
        alignment = trained.model.attention.align(weights, memory).float().cpu().numpy()
        chosen = logits.float().log_softmax(2).gather(2, target[..., None])[..., 0]
        log_probs = (chosen * (target != PAD)).sum(1).tolist()
        for at, row in enumerate(rows):
            one = Forced(
                trained.source.pieces(left[row]),
                trained.target.pieces(right[row]),
                trained.source.words(left[row][:-1]),
                trained.target.words(right[row][:-1]),
                alignment[at, : len(right[row]), : len(left[row])].T,
                log_probs[at],
            )
            yield row, one


def _padded(rows: list[list[int]]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
