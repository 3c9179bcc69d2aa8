"""Entry points: ``search`` for one batch, ``search_encoded`` for memories; and batches of sentences by length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.search.beam import beam_search
from nmt.search.constraints import ConstrainedEngine, Prefix
from nmt.search.engine import Engine, Integers, Source, State
from nmt.search.greedy import greedy_search
from nmt.search.history import Endings, History, Hypothesis
from nmt.search.options import SearchOptions
from nmt.search.required import RequiredTexts
from nmt.search.sampling import sampling_search, sentence_seed
from nmt.search.scoring import Scorer

MAX_HYPOTHESES = 8192
"""Live hypotheses of a batch: each has a log-probability for every piece of the vocabulary."""


def search(
    engine: Engine[Source, State],
    sources: list[list[int]],
    options: SearchOptions,
    prefixes: Sequence[Prefix] | None = None,
    required: Sequence[RequiredTexts] | None = None,
) -> list[list[Hypothesis]]:
    """Translate all sources in one batch; return the hypotheses of each, best first, in the order of the sources.

    A source is a list of piece ids that ends in ``</s>``. Each gets between 1 and ``options.n_best`` hypotheses, or
    none if the engine's log-probabilities were not finite before any hypothesis ended. With ``options.keep_weights``,
    hypotheses carry read weights and alignment. A translation begins with its prefix; an empty one allows everything.
    With ``required``, each contains the texts of its source, or has no hypothesis; greedy search then has one per bank.
    Raises ValueError for a source without ids.
    """
    if not sources:
        return []
    lengths = np.array([len(ids) for ids in sources])
    if not lengths.all():
        raise ValueError(f"source {int(lengths.argmin())} is empty: it must end in </s>")
    seeds = [sentence_seed(ids) for ids in sources]
    return search_encoded(engine, engine.encode(sources), lengths, seeds, options, prefixes, required)


def search_encoded(
    engine: Engine[Source, State],
    source: Source,
    lengths: Integers,
    seeds: Sequence[int],
    options: SearchOptions,
    prefixes: Sequence[Prefix] | None = None,
    required: Sequence[RequiredTexts] | None = None,
) -> list[list[Hypothesis]]:
    """Search like ``search``, from encoded sources of ``lengths`` (B,). Only sampling uses ``seeds`` (B,)."""
    prefixes = prefixes or [()] * len(lengths)
    limits = options.limits(lengths) + np.array([len(prefix) for prefix in prefixes])  # every prefix is completed
    if options.no_repeat is not None or any(prefixes):
        constrained = ConstrainedEngine(engine, no_repeat=options.no_repeat, prefixes=prefixes)
        return _search(constrained, source, lengths, limits, seeds, options, required)
    return _search(engine, source, lengths, limits, seeds, options, required)


def _search(
    engine: Engine[Source, State],
    source: Source,
    lengths: Integers,
    limits: Integers,
    seeds: Sequence[int],
    options: SearchOptions,
    required: Sequence[RequiredTexts] | None,
) -> list[list[Hypothesis]]:
    history = History(keep_weights=options.keep_weights or options.coverage_penalty > 0)
    scorer = Scorer(options, history, lambda row, reads: engine.align(source, row, reads)[:, : lengths[row]])
    if required is not None:
        endings = beam_search(engine, source, limits, options, history, scorer, required)
    elif options.method == "greedy":
        endings = greedy_search(engine, source, limits, options, history)
    elif options.method == "beam":
        endings = beam_search(engine, source, limits, options, history, scorer)
    else:
        endings = sampling_search(engine, source, seeds, limits, options, history)
    hypotheses_of = _collect_hypotheses(history, endings, scorer, len(lengths), options)
    results = [
        # An unfinished hypothesis below the limit had no candidate with a finite log-probability.
        [hypothesis for hypothesis in hypotheses if hypothesis.finished or len(hypothesis.tokens) == limit]
        for limit, hypotheses in zip(limits, hypotheses_of, strict=True)
    ]
    if not options.keep_weights:
        return [[hypothesis._replace(weights=None) for hypothesis in hypotheses] for hypotheses in results]
    return [
        [_add_alignment(engine, source, row, hypothesis, int(lengths[row])) for hypothesis in hypotheses]
        for row, hypotheses in enumerate(results)
    ]


def max_rows(options: SearchOptions) -> int:
    """Return the number of sentences in a batch that together have at most ``MAX_HYPOTHESES`` hypotheses."""
    return max(1, MAX_HYPOTHESES // live_hypotheses(options))


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


def _collect_hypotheses(
    history: History, endings: Endings, scorer: Scorer, sentences: int, options: SearchOptions
) -> list[list[Hypothesis]]:
    """Return the endings as hypotheses, one list per sentence, best first; with groups, in the order of endings."""
    scores = scorer.score_endings(endings)
    traced = history.trace(endings)
    results: list[list[Hypothesis]] = [[] for _ in range(sentences)]
    for at in np.argsort(-scores, kind="stable") if options.groups == 1 else range(len(scores)):
        results[endings.sentence[at]].append(
            Hypothesis(
                tokens=traced[at].tokens,
                log_prob=float(endings.log_prob[at]),
                score=float(scores[at]),
                finished=bool(endings.finished[at]),
                token_log_probs=traced[at].log_probs,
                weights=traced[at].weights,
            )
        )
    if options.groups == 1:
        return results
    return [_without_repeats(hypotheses)[: options.n_best] for hypotheses in results]


def _without_repeats(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Return the hypotheses without those whose tokens an earlier one has, which another group has found."""
    first: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in hypotheses:
        first.setdefault(tuple(hypothesis.tokens), hypothesis)
    return [*first.values()]


def _add_alignment(
    engine: Engine[Source, State], source: Source, row: int, hypothesis: Hypothesis, source_length: int
) -> Hypothesis:
    """Return the hypothesis with its alignment (T+1, S), without the padding of the batch."""
    if hypothesis.weights is None:
        return hypothesis
    return hypothesis._replace(alignment=engine.align(source, row, hypothesis.weights)[:, :source_length])
