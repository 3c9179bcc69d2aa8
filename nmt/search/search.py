"""The doors: ``search`` for one batch, ``search_all`` for any number of sentences, ``search_encoded`` for memories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.search.beam import beam_search
from nmt.search.engine import Engine, Integers, Source, State
from nmt.search.greedy import greedy_search
from nmt.search.history import Endings, History
from nmt.search.hypothesis import Hypothesis
from nmt.search.options import SearchOptions
from nmt.search.ranking import Ranking
from nmt.search.sampling import sampling_search, sentence_seed


def search(engine: Engine[Source, State], sources: list[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
    """Translations of each source, best first, in the order of the sources; all in one batch.

    A source is a list of piece ids that ends in ``</s>``. Each gets at least one hypothesis and at most
    ``options.n_best``; with ``options.keep_weights``, they carry read weights and alignment. Raises
    ``ValueError`` for a source without ids.
    """
    if not sources:
        return []
    lengths = np.array([len(ids) for ids in sources])
    if not lengths.all():
        raise ValueError(f"source {int(lengths.argmin())} is empty: it must hold </s> at least")
    return search_encoded(engine, engine.encode(sources), lengths, [sentence_seed(ids) for ids in sources], options)


def search_encoded(
    engine: Engine[Source, State], source: Source, lengths: Integers, seeds: Sequence[int], options: SearchOptions
) -> list[list[Hypothesis]]:
    """As ``search``, for sources that were encoded before, of these ``lengths`` (B,); ``seeds`` are for sampling."""
    limits = options.limits(lengths)
    history = History(keep_weights=options.keep_weights or options.coverage_penalty > 0)
    ranking = Ranking(options, history, lambda row, reads: engine.align(source, row, reads)[:, : lengths[row]])
    if options.method == "greedy":
        endings = greedy_search(engine, source, limits, history)
    elif options.method == "beam":
        endings = beam_search(engine, source, limits, options, history, ranking)
    else:
        endings = sampling_search(engine, source, seeds, limits, options, history)
    found = _hypotheses(history, endings, ranking, len(lengths))
    if not options.keep_weights:
        return [[hypothesis._replace(weights=None) for hypothesis in hypotheses] for hypotheses in found]
    return [
        [_aligned(engine, source, row, hypothesis, int(lengths[row])) for hypothesis in hypotheses]
        for row, hypotheses in enumerate(found)
    ]


def search_all(
    engine: Engine[Source, State], sources: list[list[int]], options: SearchOptions, *, max_tokens: int = 4096
) -> list[list[Hypothesis]]:
    """As ``search``, for any number of sources: cut into batches of similar length, order restored.

    ``max_tokens`` bounds a batch's source pieces, padding counted; a longer source makes a batch of its own.
    """
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for rows in batches_by_length([len(ids) for ids in sources], max_tokens=max_tokens):
        batch = [sources[row] for row in rows]
        for row, hypotheses in zip(rows, search(engine, batch, options), strict=True):
            found[row] = hypotheses
    return found


def batches_by_length(lengths: list[int], *, max_tokens: int) -> list[list[int]]:
    """Every index once, longest first, cut so that sentences × longest ≤ max_tokens in each batch.

    Longest first: what does not fit in memory fails at once, not after an hour.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def _hypotheses(history: History, endings: Endings, ranking: Ranking, sentences: int) -> list[list[Hypothesis]]:
    """The endings read out and ranked, a list for each sentence."""
    scores = ranking.scores(endings)
    tokens, weights = history.trace(endings)
    found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    for at in np.argsort(-scores, kind="stable"):
        found[endings.sentence[at]].append(
            Hypothesis(
                tokens=tokens[at],
                log_prob=float(endings.log_prob[at]),
                score=float(scores[at]),
                finished=bool(endings.finished[at]),
                weights=weights[at],
            )
        )
    return found


def _aligned(
    engine: Engine[Source, State], source: Source, row: int, hypothesis: Hypothesis, source_length: int
) -> Hypothesis:
    """The hypothesis with its alignment (T+1, S), the padding of the batch cut away."""
    if hypothesis.weights is None:
        return hypothesis
    return hypothesis._replace(alignment=engine.align(source, row, hypothesis.weights)[:, :source_length])
