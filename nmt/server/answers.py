"""Translations as JSON: texts, scores, tokens, words, links, weights and slots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from nmt.alignment.word_weights import argmax_links, display_slots, display_weights, word_weights
from nmt.errors import UserError
from nmt.inference.ensemble import Ensemble
from nmt.inference.onnx.model import OnnxModel
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.server.fields import Refused

END = "</s>"
CUT = "a translation was cut at the length limit; send shorter sentences"
DIGITS = 4  # of a weight
MAX_WEIGHTS = 4_000_000  # of a request; a weight takes 32 bytes of RAM


class Details(NamedTuple):
    """Parts of an answer besides text, scores and tokens: the ``n_best`` translations, links, weights, slots."""

    n_best: int = 1
    alignments: bool = False
    weights: bool = False
    slots: bool = False

    @property
    def needs_alignments(self) -> bool:
        return self.alignments or self.weights or self.slots


def translation_json(translator: Translator, line: str, translation: Translation, details: Details) -> dict[str, Any]:
    """Return a translation of a line as JSON, with an ``n_best`` list if ``details`` ask for one.

    Raises UserError if ``details`` ask for slots that this model does not have.
    """
    answer: dict[str, Any] = {
        "text": translation.text,
        "score": _finite(translation.score),
        "log_prob": _finite(translation.log_prob),
        "confidence": translation.confidence,
        "source_tokens": translation.source_tokens,
        "tokens": translation.tokens,
        "cut": translation.is_cut,
        "lost": [*translation.lost],
    }
    if details.n_best > 1:
        single = details._replace(n_best=1)
        best = (translation.n_best or [translation])[: details.n_best]
        answer["n_best"] = [translation_json(translator, line, other, single) for other in best]
    if translation.alignment is None:
        return answer
    answer["source_words"] = [*translation.source_words]
    answer["target_words"] = [*translation.target_words]
    answer["word_confidences"] = [_finite(confidence) for confidence in translation.word_confidences]
    answer["links"] = [list(link) for link in sorted(argmax_links(word_weights(translation)))]
    if details.weights:
        display = display_weights(translation)
        answer["weights"] = {"source": display.source, "target": display.target, "values": _rounded(display.weights)}
    if details.slots:
        answer["slots"] = _slots(translator, line, translation)
    return answer


def properties_of(translator: Translator) -> dict[str, Any]:
    """Return the name of a model's attention, and which parts of an answer the model can give."""
    attention = translator.attention
    return {
        "attention": attention.name,
        "alignments": attention.reads_source,
        "slots": slots_problem(translator) is None,
    }


def slots_problem(translator: Translator) -> str | None:
    """Return the reason why the model cannot show slots, if there is one."""
    if isinstance(translator.loaded_model, Ensemble | OnnxModel):
        return "they need one model with engine=torch"
    attention = translator.trained.model.attention
    if not attention.needs_trace or not attention.reads_source:
        return f"{translator.attention.name} attention has no slots"
    return f"{translator.attention.name} attention has negative weights" if attention.signed else None


def require_few_weights(texts: Sequence[str], details: Details) -> None:
    """Raise Refused if the weights that the request asks for could need too much RAM."""
    count = details.n_best * sum(len(text) ** 2 for text in texts)
    if (details.weights or details.slots) and count > MAX_WEIGHTS:
        field = "weights" if details.weights else "slots"
        size = f"the texts are too long: n_best times the sum of their squared characters is {count:,}"
        raise Refused(400, f"{field}: {size}, above {MAX_WEIGHTS:,}; send shorter texts, or remove {field}")


def _slots(translator: Translator, line: str, translation: Translation) -> dict[str, Any]:
    """Return α of each source word and β of each target word, for the words of ``weights``."""
    if translation.inserted:
        raise UserError("slots: terms or placeholders were written without the model; remove slots, or the glossary")
    from nmt.inference.forced_decoding import slot_weights  # imports torch

    slots = [slot_weights(translator, *sides) for sides in _sentences(translation)]
    # Kernels can have negative weights although their sums are positive.
    if any(part is None or min(part.write.min(), part.read.min()) < 0 for part in slots):
        raise UserError(f"slots: {translator.attention.name} attention has negative weights; remove slots")
    size = max(len(part.write) for part in slots if part)
    write = np.concatenate([_widened(part.write.T, size) for part in slots if part]).T
    read = np.concatenate([_widened(part.read, size) for part in slots if part])
    source, target = display_slots(translation, write, read)
    return {"source": _rounded(source), "target": _rounded(target)}


def _widened(rows: np.ndarray, size: int) -> np.ndarray:
    """Return rows (N, R) with zeros up to ``size`` columns: a short sentence can have fewer slots than others."""
    return np.pad(rows, ((0, 0), (0, size - rows.shape[1])))


def _sentences(translation: Translation) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the source and target tokens of each sentence, which has its own memory.

    ``</s>`` ends a sentence of the source. The target may be cut before it, but has weights in its own sentence only.
    """
    assert translation.alignment is not None
    source, target = translation.source_tokens, translation.tokens
    ends = [column + 1 for column, token in enumerate(source) if token == END]
    strongest = translation.alignment.argmax(axis=1)
    sentences = np.maximum.accumulate(np.searchsorted(ends, strongest, side="right"))  # also of rows of zeros
    for number, (start, stop) in enumerate(pairwise([0, *ends])):
        yield source[start:stop], [target[row] for row in np.flatnonzero(sentences == number)]


def _rounded(weights: np.ndarray) -> list[list[float]]:
    rounded: list[list[float]] = np.round(weights.astype(np.float64), DIGITS).tolist()
    return rounded


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
