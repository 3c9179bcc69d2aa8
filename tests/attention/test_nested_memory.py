"""Memory attention with nested slots: n slots compute what an attention with only n rows of weights computes."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.attention import MemoryAttention, MultiHeadAttention, NestedMemoryAttention

SCORES = ("softmax", "sigmoid")
SIZES: dict[str, Any] = {"state_size": 5, "query_size": 4, "max_length": 6}


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    states, query = (torch.randn(2, *shape, generator=generator, dtype=torch.float64) for shape in ((7, 5), (3, 4)))
    return states, torch.arange(7) < torch.tensor([[7], [4]]), query


def use(attention: MemoryAttention, trace: bool = True) -> tuple[Tensor, ...]:
    states, mask, query = inputs()
    memory = attention.write(states, mask, trace=trace)
    context, weights = attention.read(query, memory)
    return memory.slots, context, attention.align(weights, memory)


def nested(slots: int = 8, **settings: Any) -> NestedMemoryAttention:
    torch.manual_seed(1)
    return NestedMemoryAttention(**SIZES, slots=slots, **settings).double()


def cut(attention: NestedMemoryAttention, slots: int) -> NestedMemoryAttention:
    """Return an attention that has only the first rows of the weights."""
    names = ("write_score", "read_score", "position_encoding", "renormalise")
    small = nested(slots, **{name: getattr(attention, name) for name in names})
    small.load_state_dict({name: weight[:slots] for name, weight in attention.state_dict().items()})
    return small.eval()


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize(("write", "read"), [*itertools.product(SCORES, SCORES)])
@pytest.mark.parametrize("encoding", ["mean", "sum", None, "off"])
def test_first_slots_equal_an_attention_with_cut_weights(slots: int, write: Any, read: Any, encoding: Any) -> None:
    positions: dict[str, Any] = {"position_encoding": False} if encoding == "off" else {"renormalise": encoding}
    attention = nested(write_score=write, read_score=read, **positions).eval()
    expected = use(cut(attention, slots))
    attention.use_slots(slots)
    for left, right in zip(use(attention), expected, strict=True):
        torch.testing.assert_close(left, right)


def test_position_encodings_are_those_of_the_paper_in_another_order() -> None:
    mask = torch.ones(1, 6, dtype=torch.bool)
    for slots in (1, 2, 8, 16):
        ours, paper = (
            kind(**SIZES, slots=slots).positions(mask, torch.zeros(1, dtype=torch.int64), torch.float64)[0]
            for kind in (NestedMemoryAttention, MemoryAttention)
        )
        torch.testing.assert_close(ours.sort(dim=1).values, paper.sort(dim=1).values)
    positions = nested(16).slot_positions(torch.float64, torch.device("cpu"))
    assert positions[:8].tolist() == [1, 1 / 2, 3 / 4, 1 / 4, 7 / 8, 3 / 8, 5 / 8, 1 / 8]


@pytest.mark.parametrize(("slots", "numbers"), [(16, [16, 8, 4, 2]), (9, [9, 4, 2, 1]), (3, [3, 1, 1, 1])])
def test_training_halves_the_slots_up_to_three_times_and_evaluation_uses_all(slots: int, numbers: list[int]) -> None:
    attention = nested(slots)
    drawn = Counter(use(attention)[0].shape[1] for _ in range(1000))
    assert drawn.keys() == set(numbers)
    for number, times in Counter(numbers).items():
        assert drawn[number] / 1000 == pytest.approx(times / 4, abs=0.06)
    attention.eval()
    assert {use(attention)[0].shape[1] for _ in range(20)} == {slots}


def test_training_with_n_slots_reaches_only_their_weights() -> None:
    attention, draws = nested(8, write_score="sigmoid"), set()  # a softmax over one slot is constant
    for _ in range(30):
        attention.zero_grad()
        slots, context, _ = use(attention)
        context.sum().backward()
        used = slots.shape[1]
        draws.add(used)
        for weight in (attention.W_alpha.weight, attention.W_beta.weight):
            assert weight.grad is not None
            assert weight.grad[used:].eq(0).all() and weight.grad[:used].ne(0).any(dim=1).all()
    assert draws == {8, 4, 2, 1}


def test_source_in_parts_is_refused_in_training() -> None:
    attention, mask = nested(position_encoding=False), torch.ones(1, 2, dtype=torch.bool)
    states = torch.randn(1, 2, 5, dtype=torch.float64)
    memory = attention.eval().write(states, mask)
    attention.append(memory, states, mask)
    with pytest.raises(ValueError, match=r"^NestedMemoryAttention: each call in training .* call eval\(\) first$"):
        attention.train().append(memory, states, mask)


def test_number_of_slots_is_checked() -> None:
    for slots in (0, 9):
        with pytest.raises(ValueError, match="trained with 8 slots; use 1 to 8"):
            nested().use_slots(slots)
    heads = MultiHeadAttention(state_size=6, query_size=6, heads=2, inner=partial(NestedMemoryAttention, slots=4))
    heads.eval().inner.use_slots(2)  # type: ignore[operator]
    states = torch.randn(1, 3, 6)
    assert heads.write(states, torch.ones(1, 3, dtype=torch.bool)).mass.shape == (1, 4)  # 2 slots of each head
