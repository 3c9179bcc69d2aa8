"""The model that a run trains, before its first update and after its last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nmt.attention.base import Attention
from nmt.errors import UserError, print_message
from nmt.files.checkpoint import read_checkpoint
from nmt.inference.adapter_file import Base, model_fingerprint, save_adapter
from nmt.inference.model_folder import TrainedModel, load_folder, save_folder
from nmt.model.adapter import adapt, merge, updates
from nmt.model.build import build_model, require_memory
from nmt.model.needed_memory import numbers_per_weight
from nmt.settings.build import plain
from nmt.text.prepare import Prepared
from nmt.training.checkpoints import KEYS
from nmt.training.groups import AdaptSettings
from nmt.training.ranks import rank
from nmt.training.settings import Train


def new_model(config: Train, prepared: Prepared, *, checkpoint: Path | None = None) -> TrainedModel:
    """Return an untrained model for the prepared corpora, or one with the weights of ``init_from``.

    With ``adapt`` these weights are frozen and have trainable low-rank updates. A resumed run restores what it trains
    from ``checkpoint`` later. It needs ``init_from`` for frozen weights only.
    """
    longest, base = prepared.corpora["train"].longest_source()[0] + 1, None
    start, place, adapted = None, config.init_from, config.adapt
    if place is not None and adapted is not None:
        base = Base(Path(place), model_fingerprint(Path(place)))  # before loading: the file may be replaced meanwhile
    if checkpoint is not None and place is not None:
        longest = _resumed(checkpoint, base)
    if place is not None and (checkpoint is None or base is not None):
        start = load_folder(Path(place), trust=config.trust, key="init_from")
        _refuse_other_tokenizer(start, prepared, place)
        longest = start.longest_source
    sizes: dict[str, Any] = {
        "source_vocabulary": len(prepared.source),
        "target_vocabulary": len(prepared.target),
        "longest_source": longest,
        "trust": config.trust,
    }
    copies = numbers_per_weight(config.optimizer, config.device, frozen=adapted is not None)
    require_memory(config, copies, **sizes)  # the vocabulary of prepared text is known only now
    model = build_model(config, **sizes)
    if start is not None and place is not None:
        _copy_weights(model, start.model, place)
    trained = TrainedModel(
        model=model,
        source=prepared.source,
        target=prepared.target,
        config=stored_settings(config, prepared),
        longest_source=longest,
        base=base,
    )
    if adapted is not None:
        _adapt(trained, adapted, announce=checkpoint is None and rank() == 0)
    return trained


def stored_settings(config: Train, prepared: Prepared) -> dict[str, Any]:
    """Return the settings as config.yaml and the model store them, with those of prepared text."""
    settings: dict[str, Any] = plain(replace(config, tokenizer=prepared.tokenizer))
    settings["data"] |= {"lowercase": prepared.lowercase, "remove_invisible": prepared.remove_invisible}
    return settings


def _resumed(checkpoint: Path, base: Base | None) -> int:
    """Return the ``longest_source`` of a resumed run. Raises UserError if the model that it adapts has changed."""
    portable = read_checkpoint(checkpoint, keys=KEYS)["portable"]
    longest = portable.get("longest_source")
    if type(longest) is not int or not 1 <= longest < 2**31:
        raise UserError(f"{checkpoint}: cannot be resumed (longest_source={longest!r:.40}); start a new run")
    if base is not None and portable.get("base") != base.fingerprint:
        raise UserError(f"init_from={base.folder}: its model has changed since the run started; start a new run")
    return longest


def _adapt(trained: TrainedModel, settings: AdaptSettings, *, announce: bool) -> None:
    """Freeze the model and add updates to it, and print how many numbers are trained."""
    total = sum(weight.numel() for weight in trained.model.parameters())
    try:
        adapt(trained.model, rank=settings.rank, alpha=settings.alpha, parts=settings.to)
    except ValueError as error:
        raise UserError(str(error)) from None
    trainable = sum(weight.numel() for weight in trained.model.parameters() if weight.requires_grad)
    if announce:
        matrices = len(updates(trained.model))
        print_message(f"adapter: {trainable:,} parameters for {matrices} matrices; {total:,} parameters are frozen")


def save_model(folder: Path, trained: TrainedModel) -> TrainedModel:
    """Write the model, or the adapter, into ``folder`` and return the model with the adapter merged."""
    if trained.base is None:
        save_folder(folder, trained)
        return trained
    settings = trained.config["adapt"]
    save_adapter(folder, trained.model, trained.base, rank=settings["rank"], alpha=settings["alpha"])
    merge(trained.model)
    return replace(trained, base=None)


def refuse_longer(attention: Attention, prepared: Prepared) -> None:
    """Raise UserError where a source of any part is longer than the attention can hold."""
    for part, corpus in prepared.corpora.items():
        length, row = corpus.longest_source()
        try:
            attention.check_length(torch.tensor([length + 1]))  # </s>
        except ValueError as error:
            raise UserError(f"data.{part}: pair {row + 1}: {error}") from None


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
