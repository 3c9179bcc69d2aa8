"""Training equals decoding: a step at a time gives what the whole target gives, for every shape of decoder."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

from nmt.model import Seq2Seq
from nmt.model.build import build_model
from nmt.model.encoder import Final

ATTENTIONS = {
    "none": {"_target_": "nmt.attention.NoAttention"},
    "bahdanau": {"_target_": "nmt.attention.BahdanauAttention", "attention_size": 5},
    "luong": {"_target_": "nmt.attention.LuongAttention", "score": "general"},
    "memory": {"_target_": "nmt.attention.MemoryAttention", "slots": 3},
    "covariance": {"_target_": "nmt.attention.CovarianceAttention"},
}
LENGTHS = (5, 1, 3)


def build(
    attention: str = "bahdanau", *, bidirectional: bool = True, encoder_layers: int = 1, **decoder: Any
) -> Seq2Seq:
    torch.manual_seed(7)
    encoder = {"hidden_size": 6, "layers": encoder_layers, "bidirectional": bidirectional, "dropout": 0.3}
    config = {
        "embeddings": {"size": 4, "shared": False},
        "encoder": {"_target_": "nmt.model.LSTMEncoder", **encoder},
        "attention": ATTENTIONS[attention],
        "decoder": {"_target_": "nmt.model.LSTMDecoder", "hidden_size": 8, "dropout": 0.3, **decoder},
    }
    model = build_model(config, source_vocabulary=11, target_vocabulary=9, longest_source=6)
    return model.double().eval()


def sources(padding: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    size = max(LENGTHS) + padding
    ids = torch.randint(4, 11, (len(LENGTHS), size), generator=generator)
    return ids, torch.arange(size) < torch.tensor(LENGTHS)[:, None]


def without_dropout(model: Seq2Seq) -> Seq2Seq:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.decoder.lstm.dropout = 0.0
    return model


SHAPES = [
    {"layers": layers, "input_feeding": feeding, "output_layer": output}
    for layers, feeding, output in itertools.product((1, 2), (False, True), ("attentional", "direct"))
]


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_steps_equal_forward(attention: str, shape: dict[str, Any]) -> None:
    model = build(attention, encoder_layers=2, **shape)
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        memory, final = model.encode(*sources())
        start = model.decoder.init(final, memory)
        logits, weights = model.decoder(target, start, memory)
        state = start
        for t in range(4):
            one, state, read = model.decoder.step(target[:, t : t + 1], state, memory)
            torch.testing.assert_close(one[:, 0], logits[:, t])
            torch.testing.assert_close(read[:, 0], weights[:, t])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_of_a_target_are_those_of_its_steps(
    attention: str, shape: dict[str, Any], dtype: torch.dtype
) -> None:
    model = without_dropout(build(attention, encoder_layers=2, **shape)).to(dtype).train()
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))

    def gradients(steps: bool) -> dict[str, torch.Tensor]:
        model.zero_grad()
        memory, final = model.encode(*sources())
        state = model.decoder.init(final, memory)
        if steps:
            logits = []
            for t in range(4):
                one, state, _ = model.decoder.step(target[:, t : t + 1], state, memory)
                logits.append(one)
            found = torch.cat(logits, dim=1)
        else:
            found, _ = model.decoder(target, state, memory)
        found.square().sum().backward()
        return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}

    together, apart = gradients(steps=False), gradients(steps=True)
    assert together.keys() == apart.keys()
    for name, gradient in together.items():
        torch.testing.assert_close(gradient, apart[name], rtol=1e-4, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("encoder", ["two directions", "one direction", "one direction, resumable"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_training_drops_out_of_embeddings_between_layers_and_around_the_read(
    shape: dict[str, Any], encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a sine in place of chance: one sentence after the other, a step at a time."""

    def sine(x: torch.Tensor, p: float, training: bool = True) -> torch.Tensor:
        return (x / p).sin() if training else x

    monkeypatch.setattr("nmt.kernels.dropout.dropout", sine)
    monkeypatch.setattr("nmt.model.decoder.drop", sine)
    model = build("luong", bidirectional=encoder.startswith("two"), encoder_layers=2, **{**shape, "dropout": 0.6})
    ahead, back, decoder = model.encoder.forwards, model.encoder.backwards, model.decoder
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))
    ids, mask = sources()
    with torch.no_grad():
        memory, final = model.train().encode(ids, mask, resumable=encoder.endswith("resumable"))
        logits, _ = decoder(target, decoder.init(final, memory), memory)
        for row, length in enumerate(LENGTHS):
            states, ends = model.embedding(ids[row : row + 1, :length]), []
            for layer in range(2):
                states = sine(states, 0.3)
                right = ahead[layer](states)[0]
                left = back[layer](states.flip(1))[0] if back else right[..., :0]
                ends.append(torch.cat([right[:, -1], left[:, -1]], dim=1))
                states = torch.cat([right, left.flip(1)], dim=2)
            memory = model.attention.write(states, mask[row : row + 1, :length])
            start = decoder.init(Final(torch.stack(ends, dim=1), None), memory)
            at = [(start.hidden[:, 0, layer], start.cell[:, 0, layer]) for layer in range(shape["layers"])]
            fed = start.fed[:, 0]
            for t in range(4):
                below = torch.cat([sine(decoder.embedding(target[row : row + 1, t]), 0.6), fed], dim=1)
                for layer, weights in enumerate(decoder.lstm.all_weights):
                    at[layer] = torch.lstm_cell(sine(below, 0.6) if layer else below, at[layer], *weights)
                    below = at[layer][0]
                hidden = sine(below, 0.6)
                context = model.attention.read(hidden[:, None], memory)[0][:, 0]
                features = torch.cat([hidden, sine(context, 0.6)], dim=1)
                on = context
                if decoder.combine is not None:
                    on = features = sine(torch.tanh(decoder.combine(torch.cat([context, hidden], dim=1))), 0.6)
                fed = on if shape["input_feeding"] else fed
                torch.testing.assert_close(logits[row : row + 1, t], decoder.output(features))


@pytest.mark.parametrize(("encoder_layers", "layers"), [(2, 2), (1, 3), (2, 4)])
def test_each_layer_starts_from_its_own_and_further_ones_from_the_top(encoder_layers: int, layers: int) -> None:
    model = build(encoder_layers=encoder_layers, layers=layers)
    with torch.no_grad():
        memory, final = model.encode(*sources())
        start = model.decoder.init(final, memory)
        for layer, affine in enumerate(model.decoder.bridge.maps):
            end = final.hidden[:, layer if layer < encoder_layers else -1]
            expected = torch.tanh(end @ affine.weight.T + affine.bias)
            found = torch.cat([start.hidden[:, 0, layer], start.cell[:, 0, layer]], dim=1)
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mixed_precision_finds_the_same_gradients_roughly(shape: dict[str, Any]) -> None:
    model = build("luong", **shape).float()
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))
    found = []
    for mixed in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            logits, _ = model(*sources(), target)
        logits.float().square().sum().backward()
        found.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
    assert torch.cosine_similarity(*found, dim=0) > 0.99


@pytest.mark.parametrize("feeding", [False, True])
def test_hypotheses_of_a_sentence_share_its_memory(feeding: bool) -> None:
    """N hypotheses on the query axis give what N separate sentences give, also after a re-ordering."""
    model = build("luong", layers=2, input_feeding=feeding)
    ids, mask = sources()
    first = torch.tensor([[4, 5], [6, 4], [5, 5]])
    second = torch.tensor([[7, 4], [4, 8], [6, 5]])
    parents = torch.tensor([[1, 0], [1, 1], [0, 1]])
    with torch.no_grad():
        memory, final = model.encode(ids, mask)
        state = model.decoder.reorder(model.decoder.init(final, memory), torch.zeros(3, 2, dtype=torch.int64))
        _, state, _ = model.decoder.step(first, state, memory)
        together, _, _ = model.decoder.step(second, model.decoder.reorder(state, parents), memory)
        for b, n in itertools.product(range(3), range(2)):
            history = torch.tensor([[first[b, parents[b, n]], second[b, n]]])
            alone, _ = model(ids[b : b + 1], mask[b : b + 1], history)
            torch.testing.assert_close(together[b, n], alone[0, -1])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_padding_changes_nothing(attention: str, bidirectional: bool) -> None:
    model = build(attention, bidirectional=bidirectional, encoder_layers=2)
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        ids, mask = sources(padding=4)
        padded, _ = model(ids, mask, target)
        for row, length in enumerate(LENGTHS):
            alone, _ = model(ids[row : row + 1, :length], mask[row : row + 1, :length], target[row : row + 1])
            torch.testing.assert_close(padded[row : row + 1], alone)


def test_bidirectional_encoder_equals_packed_lstm() -> None:
    """Against PyTorch's own bidirectional LSTM over packed sequences, with the same weights."""
    model = build(encoder_layers=2)
    encoder = model.encoder
    naive = torch.nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True).double()
    weights = {}
    for layer, (ahead, back) in enumerate(zip(encoder.forwards, encoder.backwards, strict=True)):
        for suffix, lstm in (("", ahead), ("_reverse", back)):
            weights |= {f"{name[:-1]}{layer}{suffix}": value for name, value in lstm.state_dict().items()}
    naive.load_state_dict(weights)
    ids, mask = sources()
    embedded = model.embedding(ids)
    packed = torch.nn.utils.rnn.pack_padded_sequence(embedded, torch.tensor(LENGTHS), True, False)
    outputs, (hidden, _) = naive(packed)
    expected = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)[0]
    states, final = encoder(embedded, mask)
    torch.testing.assert_close(states * mask[..., None], expected)
    torch.testing.assert_close(final.hidden[:, 1], torch.cat([hidden[2], hidden[3]], dim=1))


def test_one_direction_continues_where_it_stopped() -> None:
    model = build(bidirectional=False, encoder_layers=2)
    ids, _ = sources()
    embedded, mask = model.embedding(ids), torch.ones_like(ids, dtype=torch.bool)
    whole, end = model.encoder(embedded, mask, resumable=True)
    first, state = model.encoder(embedded[:, :2], mask[:, :2], resumable=True)
    rest, final = model.encoder(embedded[:, 2:], mask[:, 2:], state)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), whole)
    torch.testing.assert_close(final.cell, end.cell)


def test_one_direction_in_a_padded_call_is_that_of_a_packed_one() -> None:
    model = build(bidirectional=False, encoder_layers=2)
    ids, mask = sources()
    embedded = model.embedding(ids)
    padded, end = model.encoder(embedded, mask)
    packed, same = model.encoder(embedded, mask, resumable=True)
    torch.testing.assert_close(padded * mask[..., None], packed * mask[..., None])
    torch.testing.assert_close(end.hidden, same.hidden)
    assert end.cell is None and same.cell is not None


def test_two_directions_refuse_to_continue() -> None:
    model = build()
    ids, mask = sources()
    _, final = model.encoder(model.embedding(ids), mask)
    with pytest.raises(ValueError, match="bidirectional"):
        model.encoder(model.embedding(ids), mask, final)


def test_tied_output_is_the_embedding() -> None:
    model = build(hidden_size=4, tied=True)
    assert model.decoder.output.weight is model.decoder.embedding.weight
