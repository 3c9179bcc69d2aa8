"""Settings that are each fine and cannot go together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.plugins import setting
from nmt.search.options import SearchOptions


def impossible(config: Mapping[str, Any]) -> Iterator[str]:
    """One text for each pair of settings that no model or run can have."""
    made = config["data"]["kind"] != "prepared" and config["init_from"] is None  # else tokenizers are there already
    if made and config["embeddings"]["shared"] and not config["tokenizer"]["joint"]:
        yield "embeddings.shared=true: needs one vocabulary for both sides; set tokenizer.joint=true"
    name = config["name"]
    if name.strip() in ("", "..") or Path(name).name != name:
        yield f"name={name}: must be a folder's name, such as name=mine; runs=FOLDER says which folder it lies in"
    yield from _unequal(config)
    if len(config["training"]["betas"]) != 2:
        yield f"training.betas={config['training']['betas']}: must be two numbers"
    monitor = config["training"]["monitor"]
    if monitor in ("valid_bleu", "valid_chrf") and not config["training"]["decode_sentences"]:
        yield (
            f"training.decode_sentences=0: training.monitor={monitor} needs translations to score; "
            "translate some, or set training.monitor=valid_loss"
        )
    yield from unread_models(config["tokenizer"])
    yield from _unsearchable(config["search"], config["attention"])
    if config["data"]["kind"] == "text":
        yield from unnamed_files(config["data"], needed=("train", "valid"))
        yield from _missing_files(config["data"])


def _unequal(config: Mapping[str, Any]) -> Iterator[str]:
    """One text for each two sizes of a model that do not fit; a class of one's own may have no such sizes."""
    trust, attention = config["trust"], config["attention"]
    states, query = (setting(config[part], "hidden_size", trust=trust) for part in ("encoder", "decoder"))
    if query is None:
        yield f"decoder._target_={config['decoder']['_target_']}: must have a hidden_size, which attention is built for"
    if states is not None and states % 2 and setting(config["encoder"], "bidirectional", trust=trust):
        yield f"encoder.hidden_size={states}: must be even, each direction takes one half"
    if attention.get("score") == "dot" and None not in (states, query) and states != query:
        yield (
            f"attention.score=dot: compares states of equal size, but encoder.hidden_size={states} and "
            f"decoder.hidden_size={query}; make them equal or use attention.score=general"
        )
    if heads := attention.get("heads"):
        for part, size in (("encoder", states), ("decoder", query)):
            if size is not None and size % heads:
                yield f"attention.heads={heads}: must divide {part}.hidden_size={size}"


def unnamed_files(data: Mapping[str, Any], *, needed: Collection[str]) -> Iterator[str]:
    """One text for each file that is not named, of a part that is ``needed`` or of which another file is named."""
    for part in ("train", "valid", "test"):
        wanted = part in needed or any(data[part].get(file) is not None for file in ("src", "tgt", "links"))
        for side in ("src", "tgt"):
            if wanted and data[part][side] is None:
                yield f"data.{part}.{side}=null: must be given, as data.{part}.{side}=FILE"


def unread_models(tokenizer: Mapping[str, Any]) -> Iterator[str]:
    """One text for a SentencePiece model of the target side where one serves both sides."""
    if tokenizer["joint"] and tokenizer["target_model"] is not None:
        yield (
            f"tokenizer.target_model={tokenizer['target_model']}: one vocabulary for both sides is "
            "tokenizer.source_model's; leave it away, or set tokenizer.joint=false"
        )


def _unsearchable(search: Mapping[str, Any], attention: Mapping[str, Any]) -> Iterator[str]:
    """One text for what would stop the translation of the test set, after all of training."""
    try:
        options = SearchOptions(**search)
    except UserError as error:
        yield str(error)
        return
    if options.coverage_penalty and attention["_target_"].endswith(".NoAttention"):
        yield (
            f"search.coverage_penalty={options.coverage_penalty:g}: a model without attention covers nothing; "
            "leave it away, or choose another attention"
        )


def _missing_files(data: Mapping[str, Any]) -> Iterator[str]:
    for part in ("train", "valid", "test"):
        for side in ("src", "tgt"):
            file = data[part][side]
            if file is not None and not Path(file).is_file():
                yield f"data.{part}.{side}={file}: {'a folder, not a file' if Path(file).is_dir() else 'no such file'}"
