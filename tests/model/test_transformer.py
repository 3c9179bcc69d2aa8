"""The Transformer equals torch's own layers, its steps equal teacher forcing, and padding changes nothing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from builders import random_model, tiny_config
from torch import Tensor, nn

from nmt.attention import LuongAttention, NoAttention
from nmt.attention.base import Memory
from nmt.errors import UserError
from nmt.model import Seq2Seq, TransformerDecoder, TransformerEncoder
from nmt.model.transformer_layers import sinusoids

TRANSFORMER = {"hidden_size": 8, "layers": 2, "heads": 2, "feedforward_size": 12}
KINDS = {
    "softmax": {"self_attention": "softmax"},
    "elu": {"self_attention": "linear", "feature_map": "elu"},
    "scaling": {"self_attention": "linear", "feature_map": "scaling"},
}
ATTENTIONS: dict[str, dict[str, Any]] = {
    "luong": {"_target_": "nmt.attention.LuongAttention"},
    "memory": {"_target_": "nmt.attention.MemoryAttention", "slots": 3},
    "multi_head": {
        "_target_": "nmt.attention.MultiHeadAttention",
        "heads": 2,
        "inner": {"_target_": "nmt.attention.KernelAttention"},
    },
}
LENGTHS = (5, 1, 3)


def build(kind: str = "softmax", attention: str = "luong", *, encoder: bool = True, decoder: bool = True) -> Seq2Seq:
    """Return a tiny model; parts that are not Transformers are LSTMs."""
    config = tiny_config(
        ATTENTIONS[attention],
        embeddings=6,
        shared=False,
        encoder={"_target_": "nmt.model.TransformerEncoder", **TRANSFORMER, **KINDS[kind]} if encoder else {},
        decoder={"_target_": "nmt.model.TransformerDecoder", **TRANSFORMER, **KINDS[kind]} if decoder else {},
    )
    return random_model(config, vocabulary=(11, 9), longest_source=6, seed=7).double()


def sources(padding: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    size = max(LENGTHS) + padding
    ids = torch.randint(4, 11, (len(LENGTHS), size), generator=generator)
    return ids, torch.arange(size) < torch.tensor(LENGTHS)[:, None]


def targets(length: int = 4) -> Tensor:
    return torch.randint(4, 9, (3, length), generator=torch.Generator().manual_seed(5))


def by_steps(model: Seq2Seq, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits (B, T, V) and read weights (B, T, R), computed step by step."""
    memory, final = model.encode(*sources())
    state = model.decoder.init(final, memory)
    results = []
    for t in range(target.shape[1]):
        logits, state, weights = model.decoder.step(target[:, t : t + 1], state, memory)
        results.append((logits, weights))
    logits, weights = (torch.cat(column, dim=1) for column in zip(*results, strict=True))
    return logits, weights


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_equal_forward_with_the_same_gradients(kind: str, attention: str) -> None:
    model, target = build(kind, attention), targets(70 if attention == "luong" else 4)  # a chunk has 64 positions
    gradients = []
    for logits, weights in (model(*sources(), target), by_steps(model, target)):
        model.zero_grad()
        (logits.square().sum() + weights.square().sum()).backward()
        gradients.append({name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None})
    for left, right in zip(model(*sources(), target), by_steps(model, target), strict=True):
        torch.testing.assert_close(left, right)
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_steps_of_hypotheses_that_change_places_equal_forward(kind: str) -> None:
    model, beams = build(kind), 3
    memory, final = model.encode(*sources())
    generator = torch.Generator().manual_seed(8)
    state, history = model.decoder.init(final, memory), torch.zeros(len(LENGTHS), 1, 0, dtype=torch.int64)
    for _ in range(4):
        parents = torch.randint(0, history.shape[1], (len(LENGTHS), beams), generator=generator)
        tokens = torch.randint(4, 9, (len(LENGTHS), beams), generator=generator)
        logits, state, _ = model.decoder.step(tokens, model.decoder.reorder(state, parents), memory)
        history = torch.cat([history[torch.arange(len(LENGTHS))[:, None], parents], tokens[..., None]], dim=2)
    for beam in range(beams):
        expected, _ = model(*sources(), history[:, beam])
        torch.testing.assert_close(logits[:, beam], expected[:, -1])


@pytest.mark.parametrize(("encoder", "decoder"), [(True, False), (False, True)])
def test_each_half_works_with_the_lstm_of_the_other(encoder: bool, decoder: bool) -> None:
    model = build(encoder=encoder, decoder=decoder)
    for left, right in zip(model(*sources(), targets()), by_steps(model, targets()), strict=True):
        torch.testing.assert_close(left, right)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_changes_nothing(kind: str, attention: str) -> None:
    model, target = build(kind, attention), targets()
    ids, mask = sources(padding=4)
    memory, final = model.encode(ids, mask, trace=True)
    padded, weights = model.decoder(target, model.decoder.init(final, memory), memory)
    alignment = model.attention.align(weights, memory)
    for row, length in enumerate(LENGTHS):
        alone = ids[row : row + 1, :length], mask[row : row + 1, :length]
        torch.testing.assert_close(padded[row : row + 1], model(*alone, target[row : row + 1])[0])
        torch.testing.assert_close(final.hidden[row], model.encode(*alone)[1].hidden[0])
        assert not alignment[row, :, length:].any()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_hypotheses_of_a_sentence_share_its_memory(kind: str) -> None:
    """N hypotheses on the query axis equal N separate sentences, also after reordering and a larger N."""
    model = build(kind)
    ids, mask = sources()
    first = torch.tensor([[4, 5], [6, 4], [5, 5]])
    second = torch.tensor([[7, 4, 6], [4, 8, 4], [6, 5, 5]])
    parents = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    memory, final = model.encode(ids, mask)
    state = model.decoder.reorder(model.decoder.init(final, memory), torch.zeros(3, 2, dtype=torch.int64))
    _, state, _ = model.decoder.step(first, state, memory)
    together, _, _ = model.decoder.step(second, model.decoder.reorder(state, parents), memory)
    for b, n in itertools.product(range(3), range(3)):
        history = torch.tensor([[first[b, parents[b, n]], second[b, n]]])
        alone, _ = model(ids[b : b + 1], mask[b : b + 1], history)
        torch.testing.assert_close(together[b, n], alone[0, -1])


@torch.no_grad()
def test_alignment_is_the_mean_of_the_layers_and_gives_each_context(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(attention="memory")
    reads = []
    read = type(model.attention).read

    def record(attention: Any, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        reads.append(read(attention, query, memory))
        return reads[-1]

    monkeypatch.setattr(type(model.attention), "read", record)
    ids, mask = sources()
    memory, final = model.encode(ids, mask, trace=True)
    _, weights = model.decoder(targets(), model.decoder.init(final, memory), memory)
    states = model.encoder(model.embedding(ids), mask)[0]
    alignments = [model.attention.align(layer_weights, memory) for _, layer_weights in reads]
    assert len(reads) == 2
    for (context, _), alignment in zip(reads, alignments, strict=True):
        torch.testing.assert_close(alignment @ model.attention.values(states), context)
    torch.testing.assert_close(model.attention.align(weights, memory), (alignments[0] + alignments[1]) / 2)


def copy_self_attention(part: nn.MultiheadAttention, layer: Any) -> None:
    part.load_state_dict(
        {"in_proj_weight": layer.self_attention.W_qkv.weight, "out_proj.weight": layer.self_attention.W_o.weight}
    )


@torch.no_grad()
def test_encoder_equals_that_of_torch() -> None:
    model = build(decoder=False)
    reference = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True, bias=True).double()
    reference.self_attn = nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
    ids, mask = sources()
    states = model.encoder.inputs(model.embedding(ids), torch.arange(5))
    expected = states
    for block in model.encoder.blocks:
        copy_self_attention(reference.self_attn, block)
        for theirs, ours in (
            (reference.norm1, block.self_attention_norm),
            (reference.norm2, block.feed_forward_norm),
            (reference.linear1, block.feed_forward[0]),
            (reference.linear2, block.feed_forward[2]),
        ):
            theirs.load_state_dict(ours.state_dict())
        expected = reference.train()(expected, src_key_padding_mask=~mask)
    expected = nn.functional.layer_norm(expected, (8,)) * mask[..., None]
    states, final = model.encoder(model.embedding(ids), mask)
    torch.testing.assert_close(states, expected)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(final.hidden[row, 0], expected[row, :length].mean(0))


@torch.no_grad()
def test_decoder_equals_that_of_torch() -> None:
    """Its layers read the states with the softmax of W_query x · W_a h, which is attention with one head."""
    model = build()
    decoder = model.decoder
    reference = nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=True).double()
    reference.self_attn = nn.MultiheadAttention(8, 2, bias=False, batch_first=True).double()
    reference.multihead_attn = nn.MultiheadAttention(8, 1, bias=False, batch_first=True).double()
    ids, mask = sources()
    states = model.encoder(model.embedding(ids), mask)[0]
    target = targets()
    expected = decoder.embedding(target) * math.sqrt(6) @ decoder.inputs.project.weight.T + sinusoids(
        torch.arange(4), 8
    )
    for block in decoder.blocks:
        copy_self_attention(reference.self_attn, block)
        query = block.W_query.weight * math.sqrt(8)  # torch divides by the square root of the size
        projections = [query, model.attention.W_a_state.weight, torch.eye(8, dtype=torch.float64)]
        reference.multihead_attn.load_state_dict(
            {"in_proj_weight": torch.cat(projections), "out_proj.weight": block.W_context.weight}
        )
        for theirs, ours in (
            (reference.norm1, block.self_attention_norm),
            (reference.norm2, block.read_norm),
            (reference.norm3, block.feed_forward_norm),
            (reference.linear1, block.feed_forward[0]),
            (reference.linear2, block.feed_forward[2]),
        ):
            theirs.load_state_dict(ours.state_dict())
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


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_has_similar_gradients(kind: str) -> None:
    model = build(kind).float()
    gradients = []
    for mixed in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            logits, _ = model(*sources(), targets())
        logits.float().square().sum().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99


def test_dropout_applies_to_inputs_and_to_every_part_of_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("nmt.kernels.dropout.dropout", lambda x, p, training: calls.append(p) or x)
    build()(*sources(), targets())
    # Vaswani et al. (2017), §5.4: the inputs, and the result of each part. Encoder layers have two parts, decoder
    # layers three.
    assert len(calls) == 1 + 2 * 2 + 1 + 2 * 3


def test_sizes_that_do_not_match_are_rejected() -> None:
    attention = LuongAttention(state_size=8, query_size=8)
    settings = {"embedding": nn.Embedding(9, 6), "attention": attention}
    with pytest.raises(ValueError, match=r"^encoder\.heads=3: must divide encoder\.hidden_size=8; change"):
        TransformerEncoder(embedding_size=6, hidden_size=8, heads=3)
    with pytest.raises(ValueError, match=r"^decoder\.heads=3: must divide decoder\.hidden_size=8; change"):
        TransformerDecoder(**settings, hidden_size=8, heads=3)
    with pytest.raises(ValueError, match=r"^decoder\.tied=true: .* 8 inputs, but embeddings\.size=6; make"):
        TransformerDecoder(**settings, hidden_size=8, tied=True)
    nothing = NoAttention(state_size=8, query_size=8)
    with pytest.raises(ValueError, match=r"^attention=NoAttention: has no contexts.*; choose another attention"):
        TransformerDecoder(embedding=nn.Embedding(9, 6), attention=nothing, hidden_size=8)


def test_tied_output_is_the_embedding() -> None:
    decoder = {"_target_": "nmt.model.TransformerDecoder", "heads": 2, "tied": True}
    model = random_model(tiny_config(ATTENTIONS["luong"], decoder=decoder))
    assert model.decoder.output.weight is model.decoder.embedding.weight


def test_source_cannot_be_encoded_in_parts() -> None:
    assert not build().resumable


def test_unknown_self_attention_is_named() -> None:
    encoder = {"_target_": "nmt.model.TransformerEncoder", "self_attention": "linaer"}
    with pytest.raises(UserError, match=r"self_attention='linaer': must be softmax \| linear; did you mean linear?"):
        random_model(tiny_config(ATTENTIONS["luong"], encoder=encoder))
