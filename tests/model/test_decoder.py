"""Recurrent layers equal naive loops and torch's packed layers, and the encoder can continue a source."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model.small_models import LENGTHS, SHAPES, build, recurrent, sources, targets

from nmt.model.encoder import Final


def naive_step(
    unit: str, inputs: torch.Tensor, state: tuple[torch.Tensor, ...], weights: list[torch.Tensor]
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Return the next state and the output of a layer, by torch's cells or by the equations of the papers."""
    if unit == "LSTM":
        hidden, cell = torch.lstm_cell(inputs, state, *weights)
        return (hidden, cell), hidden
    if unit == "GRU":
        hidden = torch.gru_cell(inputs, *state, *weights)
        return (hidden,), hidden
    forget, candidate = (inputs @ weight.T + bias for weight, bias in zip(*(w.chunk(2) for w in weights), strict=True))
    if unit == "SSRU":  # Kim et al. (2019)
        forget = torch.sigmoid(forget)
        cell = forget * state[0] + (1 - forget) * candidate
        return (cell,), torch.relu(cell)
    update = torch.sigmoid(-forget)  # Feng et al. (2024), with W_z = −W_f
    hidden = (1 - update) * state[0] + update * candidate
    return (hidden,), hidden


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout_applies_to_embeddings_between_layers_and_around_attention(
    shape: dict[str, Any], bidirectional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sine replaces dropout, so that a naive loop over sentences and steps can be compared."""

    def sine(x: torch.Tensor, p: float, training: bool = True) -> torch.Tensor:
        return (x / p).sin() if training else x

    monkeypatch.setattr("nmt.kernels.dropout.dropout", sine)
    monkeypatch.setattr("nmt.model.decoder.drop", sine)
    config = recurrent("luong", bidirectional=bidirectional, **shape, dropout=0.6)
    config["encoder"]["dropout"] = 0.3
    model = build(config)
    forward_lstms, backward_lstms = model.encoder.forwards, model.encoder.backwards
    decoder = model.decoder
    target = targets()
    ids, mask = sources()
    with torch.no_grad():
        memory, final = model.train().encode(ids, mask)
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
                    state[layer], inputs = naive_step(shape.get("unit", "LSTM"), inputs, state[layer], weights)
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
    model = build(recurrent(encoder_layers=encoder_layers, layers=layers))
    with torch.no_grad():
        memory, final = model.encode(*sources())
        start = model.decoder.init(final, memory)
        for layer, affine in enumerate(model.decoder.bridge.maps):
            end = final.hidden[:, layer if layer < encoder_layers else -1]
            expected = torch.tanh(end @ affine.weight.T + affine.bias)
            torch.testing.assert_close(torch.cat(start.layers[layer], dim=2)[:, 0], expected)


def test_bidirectional_encoder_cannot_continue() -> None:
    model = build(recurrent())
    ids, mask = sources()
    _, final = model.encoder(model.embedding(ids), mask)
    with pytest.raises(ValueError, match="encoder.bidirectional=true: cannot continue a source"):
        model.encoder(model.embedding(ids), mask, final)
