"""Laws of low-rank adaptation (Hu et al. 2021): it starts as no change, trains A and B alone, and merges exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from builders import LUONG, MEMORY, random_model, self_attention, tiny_config
from model.small_models import by_steps, sources, targets
from torch import Tensor
from torch.nn.utils.parametrize import cached

from nmt.kernels.output_loss import output_loss
from nmt.model import Seq2Seq
from nmt.model.adapter import PARTS, adapt, adapt_problem, add_updates, merge, updates

TRANSFORMER = {"hidden_size": 8, "layers": 1, "heads": 2, "feedforward_size": 12}
BAHDANAU = {"_target_": "nmt.attention.BahdanauAttention", "attention_size": 6}
HEADS = {"_target_": "nmt.attention.MultiHeadAttention", "heads": 2, "inner": LUONG}
CONFIGS: dict[str, Callable[[], dict[str, Any]]] = {
    "lstm": lambda: tiny_config(MEMORY, embeddings=6, shared=False, encoder={"layers": 2}, decoder={"layers": 2}),
    "one direction": lambda: tiny_config(HEADS, embeddings=6, encoder={"bidirectional": False}),
    "input feeding": lambda: tiny_config(BAHDANAU, decoder={"input_feeding": True, "output_layer": "direct"}),
    "gru": lambda: tiny_config(
        BAHDANAU,
        encoder={"_target_": "nmt.model.GRUEncoder"},
        decoder={"_target_": "nmt.model.GRUDecoder", "layers": 2, "input_feeding": True},
    ),
    "ssru": lambda: tiny_config(MEMORY, decoder={"_target_": "nmt.model.SSRUDecoder", "layers": 2}),
    "tied": lambda: tiny_config(MEMORY, decoder={"tied": True}),
    "tied, two tables": lambda: tiny_config(MEMORY, shared=False, decoder={"tied": True, "input_feeding": True}),
    "softmax": lambda: transformer("softmax", tied=True),
    "linear": lambda: transformer("linear", tied=False),
}
RANK, ALPHA = 2, 3.0


def transformer(kind: str, *, tied: bool) -> dict[str, Any]:
    blocks = {part: {"_target_": f"nmt.model.Transformer{part.title()}"} for part in ("encoder", "decoder")}
    for block in blocks.values():
        block.update({**TRANSFORMER, "self_attention": self_attention(kind)})  # type: ignore[dict-item]
    return tiny_config(MEMORY, encoder=blocks["encoder"], decoder={**blocks["decoder"], "tied": tied})


def build(name: str) -> Seq2Seq:
    return random_model(CONFIGS[name](), vocabulary=(11, 11), longest_source=6, seed=7).double()


def adapted(name: str, **settings: Any) -> Seq2Seq:
    """Return an adapted model whose B are random instead of 0."""
    model = build(name)
    adapt(model, **{"rank": RANK, "alpha": ALPHA, **settings})
    torch.manual_seed(3)
    with torch.no_grad():
        for update in updates(model).values():
            update.B.normal_()
    return model


def loss(model: Seq2Seq) -> Tensor:
    real = torch.arange(4) < torch.tensor([2, 4, 3])[:, None]
    with cached():
        features = model.features(*sources(), targets())
        return output_loss(model.decoder.output, features, targets().flip(1), real)


def logits(model: Seq2Seq) -> Tensor:
    """Return the logits of a complete target, and those of single steps."""
    return torch.stack([model(*sources(), targets())[0], by_steps(model, targets())[0]])


def with_sums(name: str, model: Seq2Seq) -> Seq2Seq:
    """Return a plain model with the weights W + (α / r) B A of the adapted ``model``, computed one by one."""
    plain = build(name)
    weights = plain.state_dict()
    for matrix, update in updates(model).items():
        for row, column in itertools.product(*map(range, weights[matrix].shape)):
            weights[matrix][row, column] += ALPHA / RANK * (update.B[row] * update.A[:, column]).sum().item()
    plain.load_state_dict(weights)
    return plain


@pytest.mark.parametrize("name", CONFIGS)
def test_adapted_model_starts_as_the_base(name: str) -> None:
    model = build(name)
    expected, before = logits(model), loss(model)
    adapt(model, rank=RANK, alpha=ALPHA)
    assert torch.equal(logits(model), expected)
    assert torch.equal(loss(model), before)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.float64) for name in CONFIGS), ("lstm", torch.float32), ("input feeding", torch.float32)],
)
def test_every_path_uses_the_sums_and_their_gradients(name: str, dtype: torch.dtype) -> None:
    """The gradients of A and B follow from the gradient G of the sum: s Bᵀ G and s G Aᵀ."""
    model = adapted(name).train()  # without dropout
    plain = with_sums(name, model).train().to(dtype)
    model.to(dtype)
    tolerance: Any = {"rtol": 0, "atol": 1e-10 if dtype == torch.float64 else 1e-4}
    torch.testing.assert_close(logits(model), logits(plain), **tolerance)
    losses = loss(model), loss(plain)
    torch.testing.assert_close(*losses, **tolerance)
    for value in losses:
        value.backward()
    weights, scale = dict(plain.named_parameters()), ALPHA / RANK
    for matrix, update in updates(model).items():
        grad = weights[matrix].grad
        assert grad is not None and grad.abs().max() > 0
        torch.testing.assert_close(update.A.grad, scale * update.B.t() @ grad, **tolerance)
        torch.testing.assert_close(update.B.grad, scale * grad @ update.A.t(), **tolerance)
    assert all(weight.grad is None for key, weight in model.named_parameters() if not key.endswith((".A", ".B")))


@pytest.mark.parametrize("name", CONFIGS)
def test_merged_model_equals_the_unmerged_one_and_is_plain(name: str) -> None:
    """So does a plain model to which the updates were added."""
    model, plain = adapted(name), build(name)
    expected = logits(model)
    tensors = {matrix: (update.A.detach(), update.B.detach()) for matrix, update in updates(model).items()}
    add_updates(plain, tensors, scale=ALPHA / RANK)
    merge(model)
    assert torch.equal(logits(model), expected)
    assert torch.equal(logits(plain), expected)
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert all(weight.requires_grad for weight in model.parameters())
    torch.testing.assert_close(logits(deepcopy(model)), expected)
    tied = CONFIGS[name]()["decoder"].get("tied", False)
    assert (model.decoder.output.weight is model.decoder.embedding.weight) == tied


@pytest.mark.parametrize("parts", [*itertools.combinations(PARTS, 1), ("encoder", "embeddings"), PARTS], ids=str)
@pytest.mark.parametrize("name", ["lstm", "tied, two tables", "softmax"])
def test_only_the_chosen_parts_are_adapted(name: str, parts: tuple[str, ...]) -> None:
    model = adapted(name, parts=parts)
    prefixes = {"encoder": "encoder.", "attention": "attention.", "embeddings": ("embedding.", "decoder.embedding.")}
    adapted_parts = set()
    for matrix in updates(model):
        adapted_parts.add(next((part for part, prefix in prefixes.items() if matrix.startswith(prefix)), "decoder"))
    assert adapted_parts == set(parts)
    torch.testing.assert_close(logits(model), logits(with_sums(name, model)), rtol=0, atol=1e-10)


def test_state_of_an_adapted_model_is_its_updates() -> None:
    model, other = adapted("tied"), build("tied")
    state = model.state_dict()
    assert {name.rpartition(".")[2] for name in state} == {"A", "B"}
    adapt(other, rank=RANK, alpha=ALPHA)
    other.load_state_dict(state)
    assert torch.equal(logits(other), logits(model))
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({name: value for name, value in state.items() if "embedding" not in name})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict({**state, "more": torch.zeros(1)})


def test_rank_and_parts_without_a_matrix_are_refused() -> None:
    model = random_model(tiny_config({"_target_": "nmt.attention.LuongAttention", "score": "dot"}))
    assert adapt_problem(model, rank=8, parts=PARTS) is None
    assert adapt_problem(model, rank=9, parts=["encoder"]) == (
        "adapt.rank=9: larger than the shorter side of every matrix in encoder; use 8 or less"
    )
    with pytest.raises(ValueError, match=r"adapt\.to=\[attention\]: no matrices to adapt there; add another part of"):
        adapt(model, rank=1, alpha=1, parts=["attention"])
    assert all(weight.requires_grad for weight in model.parameters())
