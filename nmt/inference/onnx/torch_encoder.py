"""Encode sources with torch for attentions whose encoder cannot be exported.

These attentions write one source state after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from nmt.inference.model_folder import load_folder
from nmt.inference.onnx.graphs import encode_fields, needs_trace
from nmt.machine import torch_threads

Fields = dict[str, np.ndarray]


def torch_encoder(run: Path, *, threads: int | None, trust: Sequence[str]) -> Callable[[np.ndarray], Fields]:
    """Return a function that maps ids (B, S) to the outputs of ``encode.onnx``, computed by the model of ``run``."""
    if threads is not None:
        torch.set_num_threads(torch_threads(threads))
    model = load_folder(run, trust=trust).model
    trace = needs_trace(model)
    model.double()  # sums in float64, rounded to float32, do not depend on the other sentences of the batch

    @torch.inference_mode()
    def encode(ids: np.ndarray) -> Fields:
        memory, state = encode_fields(model, torch.from_numpy(ids), trace=trace)
        fields = {**memory, **state}.items()
        return {name: (field.float() if field.is_floating_point() else field).numpy() for name, field in fields}

    return encode
