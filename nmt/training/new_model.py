"""The model with which training starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nmt.attention.base import Attention
from nmt.errors import UserError
from nmt.inference.model_folder import TrainedModel, load_folder
from nmt.model.build import build_model, require_memory
from nmt.storage import read_checkpoint
from nmt.text.prepare import Prepared
from nmt.training.checkpoints import KEYS


def new_model(config: Mapping[str, Any], prepared: Prepared, *, checkpoint: Path | None = None) -> TrainedModel:
    """Return an untrained model for the prepared corpora, or one with the weights of ``init_from``.

    A resumed run restores its weights from ``checkpoint`` later and does not need ``init_from`` any more.
    """
    longest = int(prepared.corpora["train"].source_lengths.max()) + 1
    start = None
    if checkpoint is not None and config["init_from"] is not None:
        longest = read_checkpoint(checkpoint, keys=KEYS)["portable"].get("longest_source")
        if type(longest) is not int or not 1 <= longest < 2**31:
            raise UserError(f"{checkpoint}: cannot be resumed (longest_source={longest!r:.40}); start a new run")
    elif config["init_from"] is not None:
        start = load_folder(Path(config["init_from"]), trust=config["trust"], key="init_from")
        _refuse_other_tokenizer(start, prepared, config["init_from"])
        longest = start.longest_source
    sizes = {
        "source_vocabulary": len(prepared.source),
        "target_vocabulary": len(prepared.target),
        "longest_source": longest,
        "trust": config["trust"],
    }
    require_memory(config, **sizes)  # the vocabulary of prepared text is known only now
    model = build_model(config, **sizes)
    if start is not None:
        _copy_weights(model, start.model, config["init_from"])
    return TrainedModel(model, prepared.source, prepared.target, dict(config), longest)


def refuse_longer(attention: Attention, prepared: Prepared) -> None:
    """Raise UserError where a source of any part is longer than the attention can hold."""
    for part, corpus in prepared.corpora.items():
        lengths = corpus.source_lengths + 1  # </s>
        try:
            attention.check_length(torch.from_numpy(lengths))
        except ValueError as error:
            raise UserError(f"data.{part}: pair {int(lengths.argmax()) + 1}: {error}") from None


def _refuse_other_tokenizer(start: TrainedModel, prepared: Prepared, place: str) -> None:
    """Raise UserError where the text was encoded with another tokenizer than that of the model."""
    for side in ("source", "target"):
        if getattr(start, side).to_bytes() != getattr(prepared, side).to_bytes():
            raise UserError(
                f"init_from={place}: its {side} tokenizer is not that of the prepared text; "
                f"prepare the text with tokenizer.{side}_model={place}/data/{side}.model"
            )


def _copy_weights(model: torch.nn.Module, start: torch.nn.Module, place: str) -> None:
    try:
        model.load_state_dict(start.state_dict())
    except RuntimeError as error:
        reason = " ".join(str(error).split("\n")[1:2]).strip()
        raise UserError(
            f"init_from={place}: its model has other sizes or another attention ({reason[:160]}); "
            "remove the encoder, attention, decoder and embeddings settings to inherit them"
        ) from None
    # If this model shares a table that the other model has twice, one copy has overwritten the other.
    copied = model.state_dict()
    if not all(torch.equal(copied[name], weight) for name, weight in start.state_dict().items()):
        raise UserError(
            f"init_from={place}: its model has separate tables, but embeddings.shared=true or decoder.tied=true needs "
            "one; remove the embeddings and decoder settings to inherit them"
        )
