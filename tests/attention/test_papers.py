"""Contexts, alignments and gradients of every attention equal those of the loops in ``naive``."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest
import torch
from attention import naive
from attention.naive import Result

import nmt.attention as kinds
from nmt.attention import LuongAttention, MultiHeadAttention, NestedMemoryAttention, StretchMemoryAttention
from nmt.attention.base import Attention
from nmt.testing import check_parts, random_inputs, write_and_read

LENGTHS = (7, 1, 4)
STATE, QUERY, QUERIES = 4, 3, 2
KEY = {"key_size": 5}
SCORES = ("softmax", "sigmoid")
MEMORIES = [
    {"write_score": write, "read_score": read, "position_encoding": encoding, "renormalise": renormalise}
    for write, read in itertools.product(SCORES, SCORES)
    for encoding, renormalise in [(False, None), (True, "sum"), (True, "mean"), (True, None)]
]
CASES: list[tuple[str, str, dict[str, Any]]] = [  # the loop, the class, and settings
    ("none", "No", {}),
    ("bahdanau", "Bahdanau", {"attention_size": 5}),
    *(("luong", "Luong", {"score": score}) for score in ("dot", "scaled_dot", "general", "concat")),
    *(("sparse", "Sparse", {"keep": keep}) for keep in (1, 3, 20)),
    *(("memory", "Memory", {"slots": 3, "max_length": 4, **settings}) for settings in MEMORIES),
    *(("memory", "NestedMemory", {"slots": slots, "max_length": 4, **MEMORIES[2]}) for slots in (4, 8)),
    *(("located_memory", "LocatedMemory", {"slots": slots}) for slots in (3, 9)),
    *(
        ("stretch_memory", "StretchMemory", {"slots": slots, "split": split, "heads": heads})
        for slots, split, heads in ((1, 1, 1), (1, 2, 3), (3, 1, 2), (3, 4, 1))
    ),
    ("abc", "Abc", {"slots": 3, **KEY}),
    ("low_rank", "LowRank", {"slots": 2, "max_length": 7, **KEY}),
    *(
        ("covariance", "Covariance", {"gate": gate, "mean": mean})
        for gate in (None, "value", "all")
        for mean in (False, True)
    ),
    *(("covariance", "Covariance", {"gate": "all", "recall": recall}) for recall in ("state", "value")),
    *(("delta", "Delta", {"gated": gated, **KEY}) for gated in (False, True)),
    *(("mesa", "Mesa", {"ridge": ridge, **KEY}) for ridge in (1.0, 0.01)),
    *(
        ("kernel", "Kernel", {"feature_map": kind, **KEY})
        for kind in ("elu", "taylor", "taylor2", "hedgehog", "features", "softmax", "scaling", "identity")
    ),
    ("kernel", "Kernel", {"feature_map": "elu", "key_feature_map": "features", **KEY}),
    *(
        ("hashed", "Hashed", {"rounds": rounds, "chunk": chunk, **KEY})
        for rounds, chunk in [(1, 2), (3, 1), (3, 2), (2, 7)]  # few read, found twice, others masked, short source
    ),
]
LONG = [case for case in CASES if case[1] in ("Delta", "StretchMemory") or "all" in case[2].values()]
"""Their updates take few states, or depend on the length."""


def name_of(case: tuple[str, str, dict[str, Any]]) -> str:
    return ",".join([case[1], *map(str, case[2].values())])


def build(kind: str, query_size: int = QUERY, **settings: Any) -> Attention:
    torch.manual_seed(1)
    attention: Attention = getattr(kinds, f"{kind}Attention")(state_size=STATE, query_size=query_size, **settings)
    for parameter in attention.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter)  # a factor that starts at 1 has to be in the equation
    return attention.double().eval()


@pytest.mark.parametrize(
    ("case", "lengths"),
    [
        *(pytest.param(case, LENGTHS, id=name_of(case)) for case in CASES),
        *(pytest.param(case, (100, 33), id=f"{name_of(case)},long") for case in LONG),
    ],
)
def test_attention_equals_a_loop(case: tuple[str, str, dict[str, Any]], lengths: tuple[int, ...]) -> None:
    loop, kind, settings = case
    size = STATE if settings.get("score") in ("dot", "scaled_dot") else QUERY
    attention = build(kind, size, **settings)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    states = torch.randn(*mask.shape, STATE, dtype=torch.float64, requires_grad=True)
    query = torch.randn(len(lengths), QUERIES, size, dtype=torch.float64, requires_grad=True)
    context, _, alignment = write_and_read(attention, states, mask, query)
    expected = torch.zeros((), dtype=torch.float64)
    for row, length in enumerate(lengths):
        for step in range(QUERIES):
            result: Result = getattr(naive, loop)(attention, states[row, :length], query[row, step])
            torch.testing.assert_close(context[row, step], result[0], rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(alignment[row, step, :length], result[1], rtol=1e-9, atol=1e-11)
            expected = expected + result[0].sin().sum() + result[1].sin().sum()
    leaves = [states, query, *attention.parameters()]
    if kind != "No":
        ours, theirs = (
            torch.autograd.grad(loss, leaves, allow_unused=True)
            for loss in (context.sin().sum() + alignment.sin().sum(), expected)
        )
        for left, right in zip(ours, theirs, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("case", LONG, ids=name_of)
def test_parts_of_a_long_source_equal_the_whole(case: tuple[str, str, dict[str, Any]]) -> None:
    _, kind, settings = case
    check_parts(build(kind, **settings), random_inputs(STATE, QUERY, (100, 33)))


def test_heads_equal_the_multi_head_attention_of_torch() -> None:
    """Its W_o is that of the decoder here."""
    torch.manual_seed(3)
    inner = partial(LuongAttention, score="scaled_dot")
    attention = MultiHeadAttention(state_size=8, query_size=8, heads=2, inner=inner).double()
    reference = torch.nn.MultiheadAttention(8, 2, bias=False, batch_first=True, dtype=torch.float64)
    assert attention.W_v is not None
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([attention.W_q.weight, attention.W_s.weight, attention.W_v.weight]))
        reference.out_proj.weight.copy_(torch.eye(8))
        states, queries = torch.randn(3, 5, 8, dtype=torch.float64), torch.randn(3, 4, 8, dtype=torch.float64)
        mask = torch.arange(5) < torch.tensor([[5], [1], [3]])
        expected, expected_alignment = reference(queries, states, states, key_padding_mask=~mask)
        context, _, alignment = write_and_read(attention, states, mask, queries)
    torch.testing.assert_close(context, expected)
    torch.testing.assert_close(alignment, expected_alignment)


# Nested memory: the first slots alone are a memory.


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("settings", MEMORIES[::5], ids=lambda settings: ",".join(map(str, settings.values())))
def test_first_slots_are_a_memory_of_their_own(slots: int, settings: dict[str, Any]) -> None:
    attention = build("NestedMemory", slots=8, **settings)
    assert isinstance(attention, NestedMemoryAttention)
    attention.use_slots(slots)
    states, query = torch.randn(1, 5, STATE).double(), torch.randn(QUERY).double()
    mask = torch.ones(1, 5, dtype=torch.bool)
    context, _, alignment = write_and_read(attention, states, mask, query[None, None])
    expected = naive.memory(attention, states[0], query)
    torch.testing.assert_close((context[0, 0], alignment[0, 0]), expected)


def test_training_draws_the_number_of_slots() -> None:
    attention = NestedMemoryAttention(state_size=STATE, query_size=QUERY, slots=12, write_score="sigmoid")
    states, mask = torch.randn(1, 3, STATE), torch.ones(1, 3, dtype=torch.bool)
    drawn = set()
    for _ in range(100):
        memory = attention.write(states, mask)
        attention.zero_grad()
        attention.read(torch.randn(1, 2, QUERY), memory)[0].sum().backward()  # type: ignore[no-untyped-call]
        used = memory.slots.shape[1]
        drawn.add(used)
        for weight in (attention.W_alpha.weight, attention.W_beta.weight):
            assert weight.grad is not None and weight.grad[used:].eq(0).all() and weight.grad[:used].any(dim=1).all()
    assert drawn == {12, 6, 3, 1}
    assert attention.eval().write(states, mask).slots.shape[1] == 12
    with pytest.raises(ValueError, match="12 slots"):
        attention.use_slots(13)


@pytest.mark.parametrize("slots", [1, 2, 7])
def test_no_weight_of_stretch_memory_depends_on_its_size(slots: int) -> None:
    attention = build("StretchMemory", slots=3, split=2, heads=2)
    assert isinstance(attention, StretchMemoryAttention)
    attention.use_slots(slots)
    expected = build("StretchMemory", slots=slots, split=2, heads=2)
    expected.load_state_dict(attention.state_dict())
    states, queries = torch.randn(2, 11, STATE).double(), torch.randn(2, QUERIES, QUERY).double()
    inputs = states, torch.arange(11) < torch.tensor([[11], [6]]), queries
    torch.testing.assert_close(write_and_read(attention, *inputs), write_and_read(expected, *inputs))
    assert attention.write(*inputs[:2]).slots.shape[1] == min(2 * slots, 11)  # no empty slots
    attention.use_slots(2 * slots)
    torch.testing.assert_close(write_and_read(attention.train(), *inputs), write_and_read(expected, *inputs))
    with pytest.raises(ValueError, match="slots=0"):
        attention.use_slots(0)


# Claims of the papers that are not equations.


def test_gradient_of_the_covariance_needs_no_stored_sums() -> None:
    """de Brébisson & Vincent (2016), §3.3: ∇h_s = q (h_sᵀ ∇) + ∇ (h_sᵀ q), from the gradient ∇ of the context alone."""
    states = torch.randn(6, STATE, dtype=torch.float64, requires_grad=True)
    query, gradient = torch.randn(2, STATE, dtype=torch.float64).unbind()
    attention = build("Covariance", STATE, mean=False)
    context, *_ = write_and_read(attention, states[None], torch.ones(1, 6, dtype=torch.bool), query[None, None])
    context[0, 0].backward(gradient)
    h = states.detach()
    torch.testing.assert_close(states.grad, torch.outer(h @ gradient, query) + torch.outer(h @ query, gradient))


def test_recall_tells_how_much_of_a_state_the_covariance_holds() -> None:
    """de Brébisson & Vincent (2016), §4: for orthogonal states, C f is a multiple of f if f was written, or zero."""
    states = torch.diag(torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))
    attention = build("Covariance", STATE, mean=False)
    memory = attention.write(states[None, :3], torch.ones(1, 3, dtype=torch.bool))
    context, _ = attention.read(states[None], memory)
    torch.testing.assert_close(context[0], torch.diag(torch.tensor([1.0, 8.0, 27.0, 0.0], dtype=torch.float64)))


def test_scores_tied_with_the_lowest_kept_score_are_kept() -> None:
    """Zhao et al. (2019), eq. 6."""
    attention = kinds.SparseAttention(state_size=1, query_size=1, score="dot", keep=2)
    states, mask = torch.tensor([[[2.0], [1.0], [1.0], [0.0]]]), torch.ones(1, 4, dtype=torch.bool)
    _, weights = attention.read(torch.tensor([[[0.6931471805599453]]]), attention.write(states, mask))
    torch.testing.assert_close(weights, torch.tensor([[[0.5, 0.25, 0.25, 0.0]]]))


@torch.no_grad()
def test_hashes_find_the_nearest_of_2000_states() -> None:
    """A look-up of a state, turned a little, sees at most 64 of 2,000 states: by chance it would find 3 %."""
    torch.manual_seed(1)
    attention = kinds.HashedAttention(state_size=16, query_size=16, key_size=16, rounds=4, chunk=16).double()
    for layer in (attention.W_k, attention.W_q):
        layer.weight.copy_(torch.eye(16))
    states = torch.nn.functional.normalize(torch.randn(1, 2000, 16, dtype=torch.float64), dim=2)
    memory = attention.write(states, torch.ones(1, 2000, dtype=torch.bool))
    queries = states[:, :50] + 0.05 * torch.randn(1, 50, 16)
    weights = torch.cat([attention.read(20 * query, memory)[1] for query in queries.split(1, dim=1)], dim=1)[0]
    assert float((weights.diagonal() > 0).double().mean()) >= 0.8
    assert (weights > 0).sum(1).max() <= 64
