"""A whole training run as one function: prepare the text, train, evaluate, and leave everything in one folder."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pytorch_lightning.loggers import Logger

from nmt.data.sources import PreparedData, load_pairs, pairs_from_python
from nmt.errors import UserError, counted, print_message, reason
from nmt.files.atomic import lock_folder, remove_leftovers
from nmt.inference.model_folder import TrainedModel, choose_device, load_folder
from nmt.inference.run_files import CHECKPOINTS
from nmt.kernels.process import flushed_denormals, keep_freed_memory
from nmt.settings.build import plain
from nmt.system.machine import is_out_of_memory, torch_threads
from nmt.text.prepare import Prepared, open_prepared, piece_lines, prepare, reading_problems
from nmt.text.tokenizer import Tokenizer
from nmt.training.distributed import rank, world_size
from nmt.training.fit import Fitted, check_bfloat16, fit
from nmt.training.logs import build_logger, finish, warn
from nmt.training.metrics import NEAR_ZERO, PERCENT
from nmt.training.provenance import device_name, provenance
from nmt.training.report import report
from nmt.training.settings import Train, TrainingSettings
from nmt.training.weights import stored_settings

NEEDED_PARTS = ("train", "valid")


class TrainingResult(NamedTuple):
    """The outcome of ``train_into``.

    A run that the signal ``stop_signal`` stopped has a model, which may not be ``validated`` yet, but no ``summary``.
    Only rank 0 has a ``summary``.
    """

    folder: Path
    config: Train
    summary: dict[str, Any] | None
    seconds: float
    stop_signal: int | None = None
    validated: bool = True


def train_into(
    folder: Path,
    config: Train,
    *,
    pairs: Mapping[str, Any] | None = None,
    store_config: Callable[[Mapping[str, Any]], None] = lambda config: None,
) -> TrainingResult:
    """Train the model that ``config`` describes, evaluate it on the test set, and write everything into ``folder``.

    With ``data=python``, ``pairs`` are the sentence pairs of each part. ``store_config`` is called with the settings
    that config.yaml stores, once training starts. Raises UserError for anything that the user can fix.
    """
    try:
        logger = build_logger(config.logger, folder, trust=config.trust) if rank() == 0 else None
        if rank() != 0:
            return _train(folder, config, pairs, store_config, logger)
        with lock_folder(folder):
            remove_leftovers(folder / CHECKPOINTS)
            return _train(folder, config, pairs, store_config, logger)
    except Exception as error:
        if isinstance(error, UserError) or not is_out_of_memory(error):
            raise
        tokens = config.batches.max_tokens
        fix = "lower it, or the sizes of the model"
        raise UserError(f"batches.max_tokens={tokens}: not enough memory; {fix}") from None


@flushed_denormals()
def _train(
    folder: Path,
    config: Train,
    pairs: Mapping[str, Any] | None,
    store_config: Callable[[Mapping[str, Any]], None],
    logger: Logger | None,
) -> TrainingResult:
    started = time.perf_counter()
    keep_freed_memory()
    device = choose_device(config.device)
    if config.threads is not None:
        torch.set_num_threads(torch_threads(config.threads))
    on_cpu = device.type == "cpu"
    print_message(f"threads: {torch.get_num_threads()}" if on_cpu else f"device: {device_name(config.device)}")
    if config.precision == "bf16" and on_cpu:
        check_bfloat16(config)
    prepared = _prepared_text(folder, config, pairs)
    stored = stored_settings(config, prepared)
    # The code that trains may change until the end.
    origin = {**provenance(config.device), "text_checksum": prepared.checksum}
    origin["pairs"] = {part: counts.kept for part, counts in prepared.pair_counts.items()}
    if logger is not None and not config.resume:
        logger.log_hyperparams(dict(stored))
    on_start = partial(store_config, stored) if rank() == 0 else None
    fitted = fit(config, prepared, folder, logger=logger, on_start=on_start)
    if fitted is None or fitted.stop_signal is not None:
        result = TrainingResult(folder, config, None, time.perf_counter() - started)
        if fitted is None:
            return result
        return result._replace(stop_signal=fitted.stop_signal, validated=fitted.best is not None)
    _log_outcome(fitted, config.training)
    test = prepared.corpora.get("test")
    if test is not None:
        print_message("translating the test set …")
    summary = report(config, fitted, test, folder, origin)
    if logger is not None:
        finish(logger, summary, fitted.updates)
    if config.export and config.adapt is None:  # the graphs would hold the whole model
        export_run(fitted.trained, folder, trust=config.trust)
    return TrainingResult(folder, config, summary, time.perf_counter() - started)


def export_run(trained: TrainedModel, folder: Path, *, trust: Sequence[str]) -> None:
    """Write the ONNX graphs of the finished run ``folder``. Any failure is one line in the log.

    It writes those of engine=onnx. The 8-bit graphs would add 3 s to 8 s, and 96 MB to 135 MB for the reference model;
    nmt-export writes them.
    """
    started = time.perf_counter()
    command = shlex.join(["nmt-export", f"model={folder}", *([f"trust=[{','.join(trust)}]"] if trust else [])])
    print_message("exporting the model for onnxruntime …")
    try:
        from nmt.inference.onnx.export import export

        export(trained, folder, engines=["onnx"])
    except KeyboardInterrupt:
        print_message(f"export stopped; {folder} has finished; export it with: {command}")
        raise
    except UserError as error:
        print_message(f"not exported: {error}")
    except Exception as error:  # the exporters raise anything
        warn(f"not exported: {reason(error)}; repeat with: {command}")
    else:
        print_message(f"exported in {time.perf_counter() - started:.1f} s; export=false skips this")


def _log_outcome(fitted: Fitted, training: TrainingSettings) -> None:
    """Log the reasons for the end of training and the choice of weights, unless it was just the highest score."""
    monitor, kept = training.monitor, f"the model of epoch {fitted.kept} is kept"
    if fitted.early:
        validations = counted(training.patience or 0, "validation")
        print_message(f"stopped early: {monitor} did not improve in {validations} (training.patience); {kept}")
    if monitor in PERCENT and fitted.best is not None and fitted.best < NEAR_ZERO:
        print_message(f"{monitor} stayed below {NEAR_ZERO:g}, so the lowest valid_loss decided: {kept}")
    if (average := fitted.average) is not None:
        epochs = ", ".join(map(str, average.epochs))
        scores = f"{monitor} {average.score:.3f}, the best checkpoint {fitted.best or 0:.3f}"
        kept = "average" if average.kept else "best checkpoint"
        print_message(f"average of epochs {epochs}: {scores}; the {kept} is kept")


def _prepared_text(folder: Path, config: Train, program_pairs: Mapping[str, Any] | None) -> Prepared:
    """Open prepared text, or prepare it in ``folder``/data."""
    if isinstance(config.data, PreparedData) or config.resume:
        prepared_folder = Path(config.data.folder) if isinstance(config.data, PreparedData) else folder / "data"
        prepared = open_prepared(prepared_folder, needed=NEEDED_PARTS)
        _refuse_shared(config, f"data.folder={prepared_folder}", prepared.source, prepared.target)
        if not config.resume:
            for part, counts in prepared.pair_counts.items():
                for line in counts.overlap_lines():
                    print_message(f"{part}: {line}")
            _warn_of_text(prepared)
        return prepared
    if world_size() > 1:
        raise UserError(
            "data: several processes train on prepared text only; run nmt-prepare, and train with data=prepared "
            "data.folder=FOLDER"
        )
    tokenizers = None
    if config.init_from is not None:
        start = load_folder(Path(config.init_from), trust=config.trust, key="init_from")
        tokenizers = (start.source, start.target)
        _refuse_shared(config, f"init_from={config.init_from}", *tokenizers)
        _refuse_other_tokenizers(config, start.config.get("tokenizer", {}))
    if program_pairs is None:
        pairs = load_pairs(config.data, needed=NEEDED_PARTS, trust=config.trust)
    else:
        pairs = pairs_from_python(program_pairs, config.data, needed=NEEDED_PARTS)
    prepared = prepare(pairs, config.data, config.tokenizer, folder / "data", tokenizers=tokenizers)
    for part, counts in prepared.pair_counts.items():
        for line in counts.lines():
            print_message(f"{part}: {line}")
    for line in piece_lines(prepared):
        print_message(line)
    _warn_of_text(prepared, None if tokenizers is None else f"init_from={config.init_from}")
    return prepared


def _warn_of_text(prepared: Prepared, setting: str | None = None) -> None:
    """Log the text that the tokenizers cannot read."""
    for problem in reading_problems(prepared, setting=setting):
        warn(f"{problem}")


def _refuse_shared(config: Train, setting: str, source: Tokenizer, target: Tokenizer) -> None:
    """Raise UserError where one embedding table is to serve the two vocabularies of ``setting``."""
    if config.embeddings.shared and source.to_bytes() != target.to_bytes():
        raise UserError(
            f"embeddings.shared=true: needs one vocabulary for both sides, but {setting} has two; "
            "set embeddings.shared=false"
        )


def _refuse_other_tokenizers(config: Train, inherited: Mapping[str, Any]) -> None:
    """Raise UserError where ``config`` describes other tokenizers than those of the model in ``init_from``."""
    for key, value in plain(config.tokenizer).items():
        if key in inherited and value != inherited[key]:
            raise UserError(
                f"tokenizer.{key}={value}: differs from tokenizer.{key}={inherited[key]} of the tokenizers in "
                f"init_from={config.init_from}; use the same value"
            )
