"""The Lightning module around a plain Seq2Seq."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrize import cached
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from nmt.errors import UserError
from nmt.inference.model_folder import TrainedModel
from nmt.inference.scores import corpus_scores
from nmt.inference.translator import Translator
from nmt.kernels.output_loss import CHUNK, output_loss
from nmt.search.options import SearchOptions
from nmt.text.batches import Batch
from nmt.text.corpus import Corpus
from nmt.training.checkpoints import Diverged
from nmt.training.distributed import gather, rank, sums, world_size
from nmt.training.guide import Guide
from nmt.training.logs import MetricsFile
from nmt.training.metrics import COLUMNS, LOSS, QUALITY, quality
from nmt.training.schedules import Plateau, build_optimizer, build_schedule
from nmt.training.settings import Train

POINT_EVERY = 20  # updates


class TranslationTask(pl.LightningModule):
    """Cross-entropy training of ``trained.model``, validated by its loss and by greedy translation.

    ``cached``: the updates of an adapted model are added to its weights once per step.
    """

    def __init__(self, trained: TrainedModel, *, config: Train, valid: Corpus, guide: Guide | None = None) -> None:
        super().__init__()
        self.trained = trained
        self.model = trained.model
        self.guide = guide
        self.config = config
        self.settings = config.training
        self.target_pieces = 0  # in the last batch, of all ranks together
        self.accumulated_pieces = 0  # since the last update
        # Sums since the last point of the curve, because a batch depends on the lengths of its sentences.
        self.interval: dict[str, float] = {"number": 0}
        count = self.settings.decode_sentences
        self.sources = valid.sources()[:count]
        self.references = valid.targets()[:count]

    def losses(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of a batch, and what it consists of; all are sums over the real target pieces.

        ``train_loss`` is the negative log-likelihood in nats, without the label smoothing of the loss.
        """
        if self.guide is None:
            features = self.model.features(batch.source, batch.source_mask, batch.target_in)
        else:
            features, guide_loss = self.guide.loss(self.model, batch)
        smoothing, output, real = self.settings.label_smoothing, self.model.decoder.output, batch.target_mask
        loss = output_loss(output, features, batch.target_out, real, smoothing=smoothing) * real.sum()
        parts = {"train_loss": loss.item()}
        if smoothing:
            parts["train_loss"] -= smoothing * _margin(output, features[real], batch.target_out[real])
        if self.guide is not None:
            parts["guide_loss"] = guide_loss.item()
            loss = loss + self.guide.weight * guide_loss
        return loss, parts

    @cached()
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of a batch, scaled so that ranks and accumulated batches give the joined gradient.

        That is the gradient of the sum of all losses, divided by the number of their target pieces.
        """
        loss, parts = self.losses(batch)
        pieces, *totals = sums([int(batch.target_mask.sum()), *parts.values()])
        if not math.isfinite(sum(totals)):
            raise Diverged(f"loss is {sum(totals) / pieces} at update {self.global_step}")
        self.target_pieces = int(pieces)
        self._log(dict(zip(parts, totals, strict=True)))
        if (batches := self.trainer.accumulate_grad_batches) == 1:
            return loss * (world_size() / pieces)  # DDP averages the gradients of the ranks
        self.accumulated_pieces += self.target_pieces
        return loss * (world_size() * batches)  # Lightning divides by the number of batches

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Divide the gradients of accumulated batches by the number of their pieces, before they are clipped."""
        if self.accumulated_pieces:
            gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
            torch._foreach_div_(gradients, self.accumulated_pieces)
            self.accumulated_pieces = 0

    def _log(self, totals: Mapping[str, float]) -> None:
        """Log the mean losses per piece since the last point of the curve."""
        number = self.global_step // POINT_EVERY
        if number != self.interval["number"]:
            self.interval = {"number": number}
        for name, total in {**totals, "pieces": self.target_pieces}.items():
            self.interval[name] = self.interval.get(name, 0.0) + total
        self.log_dict({name: self.interval[name] / self.interval["pieces"] for name in totals}, batch_size=1)

    @property
    def mean_loss(self) -> float:
        """The mean training loss per piece since the last point of the curve."""
        return self.interval["train_loss"] / self.interval["pieces"]

    @cached()
    def validation_step(self, batch: Batch, _: int) -> None:
        """Log the loss, and the share of pieces that the model ranks first, given the reference's prefix."""
        features = self.model.features(batch.source, batch.source_mask, batch.target_in)[batch.target_mask]
        pieces = batch.target_out[batch.target_mask]
        output = self.model.decoder.output
        totals = torch.zeros(2, device=features.device)  # loss, and pieces that are ranked first
        rows = max(1, CHUNK // output.out_features)  # of logits in memory at a time, as in training
        for inputs, targets in zip(torch.split(features, rows), torch.split(pieces, rows), strict=True):
            logits = output(inputs).float()
            first = (logits.argmax(1) == targets).sum()
            totals += torch.stack([functional.cross_entropy(logits, targets, reduction="sum"), first])
        values = dict(zip((LOSS, "valid_accuracy"), totals / len(pieces), strict=True))
        self.log_dict(values, batch_size=len(pieces), on_step=False, on_epoch=True, sync_dist=True)

    @cached()
    def on_validation_epoch_end(self) -> None:
        """Translate the first validation sentences and score them. Raises Diverged if a loss was not finite."""
        loss = float(self.trainer.callback_metrics[LOSS])
        if not math.isfinite(loss):
            raise Diverged(f"{LOSS} is {loss} after update {self.global_step}")
        if self.sources:
            shares = gather(self._translate(self.sources[rank() :: world_size()]))
            hypotheses = [shares[row % len(shares)][row // len(shares)] for row in range(len(self.sources))]
            scores = corpus_scores(hypotheses, self.references, tokenizer=self.config.evaluation.tokenizer)
            self.log_dict({"valid_bleu": scores.bleu, "valid_chrf": scores.chrf}, sync_dist=True)
        merit = quality(self.trainer.callback_metrics, self.settings.monitor)
        self.log(QUALITY, merit, logger=False, sync_dist=True)

    def _translate(self, sources: list[str]) -> list[str]:
        return Translator(self.trained, check_text=False).texts(sources, SearchOptions(beam_size=1, length_penalty=0.0))

    def configure_optimizers(self) -> Any:
        """Return the configured optimizer and schedule in Lightning's form."""
        parameters = [weight for weight in self.model.parameters() if weight.requires_grad]
        config = self.config
        optimizer = build_optimizer(config.optimizer, parameters, trust=config.trust)
        # Lightning's own estimate sets the data loader up before the checkpoint is restored.
        total = self.trainer.datamodule.total_updates()  # type: ignore[attr-defined]
        schedule = build_schedule(config.schedule, optimizer, total, trust=config.trust)
        when: dict[str, Any] = {"interval": "step"}
        if isinstance(schedule, ReduceLROnPlateau):
            # Lightning would skip the epoch in which a run is resumed, so on_validation_end calls step() instead.
            when = {"interval": "epoch", "frequency": sys.maxsize, "monitor": QUALITY}
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, **when}}

    @property
    def schedule(self) -> Any:
        return self.trainer.lr_scheduler_configs[0].scheduler

    def on_validation_end(self) -> None:
        """Step the schedules that count validations; an epoch has one, at its end."""
        if isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(self.trainer.callback_metrics[QUALITY])

    def on_train_start(self) -> None:
        """Drop the metrics of updates after the checkpoint: a resumed run repeats them."""
        for logger in self.loggers:
            if isinstance(logger, MetricsFile):
                logger.forget(self.global_step)
        self.trainer.should_stop |= self._is_complete

    @property
    def _is_complete(self) -> bool:
        """Whether ``max_steps`` updates are made. Lightning's own limit repeats the end of an epoch on resume."""
        return self.settings.max_steps is not None and self.global_step >= self.settings.max_steps

    def on_train_epoch_end(self) -> None:
        """Move to the next epoch. Lightning calls this before the callbacks that write checkpoints."""
        self.trainer.datamodule.end_epoch(self.global_step)  # type: ignore[attr-defined]
        self.trainer.should_stop |= self._is_complete

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        if isinstance(self.schedule, Plateau):
            self.schedule.warm_up(self.global_step)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raise UserError if the base of an adapter has changed."""
        self.interval = checkpoint["interval"]
        if checkpoint["init_from"] != self._base:
            raise UserError("init_from: its model has changed since the run started; start a new run")

    @property
    def _base(self) -> str | None:
        """The fingerprint of the base of an adapter."""
        return None if self.trained.base is None else self.trained.base.fingerprint

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        metrics = self.trainer.callback_metrics
        checkpoint["metrics"] = {name: float(value) for name, value in metrics.items() if name in COLUMNS}
        checkpoint["interval"] = self.interval
        checkpoint["longest_source"] = self.trained.longest_source
        checkpoint["init_from"] = self._base


@torch.no_grad()
def _margin(layer: nn.Linear, features: Tensor, pieces: Tensor) -> float:
    """Return Σ (logit of the piece − mean logit): label smoothing ε raises the sum of the losses by ε times this.

    features (N, F) are the inputs of ``layer``, and pieces (N,).
    """
    features = features.to(layer.weight.dtype)
    margin = (features * (layer.weight[pieces] - layer.weight.mean(0))).sum()
    if layer.bias is not None:
        margin += (layer.bias[pieces] - layer.bias.mean()).sum()
    return margin.item()
