"""Write a deployment: a folder with an exported model and the list of the packages that nmt-translate needs for it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from nmt.errors import UserError
from nmt.inference.engines import OnnxEngineName
from nmt.inference.model_folder import TrainedModel
from nmt.inference.onnx.export import write_export
from nmt.version import __version__

PACKAGES = Path(__file__).parents[2] / "requirements-translate.txt"
README = """# {attention} model for nmt-translate

nmt-export of nmt-memory-attention {version} wrote this folder. It is complete: copy it anywhere.

Install with Python 3.11, 3.12 or 3.13; torch is not needed. `make wheel` in the toolkit's source builds the wheel:

    pip install -r {name}/requirements.txt
    pip install --no-deps nmt_memory_attention-{version}-py3-none-any.whl

Translate, one sentence per line:

    nmt-translate model={name} < in.txt > out.txt

Engines: {engines}.{shortlist} {case}

This folder only translates. Training, engine=torch, scores and heatmaps of given translations, stored memories and
another export need the folder of the training run.
"""


def write_deployment(
    folder: Path,
    trained: TrainedModel,
    lists: tuple[np.ndarray, np.ndarray] | None,
    *,
    name: str,
    engines: Collection[OnnxEngineName],
    fingerprint: str,
) -> None:
    """Write everything that nmt-translate needs into the empty ``folder``, which will be called ``name``.

    See ``write_export``. Raises UserError if torch has to encode the source.
    """
    if trained.model.attention.sequential:
        raise UserError(
            f"output={name}: {trained.attention.name} attention needs torch to encode the source; remove output= and "
            "translate with the run's folder"
        )
    write_export(folder, trained, lists, engines=engines, fingerprint=fingerprint)
    (folder / "requirements.txt").write_text(PACKAGES.read_text("utf-8"), encoding="utf-8")
    text = README.format(
        attention=trained.attention.name,
        version=__version__,
        name=name,
        engines=", ".join(f"`engine={engine}`{'' if at else ' (default)'}" for at, engine in enumerate(engines)),
        shortlist="" if lists is None else " `shortlist=true` uses the shortlist.",
        case="The model reads and writes lower case." if trained.lowercase else "The model keeps upper and lower case.",
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
