"""The laws that every attention keeps: each YAML of conf/attention, and each setting its constructor offers."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
import yaml
from torch import Tensor, nn

from nmt.attention import LowRankAttention, MultiHeadAttention
from nmt.attention.base import Attention, Memory, SourceAttention
from nmt.plugins import locate

FOLDER = Path(__file__).parents[2] / "conf" / "attention"
YAMLS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.yaml"))
}
HEADS = 2
WRAPPER = YAMLS.pop("multi_head") | {"heads": HEADS}
del WRAPPER["defaults"]
YAMLS |= {f"multi_head of {stem}": WRAPPER | {"inner": block} for stem, block in YAMLS.items() if stem != "none"}

STATE, QUERY, LONGEST = 6, 5, 5  # the longest source below is longer than this: models meet such sources
LENGTHS = (7, 1, 3, 5)
QUERIES = 3
REFUSES_LONGER = (LowRankAttention,)  # what it would have to know of later positions, it has not learned

EXEMPT = {
    ("gradients", "none"): "nothing depends on its inputs: contexts are empty",
    ("order", "none"): "its empty contexts cannot differ",
}


def settings(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The block as it stands, then with every combination of its constructor's switches and enumerations."""
    yield block
    hints = get_type_hints(locate(block["_target_"]).__init__)
    choices = {name: options for name, hint in hints.items() if (options := _options(hint))}
    for values in itertools.product(*choices.values()):
        changed = block | dict(zip(choices, values, strict=True))
        if changed != block:
            yield changed


def _options(hint: Any) -> list[Any]:
    if hint is bool:
        return [False, True]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_args(hint):
        return [option for part in get_args(hint) for option in ([None] if part is type(None) else _options(part))]
    return []


def build(block: dict[str, Any]) -> Attention:
    """As the model builder does: numbers from the YAML, sizes from outside, here small and in float64."""
    torch.manual_seed(1)
    kind = locate(block["_target_"])
    sizes: dict[str, Any] = {"state_size": STATE, "query_size": QUERY}
    if "max_length" in inspect.signature(kind).parameters:
        sizes["max_length"] = LONGEST if kind not in REFUSES_LONGER else 2 * max(LENGTHS)
    numbers = {name: value for name, value in block.items() if name != "_target_"}
    if "inner" in block:
        inner = numbers["inner"]
        sizes = {"state_size": HEADS * STATE, "query_size": HEADS * QUERY}
        numbers["inner"] = lambda state_size, query_size: build(inner)
    try:
        attention = kind(**sizes, **numbers)
    except ValueError:  # such as dot products, which need equal sizes
        attention = kind(**{**sizes, "query_size": STATE}, **numbers)
    return attention.double().eval()


def _name(stem: str, block: dict[str, Any]) -> str:
    changes = [f"{key}={value}" for key, value in block.items() if value != YAMLS[stem].get(key, ...)]
    return ",".join([stem, *sorted(changes)])


SETTINGS = {_name(stem, block): block for stem, plain in YAMLS.items() for block in settings(plain)}


@pytest.fixture(params=SETTINGS)
def attention(request: pytest.FixtureRequest) -> Attention:
    law = request.function.__name__.removeprefix("test_").partition("_")[0]
    if reason := EXEMPT.get((law, request.param.partition(",")[0])):
        pytest.skip(reason)
    return build(SETTINGS[request.param])


def sizes_of(attention: Attention) -> tuple[int, int]:
    """The sizes of a state and of a query that this attention takes."""
    if isinstance(attention, MultiHeadAttention):
        state, query = sizes_of(attention.inner)
        return HEADS * state, HEADS * query
    return STATE, STATE if getattr(attention, "score", None) == "dot" else QUERY


def inputs(attention: Attention, lengths: tuple[int, ...] = LENGTHS, queries: int = QUERIES) -> tuple[Tensor, ...]:
    """Ragged states (B, S, E), mask (B, S) and queries (B, Q, H); padding is filled at random too."""
    torch.manual_seed(2)
    rows, longest = len(lengths), max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    state_size, query_size = sizes_of(attention)
    states = torch.randn(rows, longest, state_size, dtype=torch.float64)
    return states, mask, torch.randn(rows, queries, query_size, dtype=torch.float64)


def use(attention: Attention, states: Tensor, mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Context, read weights and alignment of a freshly written memory."""
    memory = attention.write(states, mask, trace=True)
    context, weights = attention.read(query, memory)
    return context, weights, attention.align(weights, memory)


def same(left: Tensor | None, right: Tensor | None) -> None:
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def test_algebra_ties_context_slots_and_mass_to_the_alignment(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    if isinstance(attention, MultiHeadAttention):  # the law holds for each head, before W_o mixes them
        states, query = attention.split(attention.W_s(states)), attention.split(attention.W_q(query))
        mask, attention = mask.repeat_interleave(HEADS, 0), attention.inner
    memory = attention.write(states, mask, trace=True)
    context, weights = attention.read(query, memory)
    values = attention.values(states)
    assert memory.trace is not None
    assert context.shape == (len(mask), QUERIES, attention.context_size)
    assert weights.shape[2] == memory.slots.shape[1]
    same(context, attention.align(weights, memory) @ values)
    same(memory.slots, memory.trace @ values)
    same(memory.mass, memory.trace.sum(2))
    assert memory.length.tolist() == mask.sum(1).tolist()
    assert attention.signed or (attention.align(weights, memory) >= 0).all()


@pytest.mark.parametrize("garbage", [0.0, 1e30, float("inf"), float("nan")])
def test_padding_changes_nothing_and_is_never_aligned(attention: Attention, garbage: float) -> None:
    states, mask, query = inputs(attention)
    context, _, alignment = use(attention, states.masked_fill(~mask[..., None], garbage), mask, query)
    assert (alignment.masked_select(~mask[:, None].expand_as(alignment)) == 0).all()
    for row, length in enumerate(LENGTHS):
        alone = use(attention, states[row : row + 1, :length], mask[row : row + 1, :length], query[row : row + 1])
        same(context[row], alone[0][0])
        same(alignment[row, :, :length], alone[2][0])


def test_empty_source_gives_finite_contexts(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    context, weights, alignment = use(attention, states, mask & False, query)
    assert (context == 0).all()
    assert weights.isfinite().all() and alignment.isfinite().all()


def test_queries_are_independent_of_each_other(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    memory = attention.write(states, mask)
    together = attention.read(query, memory)
    singly = [attention.read(one, memory) for one in query.split(1, dim=1)]
    same(together[0], torch.cat([context for context, _ in singly], dim=1))
    same(together[1], torch.cat([weights for _, weights in singly], dim=1))


def test_beams_as_queries_equal_copies_of_the_memory(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    memory = attention.write(states, mask)
    tiled = Memory(*(None if field is None else field.repeat_interleave(QUERIES, 0) for field in memory))
    copies = attention.read(query.reshape(-1, 1, query.shape[2]), tiled)
    for shared, copied in zip(attention.read(query, memory), copies, strict=True):
        same(shared, copied.reshape(shared.shape))


@pytest.mark.parametrize("cuts", [(1,), (3, 4), (2, 2, 6)])
def test_streaming_in_pieces_equals_writing_at_once(attention: Attention, cuts: tuple[int, ...]) -> None:
    states, mask, _ = inputs(attention)
    pieces = list(zip(states.tensor_split(cuts, 1), mask.tensor_split(cuts, 1), strict=True))
    memory = attention.write(*pieces[0], trace=True)
    if not attention.streams:
        with pytest.raises(ValueError, match="whole source"):
            attention.append(memory, *pieces[1])
        return
    for piece in pieces[1:]:
        memory = attention.append(memory, *piece)
    for left, right in zip(memory, attention.write(states, mask, trace=True), strict=True):
        same(left, right)


def test_gradients_are_those_of_finite_differences(attention: Attention) -> None:
    states, mask, query = inputs(attention, lengths=(3, 1), queries=2)
    names, parameters = zip(*attention.named_parameters(), strict=True) if list(attention.parameters()) else ((), ())

    def run(states: Tensor, query: Tensor, *parameters: Tensor) -> Tensor:
        module = _Whole(attention)
        given = {f"attention.{name}": value for name, value in zip(names, parameters, strict=True)}
        return torch.func.functional_call(module, given, (states, mask, query))[0]

    arguments = [tensor.detach().requires_grad_() for tensor in (states, query, *parameters)]
    # Only directions, not every entry: the fast mode is exact enough in float64 and takes milliseconds.
    assert torch.autograd.gradcheck(run, arguments, fast_mode=True)


def test_order_of_the_batch_is_irrelevant(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    order = torch.tensor([2, 0, 3, 1])
    for straight, shuffled in zip(
        use(attention, states, mask, query),
        use(attention, states[order], mask[order], query[order]),
        strict=True,
    ):
        same(straight[order], shuffled)
    assert not torch.equal(*use(attention, states, mask, query)[0][:2])


def test_arguments_stay_as_they_were(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    before = [tensor.clone() for tensor in (states, mask, query)]
    memory = attention.write(states, mask, trace=True)
    snapshot = [None if field is None else field.clone() for field in memory]
    _, weights = attention.read(query, memory)
    kept = weights.clone()
    attention.align(weights, memory)
    if attention.streams:
        attention.append(memory, states, mask)
    for left, right in zip([states, mask, query, weights, *memory], [*before, kept, *snapshot], strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)


def test_alignment_needs_a_trace_only_where_slots_mix_states(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    memory = attention.write(states, mask)
    assert memory.trace is None
    _, weights = attention.read(query, memory)
    if isinstance(getattr(attention, "inner", attention), SourceAttention):
        same(attention.align(weights, memory), use(attention, states, mask, query)[2])
    else:
        with pytest.raises(ValueError, match="trace=True"):
            attention.align(weights, memory)


def test_bfloat16_autocast_stays_close(attention: Attention) -> None:
    states, mask, query = (tensor.float() if tensor.is_floating_point() else tensor for tensor in inputs(attention))
    exact = use(attention.float(), states, mask, query)
    with torch.autocast("cpu", torch.bfloat16):
        rough = use(attention, states, mask, query)
    for left, right in zip(exact, rough, strict=True):
        torch.testing.assert_close(left, right.float(), rtol=0.1, atol=0.3)


class _Whole(nn.Module):
    """Write, read and align as one module, to export, to compile and to differentiate."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, states: Tensor, mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return use(self.attention, states, mask, query)

    def example(self, ready: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return ready

    def shapes(self) -> tuple[dict[int, Any], ...]:
        rows, source, queries = (torch.export.Dim(name, min=1) for name in "BSQ")
        return {0: rows, 1: source}, {0: rows, 1: source}, {0: rows, 1: queries}


class _Append(nn.Module):
    """One more state in a memory, and a read of it."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self, slots: Tensor, mass: Tensor, length: Tensor, state: Tensor, mask: Tensor, query: Tensor
    ) -> tuple[Tensor, ...]:
        memory = self.attention.append(Memory(slots, mass, length), state, mask)
        return (*memory[:3], *self.attention.read(query, memory))

    def example(self, ready: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        states, mask, query = ready
        return *self.attention.write(states, mask)[:3], states[:, :1], mask[:, -1:], query

    def shapes(self) -> tuple[dict[int, Any], ...]:
        rows = torch.export.Dim("B")
        return (*[{0: rows}] * 5, {0: rows, 1: torch.export.Dim("Q")})


def _exported(module: _Whole | _Append, example: tuple[Tensor, ...]) -> Callable[..., Any]:
    # Sizes of views that it cannot prove equal are checked when the graph runs, not taken to differ.
    exported = torch.export.export(
        module, example, dynamic_shapes=module.shapes(), prefer_deferred_runtime_asserts_over_guards=True
    )
    return exported.module()


def _compiled(module: nn.Module, example: tuple[Tensor, ...]) -> Callable[..., Any]:
    torch.compiler.reset()
    return torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)


@pytest.mark.parametrize("deploy", [_exported, _compiled], ids=["exported", "compiled"])
@pytest.mark.parametrize("stem", [*YAMLS, "general_covariance,recall=True"])
def test_deployed_equals_eager_at_new_sizes(stem: str, deploy: Callable[..., Callable[..., Any]]) -> None:
    attention = build(SETTINGS[stem])
    # What must be written one state after the other is deployed as the step that a runtime repeats.
    module = _Append(attention) if attention.sequential else _Whole(attention)
    with torch.no_grad():
        deployed = deploy(module, module.example(inputs(attention, lengths=(4, 3), queries=2)))
        for lengths, queries in [((5, 1, 3), 4), ((1, 9), 3), ((2,), 1)]:
            fresh = module.example(inputs(attention, lengths, queries))
            for left, right in zip(deployed(*fresh), module(*fresh), strict=True):
                same(left, right)
