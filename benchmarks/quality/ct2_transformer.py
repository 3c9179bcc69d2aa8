"""The weights of a Transformer of the toolkit, as CTranslate2 names and joins them.

CTranslate2 then computes the same function with its own code and its own 8-bit integers. Only the usual Transformer is
converted: softmax self-attention, and attention=multi_head of scaled products.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from nmt.attention import LuongAttention, MultiHeadAttention
from nmt.model.seq2seq import Seq2Seq
from nmt.model.transformer import EncoderLayer, TransformerDecoder, TransformerEncoder, sinusoids
from nmt.self_attention import SoftmaxSelfAttention

MAX_POSITIONS = 1024


def arrays(model: Seq2Seq) -> dict[str, np.ndarray]:
    """Return the weights by their paths in CTranslate2's TransformerSpec: ``encoder/layer/0/ffn/linear_0/bias``."""
    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerEncoder) and isinstance(decoder, TransformerDecoder)
    weights: dict[str, Tensor] = {}
    for name, part, embedding in (("encoder", encoder, model.embedding), ("decoder", decoder, decoder.embedding)):
        assert part.inputs.project is None
        weights[f"{name}/embeddings/{'0/' if name == 'encoder' else ''}weight"] = embedding.weight
        weights[f"{name}/position_encodings/encodings"] = sinusoids(torch.arange(MAX_POSITIONS), part.inputs.size)
        weights |= _affine(f"{name}/layer_norm", part.norm)
        for number, layer in enumerate(part.blocks):
            assert isinstance(layer, EncoderLayer)
            weights |= dict(_layer(f"{name}/layer/{number}", layer))
    for number, (layer, attention) in enumerate(zip(decoder.blocks, decoder.attention.layers, strict=True)):
        assert isinstance(attention, MultiHeadAttention) and isinstance(attention.inner, LuongAttention)
        assert attention.inner.score == "scaled_dot" and attention.W_v is not None
        place = f"decoder/layer/{number}/attention"
        weights |= _affine(f"{place}/layer_norm", layer.read_norm)
        weights[f"{place}/linear/0/weight"] = attention.W_q.weight
        weights[f"{place}/linear/1/weight"] = torch.cat([attention.W_s.weight, attention.W_v.weight])
        weights[f"{place}/linear/2/weight"] = layer.W_o.weight
    weights |= _affine("decoder/projection", decoder.output)
    return {name: weight.detach().float().numpy() for name, weight in weights.items()}


def _layer(place: str, layer: EncoderLayer) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of self-attention and of the feed-forward network."""
    assert isinstance(layer.self_attention, SoftmaxSelfAttention)
    yield from _affine(f"{place}/self_attention/layer_norm", layer.self_attention_norm).items()
    yield f"{place}/self_attention/linear/0/weight", layer.self_attention.W_qkv.weight
    yield f"{place}/self_attention/linear/1/weight", layer.self_attention.W_o.weight
    yield from _affine(f"{place}/ffn/layer_norm", layer.feed_forward_norm).items()
    for number, index in enumerate((0, 2)):
        linear = layer.feed_forward[index]
        assert isinstance(linear, nn.Linear)
        yield from _affine(f"{place}/ffn/linear_{number}", linear).items()


def _affine(place: str, module: nn.Linear | nn.LayerNorm) -> dict[str, Tensor]:
    """Return weight and bias by the names that CTranslate2 gives them."""
    names = ("gamma", "beta") if isinstance(module, nn.LayerNorm) else ("weight", "bias")
    return {f"{place}/{name}": weight for name, weight in zip(names, (module.weight, module.bias), strict=True)}
