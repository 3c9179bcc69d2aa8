"""The thin Lightning shell around a plain Seq2Seq."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn import functional

from nmt.errors import UserError
from nmt.evaluation import corpus_scores
from nmt.inference.model_folder import TrainedModel, pack
from nmt.inference.translator import Translator
from nmt.kernels.output_loss import output_loss
from nmt.model.seq2seq import Seq2Seq
from nmt.search.options import SearchOptions
from nmt.text.batches import Batch
from nmt.text.corpus import Corpus
from nmt.training.metrics import MetricsFile
from nmt.training.schedules import inverse_sqrt, linear, warm_up


class TranslationTask(pl.LightningModule):
    """Cross-entropy training of ``trained.model``; validation by loss and by greedy translation."""

    def __init__(self, trained: TrainedModel, *, training: Mapping[str, Any], valid: Corpus) -> None:
        super().__init__()
        self.trained = trained
        self.model = trained.model
        self.settings = training
        count = training["decode_sentences"]
        self.sources = valid.sources()[:count]
        self.references = valid.targets()[:count]

    @staticmethod
    def loss(model: Seq2Seq, batch: Batch, *, smoothing: float) -> Tensor:
        """Mean negative log-likelihood of the real target pieces, in nats, smoothed with the uniform distribution."""
        features = model.features(batch.source, batch.source_mask, batch.target_in)
        return output_loss(model.decoder.output, features, batch.target_out, batch.target_mask, smoothing=smoothing)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Mean negative log-likelihood of the real target pieces, in nats, smoothed as the settings say."""
        loss = self.loss(self.model, batch, smoothing=self.settings["label_smoothing"])
        if not math.isfinite(loss.item()):
            raise UserError(
                f"loss is {loss.item()} at step {self.global_step}: training cannot go on; try a smaller training.lr "
                f"(now {self.settings['lr']:g}), more training.warmup_steps, or a smaller training.clip_norm"
            )
        self.log("train_loss", loss, batch_size=int(batch.target_mask.sum()), on_step=True, on_epoch=False)
        # Lightning divides by the batches of an update even where an epoch's last one has fewer.
        count, together = int(self.trainer.num_training_batches), self.trainer.accumulate_grad_batches
        rest = count % together
        return loss * (together / rest) if batch_idx >= count - rest else loss

    def validation_step(self, batch: Batch, _: int) -> None:
        """Loss, and the share of pieces that are the likeliest after the reference's own beginning."""
        # Padding never meets the output layer: P real target pieces, logits (P, V).
        features = self.model.features(batch.source, batch.source_mask, batch.target_in)[batch.target_mask]
        logits, pieces = self.model.decoder.output(features).float(), batch.target_out[batch.target_mask]
        values = {
            "valid_loss": functional.cross_entropy(logits, pieces),
            "valid_accuracy": (logits.argmax(1) == pieces).float().mean(),
        }
        self.log_dict(values, batch_size=len(pieces), on_step=False, on_epoch=True)

    def on_validation_epoch_end(self) -> None:
        if self.trainer.sanity_checking or not self.sources:
            return
        options = SearchOptions(beam_size=1, length_penalty=0.0)
        translator = Translator(self.trained)
        hypotheses = translator.texts(self.sources, options)
        scores = corpus_scores(hypotheses, self.references)
        self.log("valid_bleu", scores.bleu)
        self.log("valid_chrf", scores.chrf)

    def configure_optimizers(self) -> Any:
        settings = self.settings
        kind = torch.optim.AdamW if settings["optimizer"] == "adamw" else torch.optim.Adam
        optimizer = kind(
            self.model.parameters(),
            lr=settings["lr"],
            betas=tuple(settings["betas"]),
            weight_decay=settings["weight_decay"],
            fused=True,
        )
        if settings["schedule"] == "plateau":
            # Lower the rate when validation stands still; on_train_batch_start has warmed it up before.
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer,
                mode="min" if settings["monitor"] == "valid_loss" else "max",
                factor=settings["decay"],
                patience=settings["decay_patience"],
            )
            # By on_validation_end: Lightning leaves out the epoch in which a run is resumed.
            never = {"interval": "epoch", "frequency": settings["max_epochs"] + 1, "monitor": settings["monitor"]}
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, **never}}
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.shape(settings["warmup_steps"]))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_validation_end(self) -> None:
        """The step of the plateau schedule."""
        if self.settings["schedule"] == "plateau" and not self.trainer.sanity_checking:
            plateau: Any = self.trainer.lr_scheduler_configs[0].scheduler
            plateau.step(self.trainer.callback_metrics[self.settings["monitor"]])

    def on_train_start(self) -> None:
        """A resumed run makes the updates after its checkpoint again, and notes them again."""
        for logger in self.loggers:
            if isinstance(logger, MetricsFile):
                logger.forget(self.global_step)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """The warm-up of the plateau schedule, which itself only knows validations."""
        step, warmup_steps = self.global_step, self.settings["warmup_steps"]
        if self.settings["schedule"] == "plateau" and step < warmup_steps:
            for group in self.trainer.optimizers[0].param_groups:
                group["lr"] = self.settings["lr"] * warm_up(warmup_steps)(step)

    def shape(self, warmup_steps: int) -> Callable[[int], float]:
        """The factor of the base rate at each update."""
        if self.settings["schedule"] == "linear":
            return linear(warmup_steps, int(self.trainer.estimated_stepping_batches))
        return inverse_sqrt(warmup_steps) if self.settings["schedule"] == "inverse_sqrt" else warm_up(warmup_steps)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raises UserError where more epochs have begun than there are to be."""
        begun, wanted = checkpoint["epoch"] + 1, self.settings["max_epochs"]
        if begun > wanted:
            raise UserError(f"training.max_epochs={wanted}: epoch {begun} has begun already; give as many, or more")

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A checkpoint is a portable model too: what the model's folder holds travels with it."""
        portable = pack(self.trained)
        del portable["weights"]  # Lightning's state_dict has them
        checkpoint["portable"] = portable
