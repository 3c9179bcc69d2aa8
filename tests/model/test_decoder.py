"""Decoder steps equal teacher forcing, and the encoder equals torch's packed layers, for every setting and unit."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from builders import random_model, require_bfloat16_lstm, tiny_config
from torch import nn

from nmt import kernels
from nmt.attention import LuongAttention
from nmt.model import LSTMDecoder, LSTMEncoder, Seq2Seq
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
    attention: str = "bahdanau",
    *,
    unit: str = "LSTM",
    bidirectional: bool = True,
    encoder_layers: int = 1,
    **decoder: Any,
) -> Seq2Seq:
    encoder = {"hidden_size": 6, "layers": encoder_layers, "bidirectional": bidirectional, "dropout": 0.3}
    encoder["_target_"] = f"nmt.model.{unit}Encoder"
    decoder = {"dropout": 0.3, "_target_": f"nmt.model.{unit}Decoder", **decoder}
    config = tiny_config(ATTENTIONS[attention], embeddings=4, shared=False, encoder=encoder, decoder=decoder)
    return random_model(config, vocabulary=(11, 9), longest_source=6, seed=7).double()


def sources(padding: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    size = max(LENGTHS) + padding
    ids = torch.randint(4, 11, (len(LENGTHS), size), generator=generator)
    return ids, torch.arange(size) < torch.tensor(LENGTHS)[:, None]


def without_dropout(model: Seq2Seq) -> Seq2Seq:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.decoder.layers.dropout = 0.0
    return model


SHAPES = [
    {"layers": layers, "input_feeding": feeding, "output_layer": output}
    for layers, feeding, output in itertools.product((1, 2), (False, True), ("attentional", "direct"))
]
SHAPES += [{"unit": "GRU", **SHAPES[index]} for index in (2, 4, 7)]
UNITS = pytest.mark.parametrize("unit", ["LSTM", "GRU"])


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
            step_logits, state, step_weights = model.decoder.step(target[:, t : t + 1], state, memory)
            torch.testing.assert_close(step_logits[:, 0], logits[:, t])
            torch.testing.assert_close(step_weights[:, 0], weights[:, t])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_of_steps_equal_those_of_forward(attention: str, shape: dict[str, Any], dtype: torch.dtype) -> None:
    model = without_dropout(build(attention, encoder_layers=2, **shape)).to(dtype).train()
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))

    def gradients(steps: bool) -> dict[str, torch.Tensor]:
        model.zero_grad()
        memory, final = model.encode(*sources())
        state = model.decoder.init(final, memory)
        if steps:
            logits = []
            for t in range(4):
                step_logits, state, _ = model.decoder.step(target[:, t : t + 1], state, memory)
                logits.append(step_logits)
            output = torch.cat(logits, dim=1)
        else:
            output, _ = model.decoder(target, state, memory)
        output.square().sum().backward()
        return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}

    forward, steps = gradients(steps=False), gradients(steps=True)
    assert forward.keys() == steps.keys()
    for name, gradient in forward.items():
        torch.testing.assert_close(gradient, steps[name], rtol=1e-4, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("encoder", ["two directions", "one direction", "one direction, resumable"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout_applies_to_embeddings_between_layers_and_around_attention(
    shape: dict[str, Any], encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sine replaces dropout, so that a naive loop over sentences and steps can be compared."""
    if not kernels.enabled() and shape["layers"] > 1 and not shape["input_feeding"]:
        pytest.skip("NMT_KERNELS=off: nn.LSTM applies its own dropout between layers, which a sine cannot replace")

    def sine(x: torch.Tensor, p: float, training: bool = True) -> torch.Tensor:
        return (x / p).sin() if training else x

    monkeypatch.setattr("nmt.kernels.dropout.dropout", sine)
    monkeypatch.setattr("nmt.model.decoder.drop", sine)
    model = build("luong", bidirectional=encoder.startswith("two"), encoder_layers=2, **{**shape, "dropout": 0.6})
    forward_lstms, backward_lstms = model.encoder.forwards, model.encoder.backwards
    decoder = model.decoder
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))
    ids, mask = sources()
    with torch.no_grad():
        memory, final = model.train().encode(ids, mask, resumable=encoder.endswith("resumable"))
        logits, _ = decoder(target, decoder.init(final, memory), memory)
        for row, length in enumerate(LENGTHS):
            states, ends = model.embedding(ids[row : row + 1, :length]), []
            for layer in range(2):
                states = sine(states, 0.3)
                forward = forward_lstms[layer](states)[0]
                backward = backward_lstms[layer](states.flip(1))[0] if backward_lstms else forward[..., :0]
                ends.append(torch.cat([forward[:, -1], backward[:, -1]], dim=1))
                states = torch.cat([forward, backward.flip(1)], dim=2)
            memory = model.attention.write(states, mask[row : row + 1, :length])
            start = decoder.init(Final(torch.stack(ends, dim=1), None), memory)
            state = [tuple(part[:, 0] for part in parts) for parts in start.layers]
            input_feed = start.input_feed[:, 0] if shape["input_feeding"] else states[:, 0, :0]
            for t in range(4):
                inputs = torch.cat([sine(decoder.embedding(target[row : row + 1, t]), 0.6), input_feed], dim=1)
                for layer, weights in enumerate(decoder.layers.all_weights):
                    inputs = sine(inputs, 0.6) if layer else inputs
                    if "unit" in shape:
                        state[layer] = (torch.gru_cell(inputs, *state[layer], *weights),)
                    else:
                        state[layer] = torch.lstm_cell(inputs, state[layer], *weights)
                    inputs = state[layer][0]
                hidden = sine(inputs, 0.6)
                context = model.attention.read(hidden[:, None], memory)[0][:, 0]
                features = torch.cat([hidden, sine(context, 0.6)], dim=1)
                output = context
                if decoder.combine is not None:
                    output = features = sine(torch.tanh(decoder.combine(torch.cat([context, hidden], dim=1))), 0.6)
                input_feed = output if shape["input_feeding"] else input_feed
                torch.testing.assert_close(logits[row : row + 1, t], decoder.output(features))


@pytest.mark.parametrize(("encoder_layers", "layers"), [(2, 2), (1, 3), (2, 4)])
def test_decoder_layers_start_from_encoder_layers(encoder_layers: int, layers: int) -> None:
    model = build(encoder_layers=encoder_layers, layers=layers)
    with torch.no_grad():
        memory, final = model.encode(*sources())
        start = model.decoder.init(final, memory)
        for layer, affine in enumerate(model.decoder.bridge.maps):
            end = final.hidden[:, layer if layer < encoder_layers else -1]
            expected = torch.tanh(end @ affine.weight.T + affine.bias)
            torch.testing.assert_close(torch.cat(start.layers[layer], dim=2)[:, 0], expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mixed_precision_has_similar_gradients(shape: dict[str, Any]) -> None:
    require_bfloat16_lstm()
    model = build("luong", **shape).float()
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))
    gradients = []
    for mixed in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            logits, _ = model(*sources(), target)
        logits.float().square().sum().backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99


@pytest.mark.parametrize("feeding", [False, True])
@UNITS
def test_hypotheses_of_a_sentence_share_its_memory(unit: str, feeding: bool) -> None:
    """N hypotheses on the query axis equal N separate sentences, also after reordering."""
    model = build("luong", unit=unit, layers=2, input_feeding=feeding)
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
@pytest.mark.parametrize(("unit", "attention"), [*itertools.product(["LSTM"], ATTENTIONS), ("GRU", "memory")])
def test_padding_changes_nothing(unit: str, attention: str, bidirectional: bool) -> None:
    model = build(attention, unit=unit, bidirectional=bidirectional, encoder_layers=2)
    target = torch.randint(4, 9, (3, 4), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        ids, mask = sources(padding=4)
        padded, _ = model(ids, mask, target)
        for row, length in enumerate(LENGTHS):
            alone, _ = model(ids[row : row + 1, :length], mask[row : row + 1, :length], target[row : row + 1])
            torch.testing.assert_close(padded[row : row + 1], alone)


@UNITS
def test_bidirectional_encoder_equals_packed_layers(unit: str) -> None:
    """Compared with PyTorch's own bidirectional layers over packed sequences, with the same weights."""
    model = build(unit=unit, encoder_layers=2)
    encoder = model.encoder
    naive = encoder.unit.layers(4, 3, num_layers=2, bidirectional=True, batch_first=True).double()
    weights = {}
    for layer, (forward_lstm, backward_lstm) in enumerate(zip(encoder.forwards, encoder.backwards, strict=True)):
        for suffix, lstm in (("", forward_lstm), ("_reverse", backward_lstm)):
            weights |= {f"{name[:-1]}{layer}{suffix}": value for name, value in lstm.state_dict().items()}
    naive.load_state_dict(weights)
    ids, mask = sources()
    embedded = model.embedding(ids)
    packed = torch.nn.utils.rnn.pack_padded_sequence(embedded, torch.tensor(LENGTHS), True, False)
    outputs, end = naive(packed)
    hidden = end[0] if unit == "LSTM" else end
    expected = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)[0]
    states, final = encoder(embedded, mask)
    torch.testing.assert_close(states * mask[..., None], expected)
    torch.testing.assert_close(final.hidden[:, 1], torch.cat([hidden[2], hidden[3]], dim=1))


@UNITS
def test_resumed_encoder_equals_one_call(unit: str) -> None:
    model = build(unit=unit, bidirectional=False, encoder_layers=2)
    ids, _ = sources()
    embedded, mask = model.embedding(ids), torch.ones_like(ids, dtype=torch.bool)
    states, end = model.encoder(embedded, mask, resumable=True)
    first, state = model.encoder(embedded[:, :2], mask[:, :2], resumable=True)
    rest, final = model.encoder(embedded[:, 2:], mask[:, 2:], state)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), states)
    torch.testing.assert_close(final, end)


@UNITS
def test_sources_that_end_in_an_earlier_part_keep_their_final_state(unit: str) -> None:
    model = build(unit=unit, bidirectional=False, encoder_layers=2)
    embedded = model.embedding(sources()[0])[:, :4]
    mask = torch.arange(4) < torch.tensor([4, 1, 2])[:, None]
    expected, end = model.encoder(embedded, mask, resumable=True)
    parts, state = [], None
    for s in range(4):
        states, state = model.encoder(embedded[:, s : s + 1], mask[:, s : s + 1], state, resumable=True)
        parts.append(states)
    torch.testing.assert_close(torch.cat(parts, dim=1)[mask], expected[mask])
    torch.testing.assert_close(state, end)


def test_padded_encoder_equals_packed_encoder() -> None:
    model = build(bidirectional=False, encoder_layers=2)
    ids, mask = sources()
    embedded = model.embedding(ids)
    padded, end = model.encoder(embedded, mask)
    packed, packed_end = model.encoder(embedded, mask, resumable=True)
    torch.testing.assert_close(padded * mask[..., None], packed * mask[..., None])
    torch.testing.assert_close(end.hidden, packed_end.hidden)
    assert end.cell is None and packed_end.cell is not None


def test_bidirectional_encoder_cannot_continue() -> None:
    model = build()
    ids, mask = sources()
    _, final = model.encoder(model.embedding(ids), mask)
    with pytest.raises(ValueError, match="encoder.bidirectional=true: cannot continue a source"):
        model.encoder(model.embedding(ids), mask, final)


def test_tied_output_is_the_embedding() -> None:
    model = build(hidden_size=4, tied=True)
    assert model.decoder.output.weight is model.decoder.embedding.weight


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_models_can_be_built_on_the_meta_device(shape: dict[str, Any]) -> None:
    """Sizes can then be checked without allocating memory."""
    with torch.device("meta"):
        model = build("luong", encoder_layers=2, **shape)
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_sizes_that_do_not_match_are_rejected(device: str) -> None:
    attention = LuongAttention(state_size=6, query_size=6)
    with torch.device(device):
        with pytest.raises(ValueError, match=r"^encoder\.hidden_size=7: must be even .*; use 8"):
            LSTMEncoder(embedding_size=4, hidden_size=7)
        LSTMEncoder(embedding_size=4, hidden_size=7, bidirectional=False)
        with pytest.raises(ValueError, match=r"^decoder\.tied=true: .* 6 inputs, but embeddings\.size=4; make"):
            LSTMDecoder(
                embedding=nn.Embedding(9, 4),
                attention=attention,
                encoder_layers=1,
                state_size=6,
                hidden_size=6,
                tied=True,
            )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("kind", "settings"), [("Delta", {"key_size": 5}), *(("GeneralCovariance", {"recall": r}) for r in (False, True))]
)
def test_model_in_half_precision_stays_close(kind: str, settings: dict[str, Any], dtype: torch.dtype) -> None:
    config = tiny_config({"_target_": f"nmt.attention.{kind}Attention", **settings})
    model = random_model(config, vocabulary=11, longest_source=6, scale=2.0).double()
    ids, mask = sources()
    target = torch.randint(4, 11, (len(LENGTHS), 4), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        exact, _ = model(ids, mask, target)
        rough, _ = model.to(dtype)(ids, mask, target)
    assert rough.dtype == dtype
    assert (rough - exact).norm() < 0.05 * exact.norm()
