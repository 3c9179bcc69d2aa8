"""The laws that every attention keeps, for every YAML of conf/attention and every switch of its constructor."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from blocks import STEMS, read_block
from torch import Tensor, nn

from nmt.attention import LowRankAttention, MultiHeadAttention
from nmt.attention.base import Attention, Memory, SourceAttention
from nmt.model.build import ATTENTION
from nmt.plugins import locate

YAMLS = {stem: read_block(stem) for stem in STEMS}
HEADS = 2
WRAPPER = YAMLS.pop("multi_head") | {"heads": HEADS}
YAMLS |= {f"multi_head of {stem}": WRAPPER | {"inner": block} for stem, block in YAMLS.items() if stem != "none"}

STATE, QUERY, MAX_LENGTH = 6, 5, 5  # one source below is longer, as can happen after training
LENGTHS = (7, 1, 3, 5)
QUERIES = 3
REFUSES_LONGER = (LowRankAttention,)  # it has no weights for later positions

SOURCE_KINDS = {"BahdanauAttention", "HashedAttention", "LocalAttention", "LuongAttention", "SparseAttention"}

EXEMPT = {
    ("gradients", "none"): "nothing depends on its inputs: contexts are empty",
    ("order", "none"): "its empty contexts cannot differ",
    ("bfloat16", "none"): "it calculates nothing",
    ("half", "none"): "it calculates nothing",
}


def settings(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the block, then one with each other combination of its constructor's switches and choices."""
    yield block
    hints = get_type_hints(locate(block["_target_"], ATTENTION).__init__)
    choices = {name: options for name, hint in hints.items() if (options := _options(hint))}
    for values in itertools.product(*choices.values()):
        changed = block | dict(zip(choices, values, strict=True))
        if changed != block and not _is_refused(changed):
            yield changed


def _is_refused(block: dict[str, Any]) -> bool:
    """Return whether the constructor refuses this combination."""
    if block.get("separate_values"):
        return block["inner"]["_target_"].rpartition(".")[2] not in SOURCE_KINDS
    return bool(block.get("recall")) and block.get("directions") == "both"


def _options(hint: Any) -> list[Any]:
    """Return all values of a type with few values: bool, Literal, and unions of these with None."""
    if hint is bool:
        return [False, True]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_args(hint):
        return [option for part in get_args(hint) for option in ([None] if part is type(None) else _options(part))]
    return []


def build(block: dict[str, Any]) -> Attention:
    """Build the attention as the model builder does, with numbers from the YAML and small sizes, in float64."""
    torch.manual_seed(1)
    kind = locate(block["_target_"], ATTENTION)
    sizes: dict[str, Any] = {"state_size": STATE, "query_size": QUERY}
    if "max_length" in inspect.signature(kind).parameters:
        sizes["max_length"] = MAX_LENGTH if kind not in REFUSES_LONGER else 2 * max(LENGTHS)
    numbers = {name: value for name, value in block.items() if name != "_target_"}
    if "inner" in block:
        inner = numbers["inner"]
        sizes = {"state_size": HEADS * STATE, "query_size": HEADS * QUERY}
        numbers["inner"] = lambda state_size, query_size: build(inner)
    try:
        attention = kind(**sizes, **numbers)
    except ValueError:  # for example dot products, which need equal sizes
        attention = kind(**{**sizes, "query_size": STATE}, **numbers)
    return attention.double().eval()


def _name(stem: str, block: dict[str, Any]) -> str:
    changes = [f"{key}={value}" for key, value in block.items() if value != YAMLS[stem].get(key, ...)]
    return ",".join([stem, *sorted(changes)])


def _all_settings() -> dict[str, dict[str, Any]]:
    """Return every block to test, by name: all YAMLs, then each other combination of switches once."""
    blocks = dict(YAMLS)
    for stem, plain in YAMLS.items():
        for block in settings(plain):
            if block not in blocks.values():
                blocks[_name(stem, block)] = block
    return blocks


SETTINGS = _all_settings()


@pytest.fixture(params=SETTINGS)
def attention(request: pytest.FixtureRequest) -> Attention:
    law = request.function.__name__.removeprefix("test_").partition("_")[0]
    if reason := EXEMPT.get((law, request.param.partition(",")[0])):
        pytest.skip(reason)
    return build(SETTINGS[request.param])


def sizes_of(attention: Attention) -> tuple[int, int]:
    """Return the sizes of a state and of a query that this attention takes."""
    if isinstance(attention, MultiHeadAttention):
        state, query = sizes_of(attention.inner)
        return HEADS * state, HEADS * query
    return STATE, STATE if getattr(attention, "score", None) in ("dot", "scaled_dot") else QUERY


def inputs(attention: Attention, lengths: tuple[int, ...] = LENGTHS, queries: int = QUERIES) -> tuple[Tensor, ...]:
    """Return ragged states (B, S, E), mask (B, S) and queries (B, Q, H). Padding is random too."""
    torch.manual_seed(2)
    rows, max_length = len(lengths), max(lengths)
    mask = torch.arange(max_length) < torch.tensor(lengths)[:, None]
    state_size, query_size = sizes_of(attention)
    states = torch.randn(rows, max_length, state_size, dtype=torch.float64)
    return states, mask, torch.randn(rows, queries, query_size, dtype=torch.float64)


def use(attention: Attention, states: Tensor, mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Write a memory and read it; return context, read weights and alignment."""
    memory = attention.write(states, mask, trace=True)
    context, weights = attention.read(query, memory)
    return context, weights, attention.align(weights, memory)


def assert_same(left: Tensor | None, right: Tensor | None) -> None:
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


def test_algebra_of_context_slots_and_mass(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    if isinstance(attention, MultiHeadAttention):  # the law holds for each head, before W_o mixes the heads
        states, query = attention.split_heads(attention.W_s(states)), attention.split_heads(attention.W_q(query))
        mask, attention = mask.repeat_interleave(HEADS, 0), attention.inner
    memory = attention.write(states, mask, trace=True)
    context, weights = attention.read(query, memory)
    values = attention.values(states)
    assert (memory.trace is None) == isinstance(attention, SourceAttention)
    trace = torch.diag_embed(memory.mass) if memory.trace is None else memory.trace  # slot s is source state s
    assert context.shape == (len(mask), QUERIES, attention.context_size)
    assert weights.shape[2] == memory.slots.shape[1]
    assert_same(context, attention.align(weights, memory) @ values)
    assert_same(memory.slots, trace @ values)
    assert_same(memory.mass, trace.sum(2))
    assert memory.length.tolist() == mask.sum(1).tolist()
    assert attention.signed or (attention.align(weights, memory) >= 0).all()


@pytest.mark.parametrize("garbage", [0.0, 1e30, float("inf"), float("nan")])
def test_padding_changes_nothing_and_aligns_to_zero(attention: Attention, garbage: float) -> None:
    states, mask, query = inputs(attention)
    context, _, alignment = use(attention, states.masked_fill(~mask[..., None], garbage), mask, query)
    assert (alignment.masked_select(~mask[:, None].expand_as(alignment)) == 0).all()
    for row, length in enumerate(LENGTHS):
        single = use(attention, states[row : row + 1, :length], mask[row : row + 1, :length], query[row : row + 1])
        assert_same(context[row], single[0][0])
        assert_same(alignment[row, :, :length], single[2][0])


def test_empty_source_gives_finite_contexts(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    context, weights, alignment = use(attention, states, mask & False, query)
    assert (context == 0).all()
    assert weights.isfinite().all() and alignment.isfinite().all()


def test_queries_are_independent_of_each_other(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    memory = attention.write(states, mask)
    together = attention.read(query, memory)
    separate = [attention.read(step, memory) for step in query.split(1, dim=1)]
    assert_same(together[0], torch.cat([context for context, _ in separate], dim=1))
    assert_same(together[1], torch.cat([weights for _, weights in separate], dim=1))


def test_beams_as_queries_equal_copies_of_the_memory(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    memory = attention.write(states, mask)
    tiled = Memory(*(None if field is None else field.repeat_interleave(QUERIES, 0) for field in memory))
    copies = attention.read(query.reshape(-1, 1, query.shape[2]), tiled)
    for shared, copied in zip(attention.read(query, memory), copies, strict=True):
        assert_same(shared, copied.reshape(shared.shape))


@pytest.mark.parametrize("cuts", [(1,), (3, 4), (2, 2, 6)])
def test_streaming_in_parts_equals_writing_at_once(attention: Attention, cuts: tuple[int, ...]) -> None:
    states, mask, _ = inputs(attention)
    parts = list(zip(states.tensor_split(cuts, 1), mask.tensor_split(cuts, 1), strict=True))
    memory = attention.write(*parts[0], trace=True)
    if not attention.streaming:
        with pytest.raises(ValueError, match="whole source"):
            attention.append(memory, *parts[1])
        return
    for part in parts[1:]:
        memory = attention.append(memory, *part)
    for left, right in zip(memory, attention.write(states, mask, trace=True), strict=True):
        assert_same(left, right)


def test_gradients_equal_finite_differences(attention: Attention) -> None:
    states, mask, query = inputs(attention, lengths=(3, 1), queries=2)
    names, parameters = zip(*attention.named_parameters(), strict=True) if list(attention.parameters()) else ((), ())

    def run(states: Tensor, query: Tensor, *parameters: Tensor) -> Tensor:
        module = _WriteAndRead(attention)
        replaced = {f"attention.{name}": value for name, value in zip(names, parameters, strict=True)}
        return torch.func.functional_call(module, replaced, (states, mask, query))[0]

    arguments = [tensor.detach().requires_grad_() for tensor in (states, query, *parameters)]
    # The fast mode checks random directions instead of every entry: exact enough in float64, in milliseconds.
    assert torch.autograd.gradcheck(run, arguments, fast_mode=True)


def test_order_of_the_batch_is_irrelevant(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    order = torch.tensor([2, 0, 3, 1])
    for ordered, shuffled in zip(
        use(attention, states, mask, query),
        use(attention, states[order], mask[order], query[order]),
        strict=True,
    ):
        assert_same(ordered[order], shuffled)
    assert not torch.equal(*use(attention, states, mask, query)[0][:2])


def test_first_part_may_be_empty(attention: Attention) -> None:
    if not attention.streaming:
        return
    states, mask, query = inputs(attention)
    memory = attention.append(attention.write(states[:, :0], mask[:, :0], trace=True), states, mask)
    for left, right in zip(memory, attention.write(states, mask, trace=True), strict=True):
        assert_same(left, right)
    context, weights = attention.read(query[:, :0], memory)
    assert context.shape[1] == attention.align(weights, memory).shape[1] == 0


def test_arguments_are_not_changed(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    before = [tensor.clone() for tensor in (states, mask, query)]
    memory = attention.write(states, mask, trace=True)
    snapshot = [None if field is None else field.clone() for field in memory]
    _, weights = attention.read(query, memory)
    weights_before = weights.clone()
    attention.align(weights, memory)
    if attention.streaming:
        attention.append(memory, states, mask)
    for left, right in zip([states, mask, query, weights, *memory], [*before, weights_before, *snapshot], strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)


def test_alignment_needs_a_trace_only_where_slots_mix_states(attention: Attention) -> None:
    states, mask, query = inputs(attention)
    memory = attention.write(states, mask)
    assert memory.trace is None
    _, weights = attention.read(query, memory)
    if isinstance(getattr(attention, "inner", attention), SourceAttention):
        assert_same(attention.align(weights, memory), use(attention, states, mask, query)[2])
    else:
        with pytest.raises(ValueError, match="trace=True"):
            attention.align(weights, memory)


def uniform_reads(attention: Attention) -> Attention:
    """Make the attention read all real slots equally, with the same total weight: a wrong answer to compare with."""
    reader = attention.inner if isinstance(attention, MultiHeadAttention) else attention
    read_weights = reader.read_weights

    def uniform(query: Tensor, memory: Memory) -> Tensor:
        weights = read_weights(query, memory)
        real = torch.ones_like(weights) if memory.mask is None else memory.mask[:, None].expand_as(weights).to(weights)
        return real * (weights.sum(2, keepdim=True) / real.sum(2, keepdim=True).clamp(min=1))

    reader.read_weights = uniform  # type: ignore[method-assign]
    return attention


def sharpen(attention: Attention) -> Attention:
    """Triple all parameters, so that weights are far from uniform."""
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.mul_(3)
    return attention


def check_bfloat16(attention: Attention, rounded: Attention, *, drop_mask: bool = False) -> None:
    """Assert that ``rounded``, under bfloat16 autocast, is close to ``attention`` in float64."""
    states, mask, query = inputs(attention)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        rough = use(rounded.float(), 2 * states.float(), mask | drop_mask, 2 * query.float())
    check_rounding(attention, rough)


def check_rounding(attention: Attention, rough: tuple[Tensor, ...]) -> None:
    """Assert that the results ``rough`` for twice the inputs are close to those of ``attention`` in float64.

    The error must be below 1/8 of the distance between the right answer and that of uniform read weights. Measured in
    units of this distance: bfloat16 at most 0.05, uniform read weights 1, no mask at least 0.6.
    """
    states, mask, query = inputs(attention)
    with torch.no_grad():
        exact = use(attention, 2 * states, mask, 2 * query)
        uniform = use(uniform_reads(attention), 2 * states, mask, 2 * query)
    for right, wrong, result in zip(exact, uniform, rough, strict=True):
        assert (result - right).norm() < (wrong - right).norm() / 8


def test_bfloat16_autocast_stays_close(attention: Attention) -> None:
    check_bfloat16(attention, deepcopy(sharpen(attention)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_without_autocast_stays_close(attention: Attention, dtype: torch.dtype) -> None:
    states, mask, query = inputs(attention)
    rounded = deepcopy(sharpen(attention)).to(dtype)
    with torch.no_grad():
        rough = use(rounded, 2 * states.to(dtype), mask, 2 * query.to(dtype))
    assert rough[0].dtype == dtype
    check_rounding(attention, rough)


@pytest.mark.parametrize("stem", [stem for stem in YAMLS if stem != "none"])
def test_bound_for_bfloat16_rejects_uniform_weights(stem: str) -> None:
    attention = sharpen(build(SETTINGS[stem]))
    with pytest.raises(AssertionError):
        check_bfloat16(attention, uniform_reads(deepcopy(attention)))


@pytest.mark.parametrize("stem", [stem for stem in YAMLS if stem != "none"])
def test_bound_for_bfloat16_rejects_a_missing_mask(stem: str) -> None:
    attention = sharpen(build(SETTINGS[stem]))
    with pytest.raises(AssertionError):
        check_bfloat16(attention, deepcopy(attention), drop_mask=True)


class _WriteAndRead(nn.Module):
    """Write, read and align in one module, to export, compile and differentiate."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, states: Tensor, mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return use(self.attention, states, mask, query)

    def example(self, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return arguments

    def shapes(self) -> tuple[dict[int, Any], ...]:
        rows, source, queries = (torch.export.Dim(name, min=1) for name in "BSQ")
        return {0: rows, 1: source}, {0: rows, 1: source}, {0: rows, 1: queries}


class _Append(nn.Module):
    """Append one state to a memory, then read it."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self, slots: Tensor, mass: Tensor, length: Tensor, state: Tensor, mask: Tensor, query: Tensor
    ) -> tuple[Tensor, ...]:
        memory = self.attention.append(Memory(slots, mass, length), state, mask)
        return (*memory[:3], *self.attention.read(query, memory))

    def example(self, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        states, mask, query = arguments
        return *self.attention.write(states, mask)[:3], states[:, :1], mask[:, -1:], query

    def shapes(self) -> tuple[dict[int, Any], ...]:
        rows = torch.export.Dim("B")
        return (*[{0: rows}] * 5, {0: rows, 1: torch.export.Dim("Q")})


def _exported(module: _WriteAndRead | _Append, example: tuple[Tensor, ...]) -> Callable[..., Any]:
    # Check sizes that the exporter cannot prove equal when the graph runs, instead of failing at export.
    exported = torch.export.export(
        module, example, dynamic_shapes=module.shapes(), prefer_deferred_runtime_asserts_over_guards=True
    )
    return exported.module()


def _compiled(module: nn.Module, example: tuple[Tensor, ...]) -> Callable[..., Any]:
    torch.compiler.reset()
    return torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)


DEPLOYED = [*YAMLS, "general_covariance,recall=True"]
COMPILED_IN_CI = {"bahdanau", "memory", "delta"}  # compiling takes 3 to 8 s a kind, ten times as long as exporting


@pytest.mark.parametrize("stem", DEPLOYED)
def test_exported_equals_eager_at_new_sizes(stem: str) -> None:
    check_deployed(stem, _exported)


@pytest.mark.parametrize(
    "stem", [pytest.param(stem, marks=[] if stem in COMPILED_IN_CI else pytest.mark.slow) for stem in DEPLOYED]
)
def test_compiled_equals_eager_at_new_sizes(stem: str) -> None:
    check_deployed(stem, _compiled)


def check_deployed(stem: str, deploy: Callable[..., Callable[..., Any]]) -> None:
    attention = build(SETTINGS[stem])
    # A sequential attention is deployed as one step, which the runtime repeats.
    module = _Append(attention) if attention.sequential else _WriteAndRead(attention)
    with torch.no_grad():
        deployed = deploy(module, module.example(inputs(attention, lengths=(4, 3), queries=2)))
        for lengths, queries in [((5, 1, 3), 4), ((1, 9), 3), ((2,), 1)]:
            fresh = module.example(inputs(attention, lengths, queries))
            for left, right in zip(deployed(*fresh), module(*fresh), strict=True):
                assert_same(left, right)
