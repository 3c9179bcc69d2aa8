"""Load the model of a folder for an engine. Torch is imported only if it has to run the model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from nmt.errors import UserError
from nmt.inference.engines import EngineName, LoadedModel, LoadSettings
from nmt.inference.onnx.model import exported_engines, is_deployment, open_onnx
from nmt.inference.run_files import has_adapter
from nmt.kernels.process import keep_freed_memory
from nmt.settings.arguments import iterable
from nmt.system.machine import torch_threads
from nmt.text.tokenizer import other_side

if TYPE_CHECKING:
    from nmt.inference.model_folder import TrainedModel

KEPT_MB = 256  # of freed memory; 64 were enough for batches of a Transformer with 3 million parameters


def load(folder: str | Path | Sequence[str | Path], settings: LoadSettings) -> LoadedModel:
    """Load the model of a run's folder, or of a deployment, for the engine that ``settings`` select.

    Several folders are an ensemble. A folder that holds an adapter needs torch. Raises UserError if the folder
    holds no model for this engine, or if the engine does not support the other settings.
    """
    keep_freed_memory(KEPT_MB)
    if not isinstance(folder, str | Path):
        return _load_ensemble([*map(str, iterable(folder, "model", what="folders"))], settings)
    folder = Path(folder)
    engine = settings.engine
    if engine not in get_args(EngineName):
        raise UserError(f"engine={engine}: must be {' | '.join(get_args(EngineName))}")
    threads = settings.threads
    if threads is not None and not (isinstance(threads, int) and threads >= 1):
        raise UserError(f"threads={threads!r}: must be a whole number of at least 1; remove threads= to use all cores")
    adapted = has_adapter(folder)
    if adapted and engine.startswith("onnx"):
        import shlex

        raise UserError(
            f"engine={engine}: an adapter needs engine=torch; remove engine={engine}, or write graphs that include it "
            f"with {shlex.join(['nmt-export', f'model={folder}'])} output=FOLDER"
        )
    model = None if adapted or engine == "torch" else open_onnx(folder, settings)
    if model is not None:
        return model
    if settings.shortlist:
        raise UserError("shortlist=true: engine=torch has no shortlist; use engine=onnx or engine=onnx-int8")
    return load_torch(folder, settings)


def _load_ensemble(names: Sequence[str], settings: LoadSettings) -> LoadedModel:
    """Load the models of these folders as an ensemble. Raises UserError if they cannot translate together."""
    from nmt.inference.ensemble import Ensemble

    if settings.shortlist:
        raise UserError("shortlist=true: belongs to one model; remove it, or name one model")
    if not names:
        raise UserError("model=[]: no model; name at least one folder")
    models = [load(name, settings) for name in names]
    first = models[0]
    for name, model in zip(names, models, strict=True):
        if side := other_side(model, first):
            raise UserError(
                f"model={name}: its {side} tokenizer is not that of {names[0]}; an ensemble needs models that were "
                "trained on one prepared corpus"
            )
        for key in ("lowercase", "remove_invisible"):
            value, expected = (getattr(other.properties, key) for other in (model, first))
            if value != expected:
                raise UserError(
                    f"model={name}: trained with data.{key}={value}, and {names[0]} with {expected}; "
                    "an ensemble needs models that read text in the same way"
                )
    return Ensemble(models)


def load_torch(folder: Path, settings: LoadSettings) -> TrainedModel:
    """Load the torch model of a run's folder, whichever engine ``settings`` name.

    Raises UserError for a deployment, or if torch is not installed.
    """
    install = (
        "install the toolkit with its dependencies (pip install . in a clone)" if find_spec("torch") is None else None
    )
    if is_deployment(folder):
        engines = " and ".join(f"engine={name}" for name in exported_engines(folder))
        raise UserError(
            f"model={folder}: nmt-export output= wrote it for {engines} only; "
            f"name the folder of the training run{f', and {install}' if install else ''}"
        )
    if install:
        raise UserError(f"engine=torch: torch is not installed; {install}, or use engine=onnx")
    import torch

    from nmt.inference.model_folder import choose_device, load_folder

    if settings.threads is not None:
        torch.set_num_threads(torch_threads(settings.threads))
    trained = load_folder(folder, trust=settings.trust)
    trained.model.to(choose_device(settings.device))
    return trained
