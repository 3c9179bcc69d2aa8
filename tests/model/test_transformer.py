"""The Transformer equals torch's own layers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from builders import random_model, tiny_config
from model.small_models import ATTENTIONS, LENGTHS, build, sources, targets, transformers
from torch import Tensor, nn

from nmt.attention import MemoryAttention
from nmt.attention.base import Memory
from nmt.errors import UserError
from nmt.model.transformer import sinusoids


@torch.no_grad()
def test_alignment_is_the_mean_of_the_layers_and_gives_each_context(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(transformers(attention="memory"))
    reads = []
    read = MemoryAttention.read

    def record(attention: MemoryAttention, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        context, weights = read(attention, query, memory)
        reads.append((context, attention.align(weights, memory)))
        return context, weights

    monkeypatch.setattr(MemoryAttention, "read", record)
    ids, mask = sources()
    memory, final = model.encode(ids, mask, trace=True)
    _, weights = model.decoder(targets(), model.decoder.init(final, memory), memory)
    states = model.encoder(model.embedding(ids), mask)[0]
    for context, alignment in reads:
        torch.testing.assert_close(alignment @ states, context)
    (_, first), (_, second) = reads
    assert not torch.allclose(first, second)
    torch.testing.assert_close(model.attention.align(weights, memory), (first + second) / 2)


def copy_weights(reference: Any, block: Any, *, norms: list[nn.Module]) -> None:
    """Copy the weights of a block into a layer of torch, without those that read the source."""
    attention = block.self_attention
    reference.self_attn.load_state_dict(
        {"in_proj_weight": attention.W_qkv.weight, "out_proj.weight": attention.W_o.weight}
    )
    for number, norm in enumerate(norms, start=1):
        reference.get_submodule(f"norm{number}").load_state_dict(norm.state_dict())
    reference.linear1.load_state_dict(block.feed_forward[0].state_dict())
    reference.linear2.load_state_dict(block.feed_forward[2].state_dict())


@torch.no_grad()
def test_encoder_equals_that_of_torch() -> None:
    model = build(transformers(decoder=False))
    reference = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True, bias=True).double()
    reference.self_attn = nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
    ids, mask = sources()
    states = model.encoder.inputs(model.embedding(ids), torch.arange(5))
    expected = states
    for block in model.encoder.blocks:
        copy_weights(reference, block, norms=[block.self_attention_norm, block.feed_forward_norm])
        expected = reference.train()(expected, src_key_padding_mask=~mask)
    expected = nn.functional.layer_norm(expected, (8,)) * mask[..., None]
    states, final = model.encoder(model.embedding(ids), mask)
    torch.testing.assert_close(states, expected)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(final.hidden[row, 0], expected[row, :length].mean(0))


@torch.no_grad()
def test_decoder_equals_that_of_torch() -> None:
    """Each layer has an attention with its own heads, as in the paper."""
    model = build(transformers(attention="paper"))
    decoder = model.decoder
    reference = nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True).double()
    reference.self_attn = nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
    reference.multihead_attn = nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
    ids, mask = sources()
    states = model.encoder(model.embedding(ids), mask)[0]
    target = targets()
    expected = decoder.embedding(target) * math.sqrt(6) @ decoder.inputs.project.weight.T + sinusoids(
        torch.arange(4), 8
    )
    for block, attention in zip(decoder.blocks, model.attention.layers, strict=True):
        copy_weights(reference, block, norms=[block.self_attention_norm, block.read_norm, block.feed_forward_norm])
        projections = [attention.W_q.weight, attention.W_s.weight, attention.W_v.weight]
        reference.multihead_attn.load_state_dict(
            {"in_proj_weight": torch.cat(projections), "out_proj.weight": block.W_o.weight}
        )
        later = torch.ones(4, 4, dtype=torch.bool).triu(1)
        expected = reference.train()(expected, states, tgt_mask=later, memory_key_padding_mask=~mask)
    expected = decoder.output(nn.functional.layer_norm(expected, (8,)))
    torch.testing.assert_close(model(ids, mask, target)[0], expected)


def test_positions_are_those_of_the_paper() -> None:
    """Vaswani et al. (2017), §3.5, with the sines before the cosines."""
    encoded = sinusoids(torch.tensor([0, 7, 5000]), 6)
    for row, position in enumerate((0, 7, 5000)):
        for i in range(3):
            angle = position / 10_000 ** (2 * i / 6)
            torch.testing.assert_close(encoded[row, i].item(), math.sin(angle), atol=1e-3, rtol=0)
            torch.testing.assert_close(encoded[row, 3 + i].item(), math.cos(angle), atol=1e-3, rtol=0)
    assert sinusoids(torch.arange(3), 5).shape == (3, 5)


def test_dropout_applies_to_inputs_and_to_every_part_of_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("nmt.kernels.dropout.dropout", lambda x, p, training: calls.append(p) or x)
    build(transformers())(*sources(), targets())
    # Vaswani et al. (2017), §5.4: the inputs, and the result of each part. Encoder layers have two parts, decoder
    # layers three.
    assert len(calls) == 1 + 2 * 2 + 1 + 2 * 3


def test_a_self_attention_that_is_not_a_class_is_refused() -> None:
    encoder = {"_target_": "nmt.model.TransformerEncoder", "self_attention": "linaer"}
    with pytest.raises(UserError, match=r"self_attention='linaer': must be a class or function"):
        random_model(tiny_config(ATTENTIONS["luong"], encoder=encoder))
