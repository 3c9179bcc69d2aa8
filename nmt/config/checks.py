"""Settings that are valid on their own but cannot be combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.config.overrides import flatten, name_problems, read_yaml
from nmt.data.sources import DataSettings, source_problems
from nmt.errors import UserError
from nmt.inference.run_files import CONFIG_FILE
from nmt.inference.scores import EvaluationSettings
from nmt.search.options import ALIGNING, SearchOptions
from nmt.settings.build import MODEL_GROUPS, build
from nmt.text.glossary import read_glossary
from nmt.text.sentences import splitter
from nmt.training.settings import Train

GOLD_LINKS = "nmt.training.guide.GoldLinks"


def conflicts(config: dict[str, Any], schema: type[Train]) -> Iterator[str]:
    """Yield one message for each combination of settings that no model or run can have.

    Every key of ``config`` must fit ``schema``. Encoder, attention, decoder, optimizer, schedule and data source are
    constructed, on the meta device where they hold weights, so that their own checks count too.
    """
    from nmt.model.build import size_problems
    from nmt.training.schedules import optimizer_problems

    refused = dict[str, Any]()
    for group, kind in (("search", SearchOptions), ("evaluation", EvaluationSettings)):
        try:
            kind(**config[group])
        except UserError as error:
            yield str(error)
            refused[group] = {}
    settings = build(schema, {**config, **refused})
    trust = settings.trust
    tokenizer = settings.tokenizer
    trains_tokenizers = isinstance(settings.data, DataSettings) and settings.init_from is None
    if trains_tokenizers and settings.embeddings.shared and not tokenizer.joint:
        yield "embeddings.shared=true: needs one vocabulary for both sides; give one tokenizer.vocab_size, or model"
    yield from name_problems(settings.name)
    yield from size_problems(settings, vocabulary=max(tokenizer.sizes), trust=trust)
    is_endless = (settings.training.max_epochs, settings.training.max_steps) == (None, None)
    yield from optimizer_problems(settings.optimizer, settings.schedule, is_endless=is_endless, trust=trust)
    yield from settings.training.conflicts()
    dropout = settings.batches.bpe_dropout
    if dropout is not None and tokenizer.kind != "bpe" and trains_tokenizers:
        yield f"batches.bpe_dropout={dropout}: {tokenizer.kind} pieces have no merges; remove it or set tokenizer=bpe"
    yield from _guide_conflicts(settings)
    yield from _adapt_conflicts(settings, config)
    yield from _search_conflicts(settings)
    if isinstance(settings.data, DataSettings) and not settings.resume:  # a resumed run has its own copy of the text
        yield from source_problems(settings.data, needed=("train", "valid"), trust=trust)


def _search_conflicts(settings: Train) -> Iterator[str]:
    """Yield the problems of the search options for the test set."""
    search = settings.search
    for setting in () if _reads_source(settings) else search.settings(ALIGNING):
        yield f"{setting}: a model without attention aligns no words; remove it or choose another attention"
    if search.n_best > 1:
        yield f"search.n_best={search.n_best}: only the best translation of the test set is written; remove it"
    for name, read in (("glossary", read_glossary), ("sentences", splitter)):
        if (value := getattr(search, name)) is not None:
            try:
                read(value)
            except UserError as error:
                yield f"search.{name}={str(error).removeprefix(f'search.{name}=')}"


def _reads_source(settings: Train) -> bool:
    from nmt.model.build import ATTENTION
    from nmt.settings.plugins import locate

    attention = locate(settings.attention["_target_"], ATTENTION, trust=settings.trust)
    return bool(getattr(attention, "reads_source", True))


def _guide_conflicts(settings: Train) -> Iterator[str]:
    """Yield the reasons for which the attention cannot be guided by the block ``guide``."""
    block = settings.guide
    dropout = settings.batches.bpe_dropout
    if block is None:
        return
    if dropout is not None and block["_target_"] == GOLD_LINKS:
        yield f"batches.bpe_dropout={dropout}: guide=links aligns the stored pieces; remove one of them"
    if not _reads_source(settings):
        yield f"guide={block['_target_']}: without attention there are no alignments; remove it or choose an attention"


def _adapt_conflicts(settings: Train, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons for which the model in ``init_from`` cannot be adapted as ``adapt`` says."""
    adapt = settings.adapt
    start = settings.init_from
    if adapt is None:
        return
    if start is None:
        yield "adapt: needs a trained model, whose matrices it updates; add init_from=FOLDER"
        return
    from nmt.model.adapter import adapt_problem
    from nmt.model.build import build_on_meta

    wanted = flatten(config)
    stored = flatten(read_yaml(Path(start) / CONFIG_FILE, f"init_from={start}"))
    for key in sorted({*stored, *wanted}):
        fixed = key.startswith(MODEL_GROUPS) and not key.endswith(".dropout")  # only in training
        if fixed and (now := wanted.get(key)) != stored.get(key):
            yield f"{key}={now}: differs from the model in init_from={start}, which an adapter cannot change; remove it"
            return
    size, target_size = settings.tokenizer.sizes
    sizes = {"source_vocabulary": size, "target_vocabulary": target_size, "longest_source": 8}
    try:
        model = build_on_meta(settings, **sizes, trust=settings.trust)
    except UserError:
        return  # reported already
    if problem := adapt_problem(model, rank=adapt.rank, parts=adapt.to):
        yield problem
