"""Claims of the papers that are not equations of an attention, each as a test of the attention that they are about."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nmt.attention import CovarianceAttention, KernelAttention, LowRankAttention
from nmt.model import TransformerDecoder
from nmt.self_attention import LowRankSelfAttention
from nmt.testing import write_and_read

SIZE, LENGTH = 4, 6


def test_gradient_of_the_covariance_needs_no_stored_sums() -> None:
    """de Brébisson & Vincent (2016), §3.3: ∇h_s = q (h_sᵀ ∇) + ∇ (h_sᵀ q), from the gradient ∇ of the context alone."""
    torch.manual_seed(1)
    states = torch.randn(LENGTH, SIZE, dtype=torch.float64, requires_grad=True)
    query, gradient = torch.randn(2, SIZE, dtype=torch.float64).unbind()
    attention = CovarianceAttention(state_size=SIZE, query_size=SIZE, mean=False).double()
    context, *_ = write_and_read(attention, states[None], torch.ones(1, LENGTH, dtype=torch.bool), query[None, None])
    context[0, 0].backward(gradient)
    h = states.detach()
    expected = torch.outer(h @ gradient, query) + torch.outer(h @ query, gradient)
    torch.testing.assert_close(states.grad, expected)


def test_reading_a_covariance_with_a_stored_state_returns_its_squared_norm_times_it() -> None:
    """The same paper, §4: C f measures how much of f is stored in C. For orthogonal states, C f = ‖f‖² f."""
    states = torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))[:3]
    attention = CovarianceAttention(state_size=SIZE, query_size=SIZE, mean=False).double()
    memory = attention.write(states[None], torch.ones(1, 3, dtype=torch.bool))
    contexts, _ = attention.read(states[None], memory)
    torch.testing.assert_close(contexts[0], states.square().sum(1, keepdim=True) * states)
    unknown, _ = attention.read(torch.eye(SIZE, dtype=torch.float64)[None, 3:], memory)
    assert unknown.abs().max() == 0


def test_rows_of_efficient_attention_sum_to_one() -> None:
    """Shen et al. (2018): each row of softmax(Q) softmax(K)ᵀ is a distribution, like a row of softmax(Q Kᵀ)."""
    torch.manual_seed(1)
    attention = KernelAttention(state_size=SIZE, query_size=SIZE, feature_map="softmax").double()
    states, queries = torch.randn(1, LENGTH, SIZE).double(), torch.randn(1, 3, SIZE).double()
    rows = write_and_read(attention, states, torch.ones(1, LENGTH, dtype=torch.bool), queries)[2][0]
    assert (rows >= 0).all()
    torch.testing.assert_close(rows.sum(1), torch.ones(3, dtype=torch.float64))


def test_no_slot_of_linformer_can_be_hidden_to_make_it_causal() -> None:
    """Wang et al. (2020): every slot mixes all positions, so a mask over slots cannot hide the later ones alone."""
    torch.manual_seed(1)
    attention = LowRankAttention(state_size=SIZE, query_size=SIZE, slots=3, max_length=LENGTH).double()
    states = torch.randn(1, LENGTH, SIZE, dtype=torch.float64, requires_grad=True)
    memory = attention.write(states, torch.ones(1, LENGTH, dtype=torch.bool))
    for slot in memory.slots[0]:
        (gradient,) = torch.autograd.grad(slot.sum(), states, retain_graph=True)
        assert (gradient[0].abs().sum(1) > 0).all()


def test_linformer_cannot_be_the_self_attention_of_a_decoder() -> None:
    """Su Jianlin (2020): after the mixing, no mask can hide later positions; the first output depends on the last."""
    torch.manual_seed(1)
    attention = LowRankSelfAttention(size=SIZE, heads=1, slots=3, max_length=LENGTH).double()
    states = torch.randn(1, LENGTH, SIZE, dtype=torch.float64, requires_grad=True)
    output = attention(states, torch.ones(1, LENGTH, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(output[0, 0].sum(), states)
    assert gradient[0, -1].any()
    with pytest.raises(ValueError, match=r"^decoder\.self_attention=LowRankSelfAttention: each slot mixes .*; choose"):
        TransformerDecoder(
            embedding=nn.Embedding(9, 6),
            attention=KernelAttention(state_size=8, query_size=8),
            hidden_size=8,
            self_attention=LowRankSelfAttention,
        )
