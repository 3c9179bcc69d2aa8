"""Laws of all models: steps equal teacher forcing, padding changes nothing, hypotheses share a memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import require_bfloat16_lstm
from model.small_models import KINDS, LENGTHS, SHAPES, build, by_steps, recurrent, sources, targets, transformers
from torch import Tensor

from nmt.model import Seq2Seq

SINGLE_HEADS = ("none", "bahdanau", "luong", "memory", "covariance")
MODELS: dict[str, dict[str, Any]] = {
    **{f"luong, {shape}": recurrent("luong", **shape) for shape in SHAPES},
    **{f"{name}, {shape}": recurrent(name, **shape) for name in SINGLE_HEADS for shape in SHAPES[2:16:5]},
    **{f"{name}, one direction": recurrent(name, bidirectional=False) for name in SINGLE_HEADS},
    "memory, GRU, one direction": recurrent("memory", unit="GRU", bidirectional=False),
    **{
        f"{name}, Transformer {kind}": transformers(kind, name)
        for name in ("luong", "memory", "multi_head", "paper", "located_memory")
        for kind in KINDS
    },
    "luong, Transformer encoder, LSTM": transformers(decoder=False),
    "luong, LSTM, Transformer decoder": transformers(encoder=False),
}
WITH_LUONG = [name for name in MODELS if name.startswith("luong")]


def gradients(model: Seq2Seq, *outputs: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    sum(output.float().square().sum() for output in outputs).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MODELS)
def test_steps_equal_teacher_forcing_with_the_same_gradients(name: str, dtype: torch.dtype) -> None:
    tolerance = 1e-4 if dtype == torch.float32 else 1e-6
    model = build(MODELS[name]).to(dtype)
    target = targets(70 if name.startswith("luong, Transformer") else 4)  # a chunk has 64 positions
    with torch.no_grad():
        for left, right in zip(model(*sources(), target), by_steps(model, target), strict=True):
            torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)
    model.train()
    forward, steps = (gradients(model, *outputs) for outputs in (model(*sources(), target), by_steps(model, target)))
    assert forward.keys() == steps.keys()
    for key, gradient in forward.items():
        torch.testing.assert_close(gradient, steps[key], rtol=tolerance, atol=tolerance, msg=key)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_padding_changes_nothing(name: str) -> None:
    model, target = build(MODELS[name]), targets()
    ids, mask = sources(padding=4)
    memory, final = model.encode(ids, mask, trace=True)
    padded, weights = model.decoder(target, model.decoder.init(final, memory), memory)
    alignment = model.attention.align(weights, memory)
    for row, length in enumerate(LENGTHS):
        alone = ids[row : row + 1, :length], mask[row : row + 1, :length]
        torch.testing.assert_close(padded[row : row + 1], model(*alone, target[row : row + 1])[0])
        torch.testing.assert_close(final.hidden[row], model.encode(*alone)[1].hidden[0])
        assert not alignment[row, :, length:].any()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_hypotheses_that_change_places_share_the_memory_of_their_sentence(name: str) -> None:
    """N hypotheses on the query axis equal N separate sentences, also when N grows."""
    model, generator = build(MODELS[name]), torch.Generator().manual_seed(8)
    memory, final = model.encode(*sources())
    state, history = model.decoder.init(final, memory), torch.zeros(len(LENGTHS), 1, 0, dtype=torch.int64)
    for beams in (2, 3, 3, 3):
        parents = torch.randint(0, history.shape[1], (len(LENGTHS), beams), generator=generator)
        tokens = torch.randint(4, 9, (len(LENGTHS), beams), generator=generator)
        logits, state, _ = model.decoder.step(tokens, model.decoder.reorder(state, parents), memory)
        history = torch.cat([history[torch.arange(len(LENGTHS))[:, None], parents], tokens[..., None]], dim=2)
    for beam in range(3):
        expected, _ = model(*sources(), history[:, beam])
        torch.testing.assert_close(logits[:, beam], expected[:, -1])


@pytest.mark.parametrize("name", WITH_LUONG)
def test_mixed_precision_has_similar_gradients(name: str) -> None:
    if not all("Transformer" in MODELS[name][part]["_target_"] for part in ("encoder", "decoder")):
        require_bfloat16_lstm()
    model, both = build(MODELS[name]).float(), []
    for mixed in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            logits, _ = model(*sources(), targets())
        both.append(torch.cat([gradient.flatten() for gradient in gradients(model, logits).values()]))
    assert torch.cosine_similarity(*both, dim=0) > 0.99


@pytest.mark.parametrize("name", WITH_LUONG)
def test_models_can_be_built_on_the_meta_device(name: str) -> None:
    """Sizes can then be checked without allocating memory."""
    with torch.device("meta"):
        model = build(MODELS[name])
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
