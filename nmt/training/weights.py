"""The weights of a run: of its new model, their moving average, and those that are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EMAWeightAveraging

from nmt.errors import SourceTooLong, UserError, print_message
from nmt.files.checkpoint import read_checkpoint
from nmt.inference.model_folder import (
    Base,
    TrainedModel,
    load_folder,
    model_fingerprint,
    save_adapter,
    save_folder,
)
from nmt.model.adapter import adapt, merge, updates
from nmt.model.build import build_model
from nmt.model.seq2seq import Seq2Seq
from nmt.settings.build import plain
from nmt.text.prepare import Prepared
from nmt.text.specials import EOS
from nmt.text.tokenizer import other_side
from nmt.training.checkpoints import KEYS
from nmt.training.settings import AdaptSettings, Train


def new_model(config: Train, prepared: Prepared, *, checkpoint: Path | None = None) -> TrainedModel:
    """Return an untrained model for the prepared corpora, or one with the weights of ``init_from``.

    With ``adapt`` these weights are frozen and have trainable low-rank updates. A resumed run restores what it trains
    from ``checkpoint`` later. It needs ``init_from`` for frozen weights only.
    """
    longest = prepared.corpora["train"].longest_source()[0] + 1
    start = base = None
    if (init_from := config.init_from) is not None:
        if config.adapt is not None:
            base = Base(Path(init_from), model_fingerprint(Path(init_from)))
        if checkpoint is None or base is not None:
            start = load_folder(Path(init_from), trust=config.trust, key="init_from")
            if side := other_side(start, prepared):
                raise UserError(
                    f"init_from={init_from}: its {side} tokenizer is not that of the prepared text; prepare the text "
                    f"again with tokenizer.model={init_from}/data/{side}.model"
                )
            for key in ("lowercase", "remove_invisible"):
                if base and (value := getattr(prepared, key)) != getattr(start.properties, key):
                    raise UserError(
                        f"data.{key}={value}: the model in init_from={init_from} reads other text; prepare it likewise"
                    )
            longest = start.longest_source
        else:
            longest = read_checkpoint(checkpoint, keys=KEYS)["longest_source"]
    vocabularies = {"source_vocabulary": len(prepared.source), "target_vocabulary": len(prepared.target)}
    model = build_model(config, **vocabularies, longest_source=longest, trust=config.trust)
    if start is not None:
        _copy_weights(model, start, config)
    trained = TrainedModel(
        model=model,
        source=prepared.source,
        target=prepared.target,
        config=stored_settings(config, prepared),
        longest_source=longest,
        base=base,
        single_sentences=prepared.pair_counts["train"].single_sentences,
        length_model=prepared.corpora["train"].length_model(),
    )
    if config.adapt is not None:
        _adapt(trained, config.adapt)
    return trained


def stored_settings(config: Train, prepared: Prepared) -> dict[str, Any]:
    """Return the settings as config.yaml and the model store them, with those of prepared text."""
    settings: dict[str, Any] = plain(replace(config, tokenizer=prepared.tokenizer))
    settings["data"] |= {"lowercase": prepared.lowercase, "remove_invisible": prepared.remove_invisible}
    return settings


def _adapt(trained: TrainedModel, settings: AdaptSettings) -> None:
    """Freeze the model and add updates to it, and print how many numbers are trained."""
    total = sum(weight.numel() for weight in trained.model.parameters())
    try:
        adapt(trained.model, rank=settings.rank, alpha=settings.alpha, parts=settings.to)
    except ValueError as error:
        raise UserError(str(error)) from None
    trainable = sum(weight.numel() for weight in trained.model.parameters() if weight.requires_grad)
    matrices = len(updates(trained.model))
    print_message(f"adapter: {trainable:,} parameters for {matrices} matrices; {total:,} parameters are frozen")


def save_model(folder: Path, trained: TrainedModel) -> TrainedModel:
    """Write the model, or the adapter, into ``folder`` and return the model with the adapter merged."""
    if trained.base is None:
        save_folder(folder, trained)
        return trained
    settings = trained.config["adapt"]
    save_adapter(folder, trained, rank=settings["rank"], alpha=settings["alpha"])
    merge(trained.model)
    return replace(trained, base=None)


@torch.no_grad()
def compare_lengths(model: Seq2Seq, prepared: Prepared) -> None:
    """Print how many training sources have more pieces than the memory has slots.

    Raises UserError where a source of any part is longer than the model can hold.
    """
    training = model.training
    model.eval()  # stretch_memory and nested_memory train with fewer slots
    for part, corpus in prepared.corpora.items():
        length, row = corpus.longest_source()
        ids = torch.full((1, length + 1), EOS)
        try:
            slots = model.encode(ids, ids > 0)[0].slots.shape[-2]
        except SourceTooLong as error:
            raise UserError(f"data.{part}: pair {row + 1}: {error}") from None
        longer = int((corpus.source_lengths + 1 > slots).sum())  # with </s>
        if part == "train" and longer and slots:
            print_message(
                f"train: {longer:,} of {len(corpus):,} sources have more pieces than the memory has slots, {slots}"
            )
    model.train(training)


def _copy_weights(model: torch.nn.Module, start: TrainedModel, config: Train) -> None:
    """Copy the weights of ``start``. Raises UserError if the models differ in more than their dropout."""
    before = start.model.state_dict()
    try:
        model.load_state_dict(before)
    except RuntimeError as error:
        raise UserError(
            f"init_from={config.init_from}: its weights do not fit this model ({str(error).splitlines()[1].strip()}); "
            "remove the settings of embeddings, encoder, attention and decoder to inherit its own"
        ) from None
    # If this model shares a table that the other model has twice, one copy has overwritten the other.
    copied = model.state_dict()
    if not all(torch.equal(copied[name], weight) for name, weight in before.items()):
        raise UserError(
            f"init_from={config.init_from}: its model has separate tables, but embeddings.shared=true or "
            "decoder.tied=true needs one; remove the embeddings and decoder settings to inherit them"
        )


class MovingAverage(EMAWeightAveraging):
    """Keeps the exponential moving average of the weights, which is validated and stored as the model.

    Checkpoints hold the average and the weights that training continues with.
    """

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Do nothing: the task translates after this, and must use the average too."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Continue with the weights of training. The callbacks that write checkpoints are called after this."""
        super().on_validation_epoch_end(trainer, pl_module)
