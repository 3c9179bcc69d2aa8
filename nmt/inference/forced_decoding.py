"""Forced decoding: the alignment and the probability that a model assigns to given translations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from nmt.alignment.word_weights import argmax_links, lost_words, word_weights
from nmt.data.links import Link
from nmt.errors import counted
from nmt.inference.bulk import Failure, OnFailure, replace_failures, run_in_halves
from nmt.inference.model_folder import TrainedModel
from nmt.inference.reader import Reader
from nmt.inference.torch_engine import Source
from nmt.inference.translation import NO_TRANSLATION, SCORES_NOT_FINITE, Translation
from nmt.search.engine import padded
from nmt.search.search import batches_by_length
from nmt.settings.arguments import text_list
from nmt.system.machine import available_memory
from nmt.text.specials import BOS
from nmt.text.tokenizer import Tokenizer

UNSCORED = Failure(SCORES_NOT_FINITE, of="pairs")
OnLost = Callable[[int, str, list[str]], None]
"""Gets the row of a pair, from 0, the side ("source" or "target"), and its words that the tokenizer removes."""
CPU_TOKENS = 1024  # in a batch: the scores of more do not fit in a cache, which takes 1.5 times as long
GPU_TOKENS = 4096
GROUP = 1024  # pairs whose alignments are in memory together
BYTES_PER_LINK = 40  # of memory for each pair of a source and a target piece: the alignment and its copies
BYTES_PER_SCORE = 12  # for each target piece and each piece of the vocabulary


class Slots(NamedTuple):
    """Weights of one pair: α (R, S) of each source piece in each slot, β (T, R) of each slot for each target piece.

    The slots of all heads and layers follow each other.
    """

    write: np.ndarray
    read: np.ndarray


def force_decode(
    translator: Reader, sources: Sequence[str], targets: Sequence[str], *, on_failure: OnFailure | None = None
) -> list[Translation]:
    """Return each target as a translation of its source, with the probability and alignment that the model gives it.

    If memory runs out, smaller batches are used. A source that the attention or the machine's memory cannot hold raises
    SourceTooLong, and a pair whose probability or alignment is not finite raises UserError. With ``on_failure``, both
    call ``on_failure(row, reason)`` instead and the result is empty with a ``log_prob`` of -inf.
    """
    return replace_failures(_decoded(translator, sources, targets), failed=NO_TRANSLATION, on_failure=on_failure)


def forced_links(
    translator: Reader,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    on_failure: OnFailure | None = None,
    on_lost: OnLost | None = None,
) -> list[frozenset[Link]]:
    """Return links (source word, target word) of each pair: every target word links to its largest weight.

    Only the alignments of ``GROUP`` pairs are in memory at a time. A source that is too long, and a pair whose scores
    are not finite, is handled as in ``force_decode``; its set of links is empty. ``on_lost`` is called for each side of
    a pair that has words without pieces, and so without links.
    """

    def link(row: int, decoding: Translation | Failure) -> frozenset[Link] | Failure:
        if isinstance(decoding, Failure):
            return decoding
        for side, words in lost_words(decoding) if on_lost else ():
            on_lost(row, side, words)  # type: ignore[misc]
        return argmax_links(word_weights(decoding))

    links = (link(*numbered) for numbered in enumerate(_decoded(translator, sources, targets)))
    return replace_failures(links, failed=frozenset(), on_failure=on_failure)


def _decoded(translator: Reader, sources: Sequence[str], targets: Sequence[str]) -> Iterator[Translation | Failure]:
    """Yield the result of each pair."""
    sources, targets = text_list(sources, "sources"), text_list(targets, "targets")
    if len(sources) != len(targets):
        raise ValueError(
            f"{counted(len(sources), 'source')}, {counted(len(targets), 'target')}: give one target per source"
        )
    for first in range(0, len(sources), GROUP):
        group = slice(first, first + GROUP)
        yield from run_in_halves(partial(_decode, translator, sources[group], targets[group]), sources[group])
    translator.conclude_text()


@torch.inference_mode()
def _decode(
    translator: Reader, sources: Sequence[str], targets: Sequence[str], part: slice
) -> list[Translation | Failure]:
    """Return the results of a part of the pairs."""
    sources, targets = [[*map(translator.visible, side[part])] for side in (sources, targets)]
    trained = translator.trained
    engine = trained.engine(trace=True)
    device = trained.model.embedding.weight.device
    source_ids = [translator.encode(line) for line in sources]
    target_ids = [translator.encode_target(line) for line in targets]
    lengths = [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
    results: list[Translation | Failure] = [UNSCORED] * len(sources)
    for rows in batches_by_length(lengths, max_tokens=CPU_TOKENS if device.type == "cpu" else GPU_TOKENS):
        encoded = engine.encode([source_ids[row] for row in rows])
        target = torch.from_numpy(padded([target_ids[row] for row in rows])).to(device)
        log_probs, weights = read_targets(trained, encoded, target)
        alignments = trained.model.attention.align(weights, encoded.memory).float().cpu().numpy()
        for row, token_log_probs, alignment in zip(rows, log_probs, alignments, strict=True):
            token_log_probs = token_log_probs[: len(target_ids[row])]
            alignment = alignment[: len(target_ids[row]), : len(source_ids[row])]
            if np.isfinite(token_log_probs).all() and np.isfinite(alignment).all():
                results[row] = Translation(
                    targets[row],
                    source=sources[row],
                    log_prob=float(token_log_probs.sum()),
                    source_tokens=trained.source.pieces(source_ids[row]),
                    tokens=trained.target.pieces(target_ids[row]),
                    source_spans=translator.spans(trained.source, sources[row]),
                    spans=translator.spans(trained.target, targets[row]),
                    token_log_probs=token_log_probs.tolist(),
                    alignment=alignment,
                )
    return results


def read_targets(trained: TrainedModel, source: Source, target: torch.Tensor) -> tuple[np.ndarray, torch.Tensor]:
    """Return the log-probability (B, T) of each piece of the targets, and the read weights (B, T, R)."""
    longest = int(source.memory.length.max())
    _require_memory(target.numel() * (longest * BYTES_PER_LINK + len(trained.target) * BYTES_PER_SCORE))
    decoder = trained.model.decoder
    shifted = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
    logits, weights = decoder(shifted, decoder.init(source.final, source.memory), source.memory)
    log_probs = logits.float().log_softmax(2).gather(2, target[..., None])[..., 0]
    return log_probs.cpu().numpy(), weights


@torch.inference_mode()
def slot_weights(translator: Reader, source: str | Sequence[str], target: str | Sequence[str]) -> Slots | None:
    """Return the slot weights of a force-decoded target. ``source`` and ``target`` are texts, or pieces with ``</s>``.

    Returns None if each slot holds one source state: then the read weights are the alignment.
    """
    trained = translator.trained
    source_ids = translator.encode(source) if isinstance(source, str) else _ids(trained.source, source)
    target_ids = translator.encode_target(target) if isinstance(target, str) else _ids(trained.target, target)
    encoded = trained.engine(trace=True).encode([source_ids])
    if encoded.memory.trace is None:
        return None
    _, weights = read_targets(trained, encoded, torch.tensor([target_ids], device=encoded.memory.slots.device))
    write = encoded.memory.trace[0].flatten(0, -2)  # the memories of a Transformer's layers follow each other
    return Slots(*(tensor.float().cpu().numpy() for tensor in (write, weights[0])))


def _ids(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[int]:
    id_of = {piece: number for number, piece in enumerate(tokenizer.all_pieces)}
    return [id_of[piece] for piece in pieces]


def _require_memory(needed: int) -> None:
    """Raise MemoryError if the machine has less than ``needed`` bytes of free memory.

    Linux would grant the memory and then kill this process, or another one, while it is used.
    """
    available = available_memory()
    if available is not None and needed > available:
        raise MemoryError(f"{needed} bytes needed, {available} available")
