"""Train on prepared corpora and leave the best model in the run's folder."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import LearningRateMonitor
from pytorch_lightning.loggers import Logger
from pytorch_lightning.plugins.precision import Precision

from nmt.attention.base import Attention
from nmt.errors import UserError
from nmt.inference.model_folder import TrainedModel, choose_device, load_folder, save_folder
from nmt.inference.oversized import is_out_of_memory
from nmt.model.build import build_model, require_memory
from nmt.storage import read_checkpoint
from nmt.text.prepare import Prepared
from nmt.training.checkpoints import (
    KEYS,
    AtomicCheckpoints,
    BestCheckpoints,
    Diverged,
    EpochCheckpoints,
    LastCheckpoint,
    Stopped,
)
from nmt.training.data import CorpusBatches
from nmt.training.guide import build_guide
from nmt.training.metrics import MetricsFile, TensorBoardFiles
from nmt.training.module import TranslationTask
from nmt.training.optional import reason
from nmt.training.patience import Patience
from nmt.training.precision import Bfloat16
from nmt.training.progress import LiveProgress
from nmt.training.quiet import without_advice
from nmt.training.signals import stop_on_signal

CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"


class Fitted(NamedTuple):
    """The outcome of training, summed over all sessions of a resumed run.

    ``best`` is the best value of ``training.monitor``, ``kept`` the epoch (from 1) that reached it. ``early``: stopped
    by ``training.patience``. ``stop_signal``: the signal that stopped the run, which can be resumed.
    """

    trained: TrainedModel
    seconds: float
    tokens_per_s: float
    epochs: int
    updates: int
    best: float | None
    kept: int
    early: bool
    stop_signal: int | None


def fit(
    config: Mapping[str, Any], prepared: Prepared, folder: Path, *, resume: bool, tracker: Logger | None = None
) -> Fitted:
    """Train the model that ``config`` describes and write the best checkpoint as the model of ``folder``.

    Ctrl-C, SIGTERM and SIGHUP stop training after the current update; ``resume`` continues with the next one.
    """
    pl.seed_everything(config["seed"], workers=True, verbose=False)
    best = BestCheckpoints(folder / CHECKPOINTS, config["training"])
    limits = {"max_steps": config["training"]["max_steps"], "every": config["training"]["checkpoint_every"]}
    last = LastCheckpoint(folder / CHECKPOINTS / LAST, best, **limits)
    trained = new_model(config, prepared, checkpoint=last.path if resume else None)
    refuse_longer(trained.model.attention, prepared)
    guide = build_guide(config, prepared)
    progress = LiveProgress()
    patience = config["training"]["patience"]
    callbacks: list[pl.Callback] = [progress, best, last, LearningRateMonitor("epoch")]
    if (interval := config["training"]["keep_every_n_epochs"]) is not None:
        callbacks.append(EpochCheckpoints(folder / CHECKPOINTS, interval))
    if patience is not None:
        callbacks.append(Patience(best.monitor, mode=best.mode, patience=patience))
    with without_advice():
        trainer = _trainer(config, folder, callbacks, [] if tracker is None else [tracker])
    task = TranslationTask(trained, config=config, valid=prepared.corpora["valid"], guide=guide)
    data = CorpusBatches(
        prepared.corpora["train"],
        prepared.corpora["valid"],
        batches=config["batches"],
        seed=config["seed"],
        max_steps=config["training"]["max_steps"],
    )
    problem = None
    try:
        with without_advice(), stop_on_signal(last), contextlib.suppress(Stopped):
            trainer.fit(task, data, ckpt_path=last.path if resume else None, weights_only=True)
    except Diverged as error:
        problem = _explain_divergence(error, config)
    except Exception as error:
        if not resume or last.started or isinstance(error, UserError) or is_out_of_memory(error):
            raise
        raise UserError(f"{last.path}: cannot be resumed ({reason(error)}); start a new run") from error
    best.remove_replaced()  # also where the run was killed at its very end and trained nothing now
    kept = best.read(last.path, trained.model)
    if kept is None:
        raise UserError(problem or f"{last.path}: missing; start a new run")
    trained.model.load_state_dict(kept.weights)
    device = choose_device(config["device"])  # Lightning moves the model away after training
    trained = replace(trained, model=trained.model.to(device).eval())
    save_folder(folder, trained)
    if problem is not None:
        raise UserError(f"{problem}; the model of epoch {kept.epoch} is in {folder}")
    stopped = any(callback.stopped_epoch > 0 for callback in trainer.early_stopping_callbacks)
    early = stopped and not reached_limit(config["training"], trainer.current_epoch, trainer.global_step)
    return Fitted(
        trained,
        progress.elapsed,
        progress.tokens_per_s,
        trainer.current_epoch,
        trainer.global_step,
        kept.score,
        kept.epoch,
        early,
        last.stop_signal,
    )


def reached_limit(training: Mapping[str, Any], epochs: int, updates: int) -> bool:
    """Return whether a run that has made these epochs and updates ended by ``max_epochs`` or ``max_steps``."""
    return any(
        most is not None and made >= most
        for made, most in ((epochs, training["max_epochs"]), (updates, training["max_steps"]))
    )


def _explain_divergence(error: Diverged, config: Mapping[str, Any]) -> str:
    return (
        f"{error}: training cannot continue; lower optimizer.lr (now {config['optimizer'].get('lr')}), "
        "raise schedule.warmup_steps, or lower training.clip_norm"
    )


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


class _Trainer(pl.Trainer):
    """Lightning's trainer, except that SIGTERM does not stop it: ``LastCheckpoint`` does, after saving the run."""

    @property
    def received_sigterm(self) -> bool:
        return False


def _trainer(
    config: Mapping[str, Any], folder: Path, callbacks: list[pl.Callback], trackers: Sequence[Logger] = ()
) -> pl.Trainer:
    settings = config["training"]
    minutes = settings["max_minutes"]
    device = choose_device(config["device"])
    return _Trainer(
        accelerator="gpu" if device.type == "cuda" else "cpu",
        devices=[device.index or 0] if device.type == "cuda" else 1,
        max_epochs=settings["max_epochs"] or -1,
        max_time=None if minutes is None else datetime.timedelta(minutes=minutes),
        accumulate_grad_batches=config["batches"]["accumulate"],
        gradient_clip_val=settings["clip_norm"],
        callbacks=callbacks,
        plugins=[AtomicCheckpoints(), Bfloat16(device) if config["precision"] == "bf16" else Precision()],
        logger=[MetricsFile(folder), TensorBoardFiles(folder), *trackers],
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,  # a new order for each epoch
        num_sanity_val_steps=0,
        log_every_n_steps=20,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
