"""Build a model from its plain configuration. Each size is written once and passed on to the parts that need it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from nmt.attention.base import Attention
from nmt.errors import UserError
from nmt.kernels.products import use_fast_linear
from nmt.model.decoder import LSTMDecoder
from nmt.model.encoder import LSTMEncoder
from nmt.model.seq2seq import Seq2Seq
from nmt.plugins import locate, setting
from nmt.text.specials import PAD


def build_model(
    config: Mapping[str, Any],
    *,
    source_vocabulary: int,
    target_vocabulary: int,
    longest_source: int,
    trust: Sequence[str] = (),
) -> Seq2Seq:
    """Return the untrained model that ``config`` describes in its groups embeddings, encoder, attention and decoder.

    ``longest_source`` is the number of pieces of the longest training source, including ``</s>``. Position encodings
    are scaled by it. Raises UserError if sizes do not match.
    """
    sizes = config["embeddings"]
    shared = bool(sizes["shared"])
    source = nn.Embedding(source_vocabulary, sizes["size"], padding_idx=PAD)
    target = source if shared else nn.Embedding(target_vocabulary, sizes["size"], padding_idx=PAD)
    for embedding in (source, target):
        nn.init.normal_(embedding.weight, std=0.1)
        with torch.no_grad():
            embedding.weight[PAD] = 0
    try:
        encoder: LSTMEncoder = construct(config["encoder"], trust, embedding_size=sizes["size"])
        attention: Attention = construct(
            config["attention"],
            trust,
            state_size=encoder.state_size,
            query_size=setting(config["decoder"], "hidden_size", trust=trust),
            max_length=longest_source,
        )
        decoder: LSTMDecoder = construct(
            config["decoder"],
            trust,
            embedding=target,
            attention=attention,
            encoder_layers=encoder.layers,
            state_size=encoder.state_size,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    model = Seq2Seq(embedding=source, encoder=encoder, attention=attention, decoder=decoder)
    use_fast_linear(model)
    return model


def construct(block: Mapping[str, Any], trust: Sequence[str], **sizes: Any) -> Any:
    """Return an instance of the block's ``_target_``, built from the block's settings and the ``sizes`` it accepts.

    A block inside the block becomes a function that builds its instance. The outer class calls it and may pass other
    sizes.
    """
    target = locate(block["_target_"], trust=trust)
    wanted = inspect.signature(target).parameters
    numbers = {
        key: partial(construct, value, trust, **sizes) if isinstance(value, Mapping) and "_target_" in value else value
        for key, value in block.items()
        if key != "_target_"
    }
    return target(**numbers, **{key: value for key, value in sizes.items() if key in wanted})
