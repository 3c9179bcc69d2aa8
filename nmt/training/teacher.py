"""Guide alignments, or the contexts of a memory, towards those of a trained model.

Britz, Guan & Luong (2017), arXiv 1707.00110, propose as future work to train an attention model first, and then to
force the memory to be close to the contexts that it computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from nmt.attention.base import SourceAttention
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder, model_fingerprint
from nmt.model import Seq2Seq
from nmt.settings.arguments import Count, NonNegative
from nmt.settings.plugins import Block
from nmt.text.batches import Batch
from nmt.text.prepare import Prepared
from nmt.text.specials import EOS
from nmt.text.tokenizer import other_side
from nmt.training.guide import Guide, Guided, normalise


class Teacher(Guide):
    """Alignments of the model in the folder ``model``, which reads the same batch by teacher forcing.

    Contexts of two models are not comparable, because each has its own source states. Their alignments are comparable,
    because both weigh the same source pieces. A context is c_t = Σ_s A_ts v_s, so equal alignments read equal contexts
    from equal states.
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
        if side := other_side(teacher, prepared):
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
        self.setting = f"guide.model={model}"
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


class Contexts(Teacher):
    """The contexts c_t that the attention of the model in the folder ``model`` computes for the same batch.

    The loss is the mean of ‖C_t − c_t‖² over the target pieces t ≤ min(T, K) of each sentence, where C (K, D) is the
    memory of the source, which learns to predict the contexts. They are sums of the teacher's source states, so a new
    model starts with its embeddings and encoder, and with those weights of its decoder that have the same shape.
    """

    def start(self, model: Seq2Seq) -> None:
        """Copy the teacher's weights. Raises UserError if the contexts of both models would not be comparable."""
        if not isinstance(self.model.attention, SourceAttention):
            raise UserError(
                f"{self.setting}: its attention compares no source states; train it with attention=bahdanau"
            )
        if not model.attention.needs_trace:
            name = type(model.attention).__name__
            raise UserError(f"guide=contexts: {name} keeps no contexts; choose attention=memory, or guide=teacher")
        teacher = self.model.state_dict()
        weights = model.state_dict()
        agreeing = {name for name in teacher if name in weights and teacher[name].shape == weights[name].shape}
        model.load_state_dict(weights | {name: teacher[name] for name in agreeing if "attention." not in name})
        copied = model.state_dict()
        for name in sorted(name for name in {**teacher, **copied} if name.startswith(("embedding.", "encoder."))):
            # A table that this model shares and the teacher has twice is overwritten by the second one.
            if name not in agreeing or not torch.equal(copied[name], teacher[name]):
                raise UserError(
                    f"{self.setting}: {name} does not fit this model; give both the same embeddings and encoder"
                )
        source = torch.full((1, 1), EOS, device=model.embedding.weight.device)
        slots = model.encode(source, source > 0)[0].slots.shape[2]
        if slots != self.model.attention.context_size:
            raise UserError(
                f"{self.setting}: its contexts have {self.model.attention.context_size} numbers, and the slots of "
                f"this model's attention {slots}; choose attention=memory, or guide=teacher"
            )

    def loss(self, model: Seq2Seq, batch: Batch) -> Guided:
        """Return the features of the model, and the mean squared distance of its slots from the teacher's contexts."""
        memory, final = model.encode(batch.source, batch.source_mask)
        features, _ = model.decoder.features(batch.target_in, model.decoder.init(final, memory), memory)
        contexts = self.contexts(batch)
        predicted = min(contexts.shape[1], memory.slots.shape[1])
        distances = (memory.slots[:, :predicted].float() - contexts[:, :predicted].float()).square().sum(2)
        mask = batch.target_mask[:, :predicted]
        pieces = int(mask.sum())
        return Guided(features, distances.masked_fill(~mask, 0).sum() / max(1, pieces), pieces)

    @torch.no_grad()
    def contexts(self, batch: Batch) -> Tensor:
        """Return the context (B, T, D) that the teacher reads for each target piece."""
        teacher = self.model.to(batch.source.device)
        memory, final = teacher.encode(batch.source, batch.source_mask)
        _, weights = teacher.decoder.features(batch.target_in, teacher.decoder.init(final, memory), memory)
        return weights @ memory.slots
