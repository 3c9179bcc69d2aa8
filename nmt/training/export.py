"""Export a finished run, so that its first translation starts without torch."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nmt.errors import UserError, reason
from nmt.inference.model_folder import TrainedModel


def export_run(trained: TrainedModel, folder: Path, *, trust: Sequence[str], log: Callable[[str], None]) -> None:
    """Write the ONNX graphs of the finished run ``folder``. Any failure is one line in the log.

    It writes those of engine=onnx. The 8-bit graphs would add 3 s to 8 s, and 96 MB to 135 MB for the reference model;
    nmt-export writes them. A run that was exported before and then trained for more epochs gets the same graphs again,
    with its shortlist.
    """
    started = time.perf_counter()
    command = shlex.join(["nmt-export", f"model={folder}", *([f"trust=[{','.join(trust)}]"] if trust else [])])
    log("exporting the model for onnxruntime …")
    try:
        from nmt.inference.onnx.export import export
        from nmt.inference.onnx.model import stored_engines, stored_lists

        lists = stored_lists(folder, trained.source, trained.target)
        export(trained, folder, lists, engines=stored_engines(folder) or ["onnx"])
    except KeyboardInterrupt:
        log(f"export stopped; {folder} has finished; export it with: {command}")
        raise
    except UserError as error:
        log(f"not exported: {error}")
    except Exception as error:  # the exporters raise anything
        log(f"warning: not exported: {reason(error)}; repeat with: {command}")
    else:
        log(f"exported in {time.perf_counter() - started:.1f} s; export=false skips this")
        if trained.model.attention.sequential:
            log(f"{trained.attention.name} attention is sequential, so torch still encodes the source")
