"""Translators with random weights, for a server in this process."""

from __future__ import annotations

import torch
from builders import random_trained, tiny_config

from nmt.inference.translator import Translator
from nmt.text.tokenizer import Tokenizer

WORDS = "a small dog sees red houses two cats sleep here today blue birds fly away"
TOKENIZER = Tokenizer.train([WORDS], vocab_size=330)


def tiny_translator(attention: str, *, seed: int = 11) -> Translator:
    """Return a translator with random weights and this attention, such as ``MemoryAttention``."""
    settings = {"slots": 4} if attention == "MemoryAttention" else {}
    config = tiny_config({"_target_": f"nmt.attention.{attention}", **settings}, size=16)
    config["data"]["lowercase"] = False
    trained = random_trained(config, TOKENIZER, longest_source=300, seed=seed, scale=3.0, eos_bias=-1.0)
    with torch.no_grad():  # translate into words, not letters
        inner = [number for number, piece in enumerate(TOKENIZER.all_pieces) if number > 3 and piece[0] != "▁"]
        trained.model.decoder.output.bias[inner] -= 20
    return Translator(trained, check_text=False)
