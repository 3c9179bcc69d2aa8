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
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from nmt.errors import UserError
from nmt.inference.model_folder import TrainedModel
from nmt.inference.scores import choose_tokenizer, corpus_scores
from nmt.inference.translator import Translator
from nmt.kernels.output_loss import CHUNK, output_loss
from nmt.search.options import SearchOptions
from nmt.text.batches import Batch
from nmt.text.corpus import Corpus
from nmt.training.checkpoints import Diverged
from nmt.training.distributed import gather, rank, sums, world_size
from nmt.training.guide import Guide
from nmt.training.logs import MetricsFile
from nmt.training.metrics import COLUMNS, QUALITY, quality
from nmt.training.optimizers import REFUSALS, build_optimizer, build_schedule
from nmt.training.schedules import Plateau
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
        self.divergence: str | None = None  # of a validation; all ranks raise it together
        self.target_pieces = 0  # in the last batch, of all ranks together
        self.accumulated_pieces = 0  # since the last update
        # Sums since the last point of the curve, because a batch depends on the lengths of its sentences.
        self.interval: dict[str, float] = {"number": 0}
        count = self.settings.decode_sentences
        self.sources = valid.sources()[:count]
        self.references = valid.targets()[:count]
        self.tokenizer = choose_tokenizer(self.references, config.evaluation.tokenizer).tokenizer

    def losses(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of a batch, and what it consists of; all are sums over the real target pieces.

        ``train_loss`` is the negative log-likelihood in nats, without the label smoothing of the loss. ``guide_loss``
        is included while the guide's weight is above 0.
        """
        weight = 0.0 if self.guide is None else self.guide.weight_at(self.global_step)
        if self.guide is None or not weight:
            features, guide_loss = self.model.features(batch.source, batch.source_mask, batch.target_in), None
        else:
            features, guide_loss = self.guide.loss(self.model, batch)
        smoothing = self.settings.label_smoothing
        targets = (batch.target_out, batch.target_mask)
        loss = output_loss(self.model.decoder.output, features, *targets, smoothing=smoothing)
        loss = loss * batch.target_mask.sum()
        parts = {"train_loss": loss.item()}
        if smoothing:
            real = batch.target_mask
            parts["train_loss"] -= smoothing * _margin(
                self.model.decoder.output, features[real], batch.target_out[real]
            )
        if guide_loss is not None:
            parts["guide_loss"] = guide_loss.item()
            loss = loss + weight * guide_loss
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
        """Log the loss and the accuracy of a batch."""
        values, count = self.validation_values(batch)
        if not math.isfinite(loss := values["valid_loss"].item()):
            self.divergence = f"valid_loss is {loss} after update {self.global_step}"
        self.log_dict(values, batch_size=count, on_step=False, on_epoch=True, sync_dist=True)

    def validation_values(self, batch: Batch) -> tuple[dict[str, Tensor], int]:
        """Return the loss, the share of pieces that the model ranks first, and the number of target pieces.

        The model is given the reference's prefix.
        """
        # The output layer skips padding, and has the logits of some target pieces in memory at a time, as in training.
        features = self.model.features(batch.source, batch.source_mask, batch.target_in)[batch.target_mask]
        pieces = batch.target_out[batch.target_mask]
        output = self.model.decoder.output
        rows = max(1, CHUNK // output.out_features)
        loss = torch.zeros((), device=features.device)
        first = torch.zeros((), device=features.device)
        for some_features, some_pieces in zip(torch.split(features, rows), torch.split(pieces, rows), strict=True):
            logits = output(some_features).float()
            loss += functional.cross_entropy(logits, some_pieces, reduction="sum")
            first += (logits.argmax(1) == some_pieces).sum()
        return {"valid_loss": loss / len(pieces), "valid_accuracy": first / len(pieces)}, len(pieces)

    @cached()
    def on_validation_epoch_end(self) -> None:
        """Translate the first validation sentences and score them. Raises Diverged if a loss was not finite."""
        if problem := next(filter(None, gather(self.divergence)), None):
            raise Diverged(problem)
        if self.sources:
            shares = gather(self._translate(self.sources[rank() :: world_size()]))
            hypotheses = [shares[row % len(shares)][row // len(shares)] for row in range(len(self.sources))]
            self.log_dict(self._scores(hypotheses), sync_dist=True)
        merit = quality(self.trainer.callback_metrics, self.settings.monitor)
        self.log(QUALITY, merit, logger=False, sync_dist=True)

    def translation_scores(self) -> dict[str, float]:
        """Return ``valid_bleu`` and ``valid_chrf``, which this process alone computes."""
        return self._scores(self._translate(self.sources)) if self.sources else {}

    def _translate(self, sources: list[str]) -> list[str]:
        return Translator(self.trained, check_text=False).texts(sources, SearchOptions(beam_size=1, length_penalty=0.0))

    def _scores(self, hypotheses: list[str]) -> dict[str, float]:
        scores = corpus_scores(hypotheses, self.references, tokenizer=self.tokenizer)
        return {"valid_bleu": scores.bleu, "valid_chrf": scores.chrf}

    def configure_optimizers(self) -> Any:
        """Return the configured optimizer and schedule in Lightning's form."""
        parameters = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = build_optimizer(self.config, parameters)
        # Lightning's own estimate sets the data loader up before the checkpoint is restored.
        schedule = build_schedule(self.config, optimizer, self.trainer.datamodule.total_updates)  # type: ignore[attr-defined]
        if self._steps_every_update(schedule):
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
        # Lightning would skip the epoch in which a run is resumed, so on_validation_end calls step() instead.
        never = {"interval": "epoch", "frequency": sys.maxsize, "monitor": QUALITY}
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, **never}}

    def _steps_every_update(self, schedule: LRScheduler) -> bool:
        interval = self.config.schedule.interval
        return interval == "update" and not isinstance(schedule, ReduceLROnPlateau)

    @property
    def schedule(self) -> Any:
        return self.trainer.lr_scheduler_configs[0].scheduler

    def on_validation_end(self) -> None:
        """Step the schedules that count validations or epochs; an epoch has one validation, at its end."""
        if not self._steps_every_update(self.schedule):
            self.lr_scheduler_step(self.schedule, self.trainer.callback_metrics[QUALITY])

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Step the schedule. Raises UserError if the schedule ends before the run."""
        try:
            scheduler.step(metric) if isinstance(scheduler, ReduceLROnPlateau) else scheduler.step()
        except REFUSALS as error:
            target = self.config.schedule.block["_target_"]
            raise UserError(f"schedule: {target} fails at update {self.global_step}: {error}") from error

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
        """Raise UserError where the checkpoint is beyond ``max_epochs`` or ``max_steps``, or of another base."""
        self.interval = checkpoint["interval"]
        base = self.trained.base
        if base is not None and checkpoint["base"] != base.fingerprint:
            raise UserError(f"init_from={base.folder}: its model has changed since the run started; start a new run")
        for key, reached in (("max_epochs", checkpoint["epoch"] + 1), ("max_steps", checkpoint["global_step"])):
            limit = getattr(self.settings, key)
            if limit is not None and reached > limit:
                raise UserError(
                    f"training.{key}={limit}: the run has already reached {reached}; give {reached} or more"
                )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        metrics = self.trainer.callback_metrics
        checkpoint["metrics"] = {name: float(value) for name, value in metrics.items() if name in COLUMNS}
        checkpoint["interval"] = self.interval
        checkpoint["longest_source"] = self.trained.longest_source
        checkpoint["base"] = None if self.trained.base is None else self.trained.base.fingerprint


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
