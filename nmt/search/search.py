"""Entry points: ``search`` for one batch, ``search_encoded`` for memories; and batches of sentences by length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from nmt.search.engine import Engine, Floats, Integers, Source, State
from nmt.search.history import History, Hypothesis
from nmt.search.one_sentence import search_one_sentence
from nmt.search.options import SearchOptions
from nmt.search.scoring import Scorer

if TYPE_CHECKING:
    from nmt.search.constraints import Prefix

MAX_HYPOTHESES = 8192
"""Live hypotheses of a batch: each has a log-probability for every piece of the vocabulary."""


def search(
    engine: Engine[Source, State],
    sources: list[list[int]],
    options: SearchOptions,
    prefixes: Sequence[Prefix] | None = None,
) -> list[list[Hypothesis]]:
    """Translate all sources in one batch; return the hypotheses of each, best first, in the order of the sources.

    A source is a list of piece ids that ends in ``</s>``. Each gets between 1 and ``options.n_best`` hypotheses, or
    none if the engine's log-probabilities were not finite before any hypothesis ended. With ``options.keep_weights``,
    hypotheses carry read weights and alignment. A translation begins with its prefix; an empty one allows everything.
    Raises ValueError for a source without ids.
    """
    if not sources:
        return []
    lengths = np.array([len(ids) for ids in sources])
    if not lengths.all():
        raise ValueError(f"source {int(lengths.argmin())} is empty: it must end in </s>")
    seeds = [sentence_seed(ids) for ids in sources]
    return search_encoded(engine, engine.encode(sources), lengths, seeds, options, prefixes)


def sentence_seed(ids: Sequence[int]) -> int:
    """Return a seed computed from a source's ids."""
    return crc32(np.asarray(ids, dtype=np.int64).tobytes())


def search_encoded(
    engine: Engine[Source, State],
    source: Source,
    lengths: Integers,
    seeds: Sequence[int],
    options: SearchOptions,
    prefixes: Sequence[Prefix] | None = None,
) -> list[list[Hypothesis]]:
    """Search like ``search``, from encoded sources of ``lengths`` (B,). Only sampling uses ``seeds`` (B,)."""
    prefixes = prefixes or [()] * len(lengths)
    limits = options.limits(lengths) + np.array([len(prefix) for prefix in prefixes])  # every prefix is completed
    searched: Any = engine
    if any(prefixes):
        from nmt.search.constraints import PrefixEngine

        searched = PrefixEngine(engine, prefixes)
    elif len(limits) == 1:
        hypotheses = search_one_sentence(engine, source, int(limits[0]), options)
        if hypotheses is not None:
            return [hypotheses]
    history = History(keep_weights=options.keep_weights or options.coverage_penalty > 0)

    def align(row: int, reads: Floats) -> Floats:
        return engine.align(source, row, reads)[:, : lengths[row]]  # without the padding of the batch

    scorer = Scorer(options, history, align)
    if options.method == "beam":
        from nmt.search.beam import beam_search

        endings = beam_search(searched, source, limits, options, history, scorer)
    else:
        from nmt.search.sampling import sampling_search

        endings = sampling_search(searched, source, seeds, limits, options, history)

    scores = scorer.score_endings(endings)
    traced = history.trace(endings, scores)
    results: list[list[Hypothesis]] = [[] for _ in limits]
    for index in np.argsort(-scores, kind="stable"):
        row, hypothesis = int(endings.sentence[index]), traced[index]
        weights = hypothesis.weights if options.keep_weights else None
        # An unfinished hypothesis below the limit had no candidate with a finite log-probability.
        if hypothesis.finished or len(hypothesis.tokens) == limits[row]:
            alignment = None if weights is None else align(row, weights)
            results[row].append(hypothesis._replace(weights=weights, alignment=alignment))
    return results


def max_rows(options: SearchOptions, hypotheses: int = MAX_HYPOTHESES) -> int:
    """Return the number of sentences in a batch that together have at most this number of live ``hypotheses``."""
    return max(1, hypotheses // live_hypotheses(options))


def live_hypotheses(options: SearchOptions) -> int:
    """Return the largest number of live hypotheses of one sentence."""
    return options.n_best if options.method == "sample" else options.beam_size


def batches_by_length(lengths: list[int], *, max_tokens: int, max_rows: int | None = None) -> list[list[int]]:
    """Split the indices into batches, longest first, so that sentences × longest ≤ max_tokens in each batch.

    No batch has more than ``max_rows`` sentences.

    The longest come first because a batch that does not fit in memory then fails at once, not after an hour.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        size = len(batches[-1]) + 1 if batches else 0
        fits = batches and (max_rows is None or size <= max_rows)
        if fits and size * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches
