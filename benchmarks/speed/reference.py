"""The reference model for timing: two layers, 512, input feeding, 8,000 pieces, random weights."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from nmt.config.compose import train_config
from nmt.inference.model_folder import TrainedModel, load_folder, save_folder
from nmt.inference.onnx.export import export
from nmt.inference.onnx.model import exported_engines
from nmt.inference.onnx.shortlist import FREQUENT
from nmt.inference.run_files import MODEL_FILE
from nmt.model.build import build_model
from nmt.settings.build import plain
from nmt.text.tokenizer import Tokenizer

VOCABULARY = 8_000
SIZE = 512
LAYERS = 2
FIRST_PIECE = 300  # the ids below are special pieces and bytes
MAX_LENGTH = 100  # source pieces that position-based attentions are built for
DIMENSIONS = [
    *(f"{part}.{key}" for part in ("encoder", "decoder") for key in (f"hidden_size={SIZE}", f"layers={LAYERS}")),
    f"embeddings.size={SIZE}",
]
SETTINGS = [*DIMENSIONS, "decoder.input_feeding=true"]
SIZES = {"reference": SETTINGS, "default": []}  # default: the sizes of the default run
SYLLABLES = [f"{consonant}{vowel}" for consonant in "b d f g k l m n p r s t v w".split() for vowel in "aeiou"]


def reference(
    runs: Path,
    attention: Sequence[str],
    size: str = "reference",
    *,
    vocabulary: int = VOCABULARY,
    shortlist: int | None = None,
) -> Path:
    """Return the folder of the exported model with this attention (name and settings); create it if missing.

    With a ``shortlist`` it has that many random translations per source piece.
    """
    names = [*attention, *([size] if size != "reference" else [])]
    names += [str(vocabulary)] if vocabulary != VOCABULARY else []
    names += [f"shortlist-{shortlist}"] if shortlist else []
    run = runs / "-".join(names).replace("=", "-")
    if not (run / MODEL_FILE).is_file():
        run.mkdir(parents=True, exist_ok=True)
        save_random(run, [*SIZES[size], f"attention={attention[0]}", *attention[1:]], tokenizer(vocabulary), MAX_LENGTH)
    if not exported_engines(run):
        export(load_folder(run), run, random_lists(vocabulary, shortlist) if shortlist else None)
    return run


def random_lists(vocabulary: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``size`` random translations of each source piece, and random frequent pieces, for a shortlist."""
    numbers = np.random.default_rng(2)
    best = numbers.integers(FIRST_PIECE, vocabulary, (vocabulary, size), dtype=np.int32)
    return best, numbers.integers(FIRST_PIECE, vocabulary, FREQUENT, dtype=np.int32)


def save_random(folder: Path, settings: Sequence[str], pieces: Tokenizer, longest_source: int) -> None:
    """Save the model of these settings with random weights, the same ones in every call."""
    config = train_config(settings)
    torch.manual_seed(1)
    sizes = {"source_vocabulary": len(pieces), "target_vocabulary": len(pieces), "longest_source": longest_source}
    model = build_model(config, **sizes)
    trained = TrainedModel(
        model=model, source=pieces, target=pieces, config=plain(config), longest_source=longest_source
    )
    save_folder(folder, trained)


def tokenizer(vocabulary: int = VOCABULARY) -> Tokenizer:
    """Return a tokenizer of ``vocabulary`` pieces, trained on random words of one to three syllables."""
    random.seed(1)
    words = ("".join(random.choices(SYLLABLES, k=random.choice((1, 2, 3)))) for _ in range(200_000))
    return Tokenizer.train([" ".join(line) for line in zip(*[words] * 20, strict=True)], vocab_size=vocabulary)
