"""Translators with random weights, and translations with given alignments, for tests of what is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from attention.blocks import read_block
from builders import random_trained, tiny_config
from tokenizer_kinds import tokenizer_of

from nmt.config.compose import compose_train
from nmt.data.words import WORD
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.specials import UNK
from nmt.text.tokenizer import Tokenizer


def random_translator(attention: str = "luong", *, kind: str = "ours", unknown_bias: float = 0) -> Translator:
    """Return a translator with a tokenizer of this kind. With ``unknown_bias``, it often writes ``<unk>``."""
    tokenizer = tokenizer_of(kind)
    config = tiny_config(read_block(attention))
    trained = random_trained(config, tokenizer, longest_source=90, scale=2, eos_bias=1)
    trained.model.decoder.output.bias.data[UNK] += unknown_bias
    return Translator(trained, check_text=False)


def searches(beam: SearchOptions) -> dict[str, SearchOptions]:
    """Return this beam search, and a greedy search and a sampling with its other options."""
    return {
        "beam": beam,
        "greedy": replace(beam, beam_size=1, n_best=1),
        "sample": replace(beam, beam_size=5, temperature=1.5, n_best=3),
    }


TOKENIZER = Tokenizer.train(["a small dog sees red houses", "two cats sleep here today"], vocab_size=290)


def tiny_translator(*words: str, **options: Any) -> Translator:
    """Return a translator with these settings, a tiny model, and ``options`` of ``random_trained``."""
    sizes = ["encoder.hidden_size=8", "decoder.hidden_size=8", "embeddings.size=8"]
    config = compose_train([*sizes, *words])
    config["data"]["lowercase"] = False
    return Translator(random_trained(config, TOKENIZER, **options))


def link_weights(links: str) -> np.ndarray:
    """Return the weights (target words, source words) of links in Pharaoh format."""
    weights = np.zeros((9, 9))
    for link in links.split():
        i, j = map(int, link.split("-"))
        weights[j, i] = 1
    return weights


def aligned(source: str, text: str, weights: np.ndarray) -> Translation:
    """Return a translation whose tokens are words, with these weights (target words, source words)."""
    columns, rows = ([match.span() for match in WORD.finditer(side)] for side in (source, text))
    alignment = np.zeros((len(rows) + 1, len(columns) + 1))
    alignment[:-1, :-1] = weights[: len(rows), : len(columns)]
    return Translation(
        text,
        source=source,
        source_tokens=[*source.split(), "</s>"],
        tokens=[*text.split(), "</s>"],
        source_spans=columns,
        spans=rows,
        alignment=alignment,
        token_log_probs=[0.0] * len(alignment),
        log_prob=-3.0,
    )
