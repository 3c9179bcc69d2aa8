"""The trained model that a filter works with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import UserError

if TYPE_CHECKING:
    from nmt.inference.translator import Translator


def load_model(folder: str, *, device: str, threads: int | None, trust: Sequence[str]) -> Translator:
    """The translator of ``folder``. Raises UserError where it holds no model."""
    import torch  # not before the arguments are known to be good: it takes seconds

    from nmt.inference.translator import Translator

    if threads is not None:
        torch.set_num_threads(threads)
    return Translator.load(Path(folder), device=device, trust=trust)


def require_attention(translator: Translator, asked: str) -> None:
    """Raises UserError where the model looks at nothing, so that there is nothing to align by."""
    if not translator.trained.model.attention.context_size:
        raise UserError(f"{asked}: this model has no attention and aligns nothing; use a model trained with one")
