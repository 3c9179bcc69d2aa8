"""Settings that are valid on their own but cannot be combined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config.init_from import read_yaml, value_at
from nmt.errors import UserError
from nmt.evaluation import EvaluationSettings
from nmt.inference.run_files import CONFIG_FILE
from nmt.search.options import SearchOptions
from nmt.tasks.sources import is_prepared, source_problems

GOLD_LINKS = "nmt.training.gold_links.GoldLinks"
MODEL_BLOCKS = ("embeddings", "encoder", "attention", "decoder")


def conflicts(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield one message for each combination of settings that no model or run can have.

    Every key of ``config`` must be valid on its own. Encoder, attention, decoder, optimizer, schedule and data source
    are constructed, on the meta device where they hold weights, so that their own checks count too.
    """
    from nmt.model.build import size_problems
    from nmt.training.optimizers import optimizer_problems

    trust = config["trust"]
    trains_tokenizers = not is_prepared(config["data"]) and config["init_from"] is None
    if trains_tokenizers and config["embeddings"]["shared"] and not config["tokenizer"]["joint"]:
        yield "embeddings.shared=true: needs one vocabulary for both sides; set tokenizer.joint=true"
    name = config["name"]
    if name.strip() in ("", "..") or Path(name).name != name:
        yield f"name={name}: must be the name of a folder, such as name=mine; use runs=FOLDER for its parent"
    yield from size_problems(config, trust=trust)
    yield from optimizer_problems(config, trust=trust)
    monitor = config["training"]["monitor"]
    if monitor in ("valid_bleu", "valid_chrf") and not config["training"]["decode_sentences"]:
        yield (
            f"training.decode_sentences=0: training.monitor={monitor} needs translations; "
            "set training.decode_sentences=200 or training.monitor=valid_loss"
        )
    endless = ("max_epochs", "max_steps", "max_minutes", "patience")
    if all(config["training"][key] is None for key in endless):
        yield "training.max_epochs=null: training would never end; set training.max_steps or training.max_epochs"
    if config.get("logger") is not None:
        from nmt.training.tracker import tracker_problems

        yield from tracker_problems(config)
    yield from tokenizer_conflicts(config["tokenizer"])
    dropout, kind = config["batches"].get("bpe_dropout"), config["tokenizer"]["kind"]
    if dropout is not None and kind != "bpe" and trains_tokenizers:
        yield f"batches.bpe_dropout={dropout}: {kind} pieces have no merges; remove it or set tokenizer=bpe"
    yield from _guide_conflicts(config)
    yield from _adapt_conflicts(config)
    yield from _search_conflicts(config)
    try:
        EvaluationSettings(**config["evaluation"])
    except UserError as error:
        yield str(error)
    if not is_prepared(config["data"]):
        yield from source_problems(config["data"], needed=("train", "valid"), trust=trust)


def tokenizer_conflicts(tokenizer: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message where a joint vocabulary is given a model for the target side only, or a size for one side."""
    for key in ("source_vocab_size", "target_vocab_size"):
        if tokenizer["joint"] and (size := tokenizer.get(key)) is not None:
            yield (
                f"tokenizer.{key}={size}: a joint vocabulary has one size; set tokenizer.vocab_size={size}, or "
                "tokenizer.joint=false"
            )
    if tokenizer["joint"] and tokenizer["target_model"] is not None:
        yield (
            f"tokenizer.target_model={tokenizer['target_model']}: a joint vocabulary reads tokenizer.source_model "
            "only; remove tokenizer.target_model or set tokenizer.joint=false"
        )


def _guide_conflicts(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the attention cannot be guided by the block ``guide``."""
    block = config.get("guide")
    if block is None:
        return
    from nmt.model.build import ATTENTION
    from nmt.plugins import locate
    from nmt.training.guide import guide_problems

    attention = locate(config["attention"]["_target_"], ATTENTION, trust=config["trust"])
    dropout = config["batches"].get("bpe_dropout")
    if dropout is not None and block["_target_"] == GOLD_LINKS:
        yield f"batches.bpe_dropout={dropout}: guide=links aligns the stored pieces; remove one of them"
    if not getattr(attention, "reads_source", True):
        yield f"guide={block['_target_']}: without attention there are no alignments; remove it or choose an attention"
    yield from guide_problems(block, trust=config["trust"])


def _adapt_conflicts(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the model in ``init_from`` cannot be adapted as the block ``adapt`` says."""
    block, start = config.get("adapt"), config["init_from"]
    if block is None:
        return
    if start is None:
        yield "adapt: updates the matrices of a trained model; add init_from=FOLDER"
        return
    from nmt.model.adapter import adapt_problem
    from nmt.model.build import build_on_meta

    changed = sorted(_differences(config, read_yaml(Path(start) / CONFIG_FILE, f"init_from={start}")))
    if changed:
        yield f"{changed[0]}: differs from the model in init_from={start}, which an adapter cannot change; remove it"
        return
    try:
        model = build_on_meta(config, trust=config["trust"])
    except UserError:
        return  # reported already
    if problem := adapt_problem(model, rank=block["rank"], parts=block["to"]):
        yield problem


def _differences(config: Any, start: Any, keys: Sequence[str] = (*MODEL_BLOCKS, "data.lowercase")) -> Iterator[str]:
    """Yield each of the dotted ``keys``, or of the keys below them, that has another value in ``start``.

    Dropout may differ, because it is only used in training.
    """
    for key in keys:
        now, before = value_at(config, key), value_at(start, key)
        if isinstance(now, Mapping) and isinstance(before, Mapping):
            yield from _differences(config, start, [f"{key}.{name}" for name in {**before, **now}])
        elif now != before and key.rpartition(".")[2] != "dropout":
            yield f"{key}={now}"


def _search_conflicts(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what would stop the translation of the test set, at the end of training."""
    from nmt.model.build import ATTENTION
    from nmt.plugins import locate

    try:
        options = SearchOptions(**config["search"])
    except UserError as error:
        yield str(error)
        return
    attention = locate(config["attention"]["_target_"], ATTENTION, trust=config["trust"])
    if options.coverage_penalty and not getattr(attention, "reads_source", True):
        yield (
            f"search.coverage_penalty={options.coverage_penalty:g}: a model without attention covers nothing; "
            "remove it or choose another attention"
        )
