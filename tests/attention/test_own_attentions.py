"""``nmt.testing``: attentions of users that keep all laws pass, and each mistake is reported by the right law."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import random_model, tiny_config
from torch import Tensor, nn

from nmt.attention import LowRankAttention, LuongAttention, MemoryAttention, MultiHeadAttention, NoAttention
from nmt.attention.base import Attention, Memory, SourceAttention, Update, project
from nmt.errors import UserError
from nmt.testing import LAWS, BrokenLaw, check_attention, cost, exponent, random_inputs, write_and_read

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


class Sigmoid(Attention):
    """Three slots with sigmoid weights: correct, and the base class of the mistakes below."""

    reads = 1

    def __init__(self, *, state_size: int, query_size: int) -> None:
        super().__init__()
        self.context_size = self.reads * state_size
        self.W_k = nn.Linear(state_size, 3)
        self.W_q = nn.Linear(query_size, 3)

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        return Update(torch.sigmoid(project(self.W_k, states)), states)

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return torch.sigmoid(self.W_q(query))


class Dot(SourceAttention):
    """Softmax over bilinear scores."""

    def __init__(self, state_size: int, query_size: int, max_length: int) -> None:
        super().__init__()
        self.context_size = state_size
        self.W = nn.Linear(query_size, state_size, bias=False)
        self.longest = max_length

    def scores(self, query: Tensor, memory: Memory) -> Tensor:
        return self.W(query) @ memory.slots.transpose(1, 2)


class TwoReads(Sigmoid):
    """Two reads of a memory that is written in float32."""

    exact = True
    reads = 2

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        weights = super().read_weights(query, memory)
        return torch.stack([weights, 1 - weights], dim=2).flatten(1, 2)


class Rest(MemoryAttention):
    def __init__(self, *, temperature: float = 1.0, **rest: Any) -> None:
        super().__init__(**rest)
        self.temperature = temperature

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return super().read_weights(query / self.temperature, memory)


def example_of_the_docs() -> type[Attention]:
    code = re.search(r"`mine/mean\.py`:\n\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {"__name__": "mine.mean"}
    exec(code[1], names)
    mean: type[Attention] = names["MeanAttention"]
    return mean


@pytest.mark.parametrize(
    ("attention", "settings"),
    [
        (Sigmoid, {}),
        (Dot, {}),
        (TwoReads, {}),
        (Rest, {"slots": 4, "temperature": 0.5}),
        (partial(Rest, slots=2), {}),
        (Sigmoid(state_size=8, query_size=2).train(), {"state_size": 8, "query_size": 2}),
        (LuongAttention, {"score": "dot", "query_size": 6}),
        (LowRankAttention, {}),
        (MultiHeadAttention, {"inner": Rest, "heads": 2, "query_size": 6}),
        (NoAttention, {"skip": ["gradients"]}),
        (example_of_the_docs(), {}),
    ],
    ids="sigmoid source reads rest partial sizes dot low_rank heads skip docs".split(),
)
def test_attention_that_keeps_all_laws_passes(attention: Any, settings: dict[str, Any]) -> None:
    check_attention(attention, **settings)


def test_exact_attention_reads_several_times_in_bfloat16() -> None:
    states, mask, query = random_inputs(6, 5)
    attention = TwoReads(state_size=6, query_size=5).bfloat16()
    context, *_ = write_and_read(attention, states.bfloat16(), mask, query.bfloat16())
    assert context.dtype == torch.bfloat16


class WrongSize(Sigmoid):
    def __init__(self, *, state_size: int, query_size: int) -> None:
        super().__init__(state_size=state_size, query_size=query_size)
        self.context_size = query_size


class NoSourceAxis(Sigmoid):
    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        return Update(torch.sigmoid(self.W_k(states)).sum(1), states)


class NoQueryAxis(Sigmoid):
    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return super().read_weights(query, memory)[:, 0]


class LacksOneRead(TwoReads):
    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return super().read_weights(query, memory)[:, 1:]


class WrongProjection(Sigmoid):
    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return self.W_k(query)


class RescalesContext(Sigmoid):
    def read(self, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        context, weights = super().read(query, memory)
        return context / memory.length.clamp(min=1)[:, None, None], weights


class WrongTrace(Sigmoid):
    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        memory = super().write(states, mask, trace)
        return memory._replace(slots=memory.slots * 2)


class WrongMass(Sigmoid):
    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        return self.changed(super().write(states, mask, trace))

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        return self.changed(super().append(memory, states, mask))

    def changed(self, memory: Memory) -> Memory:
        return memory._replace(mass=memory.length[:, None].to(memory.slots).expand(-1, 3))


class AlwaysTraces(Sigmoid):
    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        return super().write(states, mask, trace=True)


class Unsigned(Sigmoid):
    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return torch.tanh(self.W_q(query))


class ForgetsMask(Sigmoid):
    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        return Update(torch.softmax(self.W_k(states), dim=1), states)


class DividesByLength(Sigmoid):
    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return super().read_weights(query, memory) / memory.length[:, None, None]


class RemembersQuery(Sigmoid):
    """It adds the query of the call before."""

    last: Tensor | float = 0.0

    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        weights = torch.sigmoid(self.W_q(query + self.last))
        self.last = query.detach().mean()
        return weights


class ReadsOtherRows(Sigmoid):
    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return super().read_weights(query, memory) * (memory.length / memory.length.sum().clamp(min=1))[:, None, None]


class IgnoresStart(Sigmoid):
    """Weights that fall with the position, which it counts from 0 in every part."""

    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        position = torch.arange(states.shape[1]).to(states)
        return Update(torch.sigmoid(self.W_k(states)) / (1 + position)[:, None], states)


class AppendsWhileNotStreaming(Sigmoid):
    streaming = False

    def append(self, memory: Memory, states: Tensor, mask: Tensor) -> Memory:
        return memory


class Detaches(Sigmoid):
    def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
        return super().read_weights(query.detach(), memory)


class CrossesRows(Sigmoid):
    def update(self, memory: Memory, states: Tensor, mask: Tensor) -> Update:
        row = torch.arange(len(states)).to(states)
        return Update(torch.sigmoid(self.W_k(states)) / (1 + row)[:, None, None], states)


class ChangesStates(Sigmoid):
    def write(self, states: Tensor, mask: Tensor, trace: bool = False) -> Memory:
        return super().write(states.masked_fill_(~mask[..., None], 0), mask, trace)


MISTAKES: dict[type[Attention], str] = {  # the law that each breaks
    WrongSize: "shapes",
    RescalesContext: "context",
    WrongTrace: "slots",
    WrongMass: "mass",
    AlwaysTraces: "trace",
    Unsigned: "sign",
    ForgetsMask: "padding",
    DividesByLength: "empty",
    RemembersQuery: "queries",
    ReadsOtherRows: "beams",
    IgnoresStart: "parts",
    AppendsWhileNotStreaming: "parts",
    Detaches: "gradients",
    CrossesRows: "order",
    ChangesStates: "arguments",
}


@pytest.mark.parametrize("kind", MISTAKES, ids=lambda kind: kind.__name__)
def test_mistake_is_reported_by_the_right_law(kind: type[Attention]) -> None:
    with pytest.raises(BrokenLaw) as error:
        check_attention(kind)
    lines = str(error.value).splitlines()
    assert any(line.startswith(f"{kind.__name__}: law '{MISTAKES[kind]}': ") for line in lines), lines
    assert len(lines) <= 5


@pytest.mark.parametrize(
    ("kind", "inside", "problem"),
    [
        (WrongSize, False, r"read returns shape \(3, 4, 8\), must be \(B=3, Q=4, D=6\); "),
        (NoSourceAxis, False, r"update returns shape \(3, 3\), "),
        (NoQueryAxis, False, r"read_weights returns shape \(3, 3\), "),
        (LacksOneRead, False, r"read_weights returns shape \(3, 7, 3\), must be \(B=3, N=8, R=3\); "),
        (NoQueryAxis, True, r"read returns shape \(3, 6, 8\), "),
        (WrongProjection, False, "RuntimeError: "),
    ],
)
def test_mistake_is_found_before_training(kind: type[Attention], inside: bool, problem: str) -> None:
    block: dict[str, Any] = {"_target_": f"{kind.__module__}.{kind.__name__}"}
    if inside:
        block = {"_target_": "nmt.attention.MultiHeadAttention", "heads": 2, "inner": block}
    config = {**tiny_config(block, decoder={"hidden_size": 6}), "trust": [kind.__module__.partition(".")[0]]}
    with pytest.raises(UserError, match=rf"^attention\._target_={block['_target_']}: {problem}.*nmt\.testing"):
        random_model(config)


def test_every_law_notices_a_mistake() -> None:
    assert {*MISTAKES.values()} == set(LAWS)


def test_only_the_broken_law_is_reported() -> None:
    for kind in (WrongMass, AlwaysTraces, Unsigned, DividesByLength, IgnoresStart, Detaches):
        check_attention(kind, skip=[MISTAKES[kind]])


def test_error_of_the_attention_names_the_law() -> None:
    class Raises(Sigmoid):
        def read_weights(self, query: Tensor, memory: Memory) -> Tensor:
            if query.shape[1] == 1:
                raise KeyError("mistake")
            return super().read_weights(query, memory)

    with pytest.raises(KeyError, match="mistake") as error:
        check_attention(Raises)
    assert error.value.__notes__ == ["Raises: raised while law 'queries' was tested, in float64"]


def test_instance_and_random_numbers_do_not_change() -> None:
    attention = Sigmoid(state_size=6, query_size=5)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    check_attention(attention)
    check_attention(Sigmoid)
    assert torch.equal(torch.get_rng_state(), state)
    assert attention.training and attention.W_k.weight.dtype == torch.float32


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"skip=\['mask'\]: unknown; choose from shapes, arguments"):
        check_attention(Sigmoid, skip=["mask"])
    with pytest.raises(TypeError, match="slots: an attention is already built; give its class"):
        check_attention(Sigmoid(state_size=6, query_size=5), slots=3)
    with pytest.raises(TypeError, match="Linear: not an attention; give a subclass of nmt.attention.base.Attention"):
        check_attention(lambda state_size, query_size: nn.Linear(state_size, query_size))  # type: ignore[arg-type,return-value]


def test_cost_is_a_table_with_the_exponent_of_a_look_up() -> None:
    table = cost(Sigmoid, lengths=[4, 400], state_size=4, query_size=3, rounds=1)
    assert [line.split()[0] for line in str(table).splitlines()] == ["states", "4", "400", "A"]
    assert table.memory_mb[4] == table.memory_mb[400] > 0 and all(
        min(times.values()) > 0 for times in table.ms.values()
    )
    for power in (0, 0.5, 1):
        assert exponent({length: 3 * length**power for length in (10, 300, 2_000)}) == pytest.approx(power, abs=1e-9)
