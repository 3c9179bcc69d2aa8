"""Lightning's trainer for the settings of a run, and training in bfloat16."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.callbacks import LearningRateMonitor
from pytorch_lightning.loggers import Logger
from pytorch_lightning.plugins.precision import Precision
from pytorch_lightning.strategies import DDPStrategy

from nmt.errors import UserError
from nmt.inference.model_folder import choose_device
from nmt.training.checkpoints import SafeCheckpoints
from nmt.training.distributed import environment, processes_per_node, rank, world_size
from nmt.training.logs import MetricsFile, without_advice
from nmt.training.settings import Train
from nmt.training.task import POINT_EVERY


def build_trainer(config: Train, folder: Path, callbacks: list[pl.Callback], logger: Logger | None) -> pl.Trainer:
    """Return the trainer of this process. Only rank 0 has loggers."""
    device = choose_device(config.device)
    loggers: list[Logger] = []
    if rank() == 0:
        loggers = [MetricsFile(folder), *([logger] if logger else [])]
        callbacks = [*callbacks, LearningRateMonitor("epoch")]
    if (launched := environment()) is None:
        placement: dict[str, Any] = {"devices": [device.index or 0] if device.type == "cuda" else 1}
    else:
        local = processes_per_node()
        placement = {"devices": local, "num_nodes": world_size() // local, "strategy": DDPStrategy()}
    precision = Bfloat16(device) if config.precision == "bf16" else Precision()
    with without_advice():
        return pl.Trainer(
            **placement,
            accelerator="gpu" if device.type == "cuda" else "cpu",
            max_epochs=config.training.max_epochs or -1,
            accumulate_grad_batches=config.batches.accumulate,
            gradient_clip_val=config.training.clip_norm,
            callbacks=callbacks,
            # Without an environment, Lightning takes any process of a Slurm job for one of several.
            plugins=[SafeCheckpoints(), precision, launched or LightningEnvironment()],
            logger=loggers,
            use_distributed_sampler=False,
            reload_dataloaders_every_n_epochs=1,  # a new order for each epoch
            num_sanity_val_steps=0,
            log_every_n_steps=POINT_EVERY,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )


class Bfloat16(Precision):
    """Lightning's bf16-mixed with fused optimizers, which Lightning forbids because of gradient scaling.

    bfloat16 needs no gradient scaling, so gradients can be clipped as usual.
    """

    precision: Literal["bf16-mixed"] = "bf16-mixed"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        # No cache of bfloat16 weights: entries from a validation without gradients would be used in training.
        with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False):
            yield


def check_bfloat16(config: Train) -> None:
    """Raise UserError if this CPU cannot train the model in bfloat16."""
    if any("LSTM" in block["_target_"] for block in (config.encoder, config.decoder)) and not has_bfloat16_lstm():
        raise UserError("precision=bf16: this CPU has no LSTM in bfloat16; remove precision=bf16")


def has_bfloat16_lstm() -> bool:
    """Return whether this CPU can run an LSTM in bfloat16. oneDNN needs AVX-512 for it."""
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            torch.nn.LSTM(8, 8)(torch.zeros(1, 1, 8))
    except RuntimeError:  # could not create a primitive descriptor
        return False
    return True
