"""Shortlists: restrict the output layer to the target pieces that are likely for the sources of a batch.

Jean, Cho, Memisevic & Bengio (2015), On Using Very Large Target Vocabulary for Neural Machine Translation, arXiv
1412.2007, §3.2: the most frequent pieces, and for each piece of the source its most likely translations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile

import numpy as np

from nmt.errors import UserError, reason
from nmt.files.reading import check_members, open_regular
from nmt.inference.engines import OUTPUT_BIAS, OUTPUT_SCALE, OUTPUT_WEIGHT
from nmt.text.specials import EOS

if TYPE_CHECKING:
    from nmt.text.corpus import Corpus

FREQUENT = 200
MAX_CELLS = 30_000_000  # source × target pieces to learn from: they take 1 GB and half a minute
MAX_PAIRS = 200_000
# Weights use 7 bits: processors with AVX2 but without integer dot products add pairs of products in 16 bits, where two
# products of 255 · 127 would saturate. BLEU stays within 0.09 (benchmarks/LOG.md).
WEIGHT_STEPS = 64


class LikelyPieces(NamedTuple):
    """The target pieces of a shortlist, as ids. See ``Shortlist``."""

    best: np.ndarray
    frequent: np.ndarray


@dataclass
class Shortlist:
    """Candidate target pieces per source piece, with the output layer's weights.

    ``best`` (source vocabulary, n) holds the translations of each source piece as target ids; rows with fewer
    translations are filled with EOS. ``frequent`` (F,) holds target ids that are always candidates. ``weight`` (V, F)
    and ``bias`` (V,) are the output layer; a batch uses the rows of its candidates. With ``scale`` (V,), the weights
    are 8-bit integers.
    """

    best: np.ndarray
    frequent: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    scale: np.ndarray | None = None

    def candidates(self, sources: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the target ids (C,) that translations of these sources may use, in rising order and with EOS."""
        is_candidate = np.zeros(len(self.weight), dtype=np.bool_)
        for ids in sources:
            is_candidate[self.best.take(ids, axis=0)] = True
        is_candidate[self.frequent] = True
        is_candidate[EOS] = True
        return is_candidate.nonzero()[0]

    def output_layer(self, ids: np.ndarray, *, integers: bool) -> dict[str, np.ndarray]:
        """Return the inputs of a step graph that hold the output layer for the target ``ids`` (C,).

        The weights are (C, F), or with ``integers`` 8-bit integers (F, C) with scales (C,).
        """
        bias = self.bias.take(ids)
        if not integers:
            return {OUTPUT_WEIGHT: self.weight.take(ids, axis=0), OUTPUT_BIAS: bias}
        weight, scales = self._integers
        rows = weight.take(ids, axis=0)
        transposed = np.ascontiguousarray(rows.T)  # onnxruntime would copy another layout in every step
        return {OUTPUT_WEIGHT: transposed, OUTPUT_SCALE: scales.take(ids), OUTPUT_BIAS: bias}

    @cached_property
    def _integers(self) -> tuple[np.ndarray, np.ndarray]:
        return (self.weight, self.scale) if self.scale is not None else to_integers(self.weight, axis=1)

    def save(self, file: Path, *, integers: bool = False) -> None:
        """Write the shortlist to ``file``; with ``integers`` for 8-bit graphs only, in a quarter of the size."""
        weight, scale = self._integers if integers else (self.weight, self.scale)
        arrays: dict[str, Any] = {"best": self.best, "frequent": self.frequent, "weight": weight, "bias": self.bias}
        if scale is not None:
            arrays["scale"] = scale
        np.savez(file, **arrays)

    @classmethod
    def load(cls, file: Path, *, source_vocabulary: int, target_vocabulary: int) -> Shortlist:
        """Load a file that ``save`` wrote. Raises UserError if it is damaged, something else, or of another model."""
        try:
            with open_regular(file) as stream:
                with ZipFile(stream) as archive:
                    check_members(archive, file)
                stream.seek(0)
                with np.load(stream, allow_pickle=False) as stored:
                    names = ["best", "frequent", "weight", "bias", *(["scale"] if "scale" in stored else [])]
                    shortlist = cls(*(stored[name] for name in names))
            valid = shortlist._is_valid(source_vocabulary, target_vocabulary)
        except Exception as error:  # a damaged array raises any exception
            raise UserError(f"{file}: cannot be read ({reason(error)}); write it again with nmt-export") from None
        if not valid:
            raise UserError(f"{file}: not a shortlist that nmt-export writes; write it again")
        return shortlist

    def _is_valid(self, source_vocabulary: int, target_vocabulary: int) -> bool:
        ids = np.concatenate([self.best.ravel(), self.frequent])
        if ids.dtype.kind != "i" or self.best.ndim != 2 or len(self.best) != source_vocabulary:
            return False
        if self.weight.ndim != 2 or self.bias.shape != (target_vocabulary,) or len(self.weight) != target_vocabulary:
            return False
        scale = self.scale
        if self.weight.dtype != (np.float32 if scale is None else np.int8) or self.bias.dtype != np.float32:
            return False
        if scale is not None and (scale.dtype != np.float32 or scale.shape != self.bias.shape):
            return False
        return bool(ids.min(initial=0) >= 0 and ids.max(initial=0) < target_vocabulary)


def learn_translations(corpus: Corpus, *, source_vocabulary: int, size: int) -> LikelyPieces:
    """Return the pieces of a shortlist with ``size`` translations per source piece.

    IBM Model 1 learns them from the first pairs of the corpus, as many as fit into memory.
    """
    from nmt.alignment.model1 import train_ibm_model_1

    rows = range(min(len(corpus), MAX_PAIRS))
    cells = np.cumsum(corpus.source_lengths[: len(rows)].astype(np.int64) * corpus.target_lengths[: len(rows)])
    pairs = max(1, int(np.searchsorted(cells, MAX_CELLS, side="right")))
    source, target, probability = train_ibm_model_1(corpus.ids(row) for row in rows[:pairs])
    order = np.lexsort([target, -probability, source])
    source, target = source[order], target[order]
    rank = np.arange(len(source)) - np.searchsorted(source, source)
    selected = rank < size
    best = np.full((source_vocabulary, size), EOS, dtype=np.int32)
    best[source[selected], rank[selected]] = target[selected]
    counts = np.bincount(np.concatenate([corpus.ids(row)[1] for row in rows]))
    frequent = np.argsort(-counts, kind="stable")[: min(FREQUENT, np.count_nonzero(counts))]
    return LikelyPieces(best, np.sort(frequent).astype(np.int32))


def to_integers(weight: np.ndarray, *, axis: int, steps: int = WEIGHT_STEPS) -> tuple[np.ndarray, np.ndarray]:
    """Return a weight as integers in ±``steps``, and their scales, which have no ``axis``.

    Integers times scales are about the weight. Scales of weights that are not finite are not finite either.
    """
    largest = np.abs(weight).max(axis=axis)
    scales = np.where(largest == 0, 1, largest).astype(np.float32) / np.float32(steps)
    with np.errstate(invalid="ignore"):
        integers = np.rint(weight / np.expand_dims(scales, axis)).astype(np.int8)
    return integers, scales
