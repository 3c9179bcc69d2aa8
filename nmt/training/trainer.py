"""Lightning's trainer with the settings of a run."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from pytorch_lightning.callbacks import LearningRateMonitor
from pytorch_lightning.loggers import Logger
from pytorch_lightning.plugins.precision import Precision
from pytorch_lightning.strategies import DDPStrategy

from nmt.inference.model_folder import choose_device
from nmt.training.checkpoints import AtomicCheckpoints
from nmt.training.interval import POINT_EVERY
from nmt.training.launch import Launch
from nmt.training.metrics import MetricsFile, TensorBoardFiles
from nmt.training.precision import Bfloat16
from nmt.training.ranks import current_launch, rank
from nmt.training.settings import Train


class _Trainer(pl.Trainer):
    """Lightning's trainer without its signal handlers: ``LastCheckpoint`` stops the run, after saving it.

    Lightning's handler of SIGTERM waits for the other processes inside the handler, and so for ever.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]


def build_trainer(
    config: Train, folder: Path, callbacks: list[pl.Callback], trackers: Sequence[Logger] = ()
) -> pl.Trainer:
    """Return the trainer of this process. Only rank 0 has loggers."""
    settings = config.training
    minutes = settings.max_minutes
    device = choose_device(config.device)
    launch = current_launch()
    environment = _environment(launch)
    loggers = [MetricsFile(folder), TensorBoardFiles(folder), *trackers] if rank() == 0 else []
    if launch is None:
        placement: dict[str, Any] = {"devices": [device.index or 0] if device.type == "cuda" else 1}
    else:
        placement = {"devices": launch.local_size, "num_nodes": launch.nodes, "strategy": DDPStrategy()}
    return _Trainer(
        **placement,
        accelerator="gpu" if device.type == "cuda" else "cpu",
        max_epochs=settings.max_epochs or -1,
        max_time=None if minutes is None else datetime.timedelta(minutes=minutes),
        accumulate_grad_batches=config.batches.accumulate,
        gradient_clip_val=settings.clip_norm,
        callbacks=[*callbacks, LearningRateMonitor("epoch")] if loggers else callbacks,
        plugins=[AtomicCheckpoints(), Bfloat16(device) if config.precision == "bf16" else Precision(), environment],
        logger=loggers,
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,  # a new order for each epoch
        num_sanity_val_steps=0,
        log_every_n_steps=POINT_EVERY,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def _environment(launch: Launch | None) -> ClusterEnvironment:
    """Return where Lightning finds the ranks.

    It would take any process of a Slurm job for one of several, and start the job again by itself.
    """
    if launch is None:
        return LightningEnvironment()
    return SLURMEnvironment(auto_requeue=False) if launch.launcher == "srun" else TorchElasticEnvironment()
