"""Load the model of a folder for an engine. Torch is imported only if it has to run the model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from nmt.errors import UserError
from nmt.inference.engines import EngineName
from nmt.inference.run_files import has_adapter
from nmt.machine import torch_threads

if TYPE_CHECKING:
    from nmt.inference.model_folder import TrainedModel
    from nmt.inference.onnx.model import OnnxModel


def load_export(
    folder: Path,
    engine: EngineName,
    device: str,
    *,
    threads: int | None,
    shortlist: bool,
    trust: Sequence[str],
    slots: int | None = None,
    adapter: Path | None = None,
) -> OnnxModel | None:
    """Return the exported model that ``engine`` selects, or None if torch has to run the model.

    An ``adapter``, or a folder that holds one, needs torch. Raises UserError if the folder has no graphs for this
    engine, or if torch does not support the other settings.
    """
    if engine not in get_args(EngineName):
        raise UserError(f"engine={engine}: must be {' | '.join(get_args(EngineName))}")
    from nmt.inference.onnx.model import is_deployment

    if threads is not None and threads < 1:
        raise UserError(f"threads={threads}: must be at least 1; remove it to use all cores")
    if slots is not None and (engine.startswith("onnx") or is_deployment(folder)):
        raise UserError(
            f"slots={slots}: the number of slots of exported graphs is fixed; use engine=torch, "
            f"or write other graphs with nmt-export model=RUN slots={slots} output=FOLDER"
        )
    if adapter is not None or has_adapter(folder):
        _require_torch(folder, adapter, engine)
        engine = "torch"
    model = None
    if engine != "torch" and slots is None:
        from nmt.inference.onnx.model import open_onnx, open_preferred

        if engine == "auto":
            model = open_preferred(folder, device, threads=threads, shortlist=shortlist, trust=trust)
        elif device not in ("auto", "cpu"):
            raise UserError(f"device={device}: engine={engine} runs on the CPU; use engine=torch")
        else:
            model = open_onnx(folder, engine, threads=threads, shortlist=shortlist, trust=trust)
    if model is None and shortlist:
        raise UserError("shortlist=true: engine=torch has no shortlist; use engine=onnx or engine=onnx-int8")
    return model


def _require_torch(folder: Path, adapter: Path | None, engine: EngineName) -> None:
    """Raise UserError, naming the fix, if ``engine`` runs exported graphs: they cannot have an adapter added."""
    if engine.startswith("onnx"):
        words = f"model={folder}" + (f" adapter={adapter}" if adapter is not None else "")
        raise UserError(
            f"engine={engine}: adapters need engine=torch; remove engine={engine}, or write graphs that include the "
            f"adapter with nmt-export {words} output=FOLDER"
        )


def load_trained(
    folder: Path,
    device: str,
    threads: int | None,
    trust: Sequence[str],
    slots: int | None = None,
    adapter: Path | None = None,
) -> TrainedModel:
    """Return the torch model of a run's folder, with the updates of the run ``adapter``.

    It uses its first ``slots`` slots only; None: all. Raises UserError for a deployment, if torch is not installed, or
    if the model cannot use that many slots.
    """
    from nmt.inference.onnx.model import is_deployment

    install = "install torch with pip install nmt-memory-attention" if find_spec("torch") is None else None
    if is_deployment(folder):
        raise UserError(
            f"model={folder}: nmt-export output= wrote it for engine=onnx and engine=onnx-int8 only; "
            f"name the folder of the training run{f', and {install}' if install else ''}"
        )
    if install:
        raise UserError(f"engine=torch: torch is not installed; {install}, or use engine=onnx")
    import torch

    from nmt.inference.model_folder import choose_device, load_folder

    if threads is not None:
        torch.set_num_threads(torch_threads(threads))
    trained = load_folder(folder, trust=trust, adapter=adapter)
    if slots is not None:
        try:
            trained.model.attention.use_slots(slots)
        except ValueError as error:
            raise UserError(f"slots={slots}: {error}") from None
    trained.model.to(choose_device(device))
    return trained
