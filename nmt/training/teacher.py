"""Guide alignments towards those of a trained model.

Britz, Guan & Luong (2017), arXiv 1707.00110, leave to future work to train an attention model first, and then to force
the memory to be close to the contexts that it computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from nmt.errors import UserError
from nmt.inference.model_folder import load_folder, model_fingerprint
from nmt.settings.bounds import Count, NonNegative
from nmt.settings.build import Block
from nmt.text.batches import Batch
from nmt.text.prepare import Prepared
from nmt.training.guide import Guide, normalise


class Teacher(Guide):
    """Alignments of the model in the folder ``model``, which reads the same batch by teacher forcing.

    Contexts of two models are not comparable, because each has its own source states. Their alignments are: both weigh
    the same source pieces. A context is c_t = Σ_s A_ts v_s, so equal alignments read equal contexts from equal states.
    """

    def __init__(
        self,
        *,
        prepared: Prepared,
        model: str,
        trusted: Sequence[str] = (),
        weight: NonNegative = 0.1,
        decay_steps: Count | None = None,
    ) -> None:
        super().__init__(weight=weight, decay_steps=decay_steps)
        self.fingerprint = model_fingerprint(Path(model))  # before loading: the file may be replaced meanwhile
        teacher = load_folder(Path(model), trust=trusted, key="guide.model")
        for side in ("source", "target"):
            if getattr(teacher, side).to_bytes() != getattr(prepared, side).to_bytes():
                raise UserError(
                    f"guide.model={model}: its {side} tokenizer is not that of the training text; "
                    f"train with data=prepared data.folder={model}/data, or with its tokenizers"
                )
        attention = teacher.model.attention
        if not attention.reads_source:
            raise UserError(f"guide.model={model}: has no attention, so it has no alignments; name another model")
        try:
            attention.check_length(torch.tensor([prepared.corpora["train"].longest_source()[0] + 1]))  # </s>
        except ValueError as error:
            raise UserError(f"guide.model={model}: {error}") from None
        self.model = teacher.model.eval().requires_grad_(False)

    @staticmethod
    def problems(settings: Block) -> Iterator[str]:
        """Yield a message if there is no such model."""
        if not model_fingerprint(Path(settings["model"])):
            yield f"guide.model={settings['model']}: has no model; name a folder that nmt-train has finished"

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """Return the share (B, T, S) of each source piece for each target piece, ``</s>`` included."""
        teacher = self.model.to(batch.source.device)
        _, alignment = teacher.aligned_features(batch.source, batch.source_mask, batch.target_in)
        return normalise(alignment).masked_fill(~batch.target_mask[..., None], 0)
