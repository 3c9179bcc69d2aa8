"""Translators with random weights, for tests of what a search may write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders import random_trained, tiny_config
from tokenizer_kinds import tokenizer_of

from nmt.config.compose import compose_train, train_config
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.specials import UNK
from nmt.text.tokenizer import Tokenizer


def random_translator(attention: str = "luong", *, kind: str = "ours", unknown_bias: float = 0) -> Translator:
    """Return a translator with a tokenizer of this kind. With ``unknown_bias``, it often writes ``<unk>``."""
    tokenizer = tokenizer_of(kind)
    config = tiny_config(train_config([f"attention={attention}"]).attention)
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
