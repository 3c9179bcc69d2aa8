"""A second training loss that pulls a model towards gold links, or towards the contexts of another model.

``guide=links``: Chen, Matusov, Khadivi & Peter (2016), Guided Alignment Training for Topic-Aware Neural Machine
Translation, arXiv 1607.01628. ``guide=contexts``: future work of Britz, Guan & Luong (2017), arXiv 1707.00110.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nmt.alignment.word_weights import linked_pieces, normalise_rows
from nmt.attention.base import SourceAttention
from nmt.data.words import count_words, words_of
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder, model_fingerprint
from nmt.model import Seq2Seq
from nmt.settings.arguments import NonNegative
from nmt.settings.plugins import Block, PluginPoint, construct
from nmt.text.batches import Batch
from nmt.text.prepare import Prepared
from nmt.text.specials import EOS
from nmt.text.tokenizer import other_side

SMALLEST = 1e-6  # added to shares, so that the loss of an alignment of 0 stays finite


class Guide(ABC):
    """A loss that is added to that of the translation, ``weight`` times."""

    weight: float
    fingerprint: str | None = None  # of the model that it reads, if there is one

    def __deepcopy__(self, memo: object) -> Guide:
        """Return the guide itself: a moving average copies the task, but not corpora and teachers."""
        return self

    def start(self, model: Seq2Seq) -> None:  # noqa: B027  (optional)
        """Prepare a new model before its first update. A resumed run does not call this."""

    @abstractmethod
    def loss(self, model: Seq2Seq, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the inputs (B, T, F) of the output layer, and the sum of the losses of the target pieces."""


GUIDE = PluginPoint(Guide, ("nmt.training",), supplied=frozenset({"prepared", "trusted"}))


def build_guide(block: Block | None, prepared: Prepared, *, trust: Sequence[str]) -> Guide | None:
    """Return the guide that the block describes, or None. Raises UserError if it does not fit the training text."""
    return None if block is None else construct(block, GUIDE, trust=trust, prepared=prepared, trusted=trust)


def alignment_loss(alignment: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy −Σ_ts targets_ts log a_ts, in nats.

    ``alignment`` (B, T, S) may be negative and need not sum to 1: a is |alignment| with rows that sum to 1, from which
    links and the AER are computed too.
    """
    weights = alignment.float().abs()
    shares = weights / weights.sum(2, keepdim=True).clamp(min=SMALLEST**2)  # with a smaller bound, gradients overflow
    return -(targets * (shares + SMALLEST).log()).sum()


class GoldLinks(Guide):
    """Sure gold links between words, normalised (§3.1): a target piece has equal shares of all linked source pieces.

    Pieces of target words without a link, and ``</s>``, have no target.
    """

    def __init__(self, *, prepared: Prepared, weight: NonNegative = 0.1) -> None:
        self.weight = weight
        self.corpus = prepared.corpora["train"]
        self.tokenizers = prepared.source, prepared.target
        if not self.corpus.has_links:
            raise UserError(
                "guide=links: the training text has pairs without gold links; give data.train.links=FILE, or remove it"
            )

    def loss(self, model: Seq2Seq, batch: Batch) -> tuple[Tensor, Tensor]:
        features, alignment = model.aligned_features(batch.source, batch.source_mask, batch.target_in)
        return features, alignment_loss(alignment, self.targets(batch))

    def targets(self, batch: Batch) -> Tensor:
        """Return the share (B, T, S) of each source piece for each target piece; rows of zeros have no target."""
        shares = torch.zeros(*batch.target_out.shape, batch.source.shape[1])
        for row, index in enumerate(batch.index.tolist()):
            pieces = torch.from_numpy(self._piece_shares(index))
            shares[row, : pieces.shape[0], : pieces.shape[1]] = pieces
        return shares.to(batch.source.device)

    def _piece_shares(self, row: int) -> np.ndarray:
        """Return the shares (T, S) of one row of the corpus, without ``</s>``."""
        texts = self.corpus.texts(row)
        sides = zip(self.tokenizers, texts, strict=True)
        source, target = (words_of(text, tokenizer.spans(text)) for tokenizer, text in sides)
        source_words, target_words = map(count_words, texts)
        linked = np.zeros((target_words, source_words))
        i, j = self.corpus.sure_links(row).T
        linked[j, i] = 1
        return normalise_rows(linked_pieces(linked, source, target))


class Contexts(Guide):
    """The contexts c_t that the attention of the model in the folder ``model`` computes for the same batch.

    The loss is Σ ‖C_t − c_t‖² over the target pieces t ≤ min(T, K) of each sentence, where C (K, D) is the memory of
    the source, which learns to predict the contexts. They are sums of the teacher's source states, so a new model
    starts with its embeddings and encoder, and with those weights of its decoder that have the same shape.
    """

    def __init__(
        self, *, prepared: Prepared, model: str, weight: NonNegative = 0.1, trusted: Sequence[str] = ()
    ) -> None:
        self.weight = weight
        self.setting = f"guide.model={model}"
        teacher = load_folder(Path(model), trust=trusted, key="guide.model")
        if side := other_side(teacher, prepared):
            raise UserError(
                f"{self.setting}: its {side} tokenizer is not that of the training text; "
                f"train with data=prepared data.folder={model}/data, or with its tokenizers"
            )
        if not isinstance(teacher.model.attention, SourceAttention):
            raise UserError(
                f"{self.setting}: its attention compares no source states; train it with attention=bahdanau"
            )
        self.model = teacher.model.eval().requires_grad_(False)
        self.fingerprint = model_fingerprint(Path(model))

    def start(self, model: Seq2Seq) -> None:
        """Copy the teacher's weights. Raises UserError if the contexts of both models would not be comparable."""
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
        slots = model.encode(source, source > 0)[0].slots
        if not model.attention.needs_trace or slots.shape[-1] != self.model.attention.context_size:
            size = self.model.attention.context_size
            raise UserError(f"{self.setting}: needs slots with {size} numbers, as its contexts; set attention=memory")

    def loss(self, model: Seq2Seq, batch: Batch) -> tuple[Tensor, Tensor]:
        memory, final = model.encode(batch.source, batch.source_mask)
        features, _ = model.decoder.features(batch.target_in, model.decoder.init(final, memory), memory)
        contexts = self.contexts(batch)
        slots = memory.slots.reshape(len(contexts), -1, *memory.slots.shape[-2:])  # a Transformer has some per layer
        predicted = min(contexts.shape[1], slots.shape[2])
        distances = (slots[:, :, :predicted] - contexts[:, None, :predicted]).float().square().sum(3).mean(1)
        return features, distances.masked_fill(~batch.target_mask[:, :predicted], 0).sum()

    @torch.no_grad()
    def contexts(self, batch: Batch) -> Tensor:
        """Return the context (B, T, D) that the teacher reads for each target piece."""
        teacher = self.model.to(batch.source.device)
        memory, final = teacher.encode(batch.source, batch.source_mask)
        _, weights = teacher.decoder.features(batch.target_in, teacher.decoder.init(final, memory), memory)
        return weights @ memory.slots
