"""The laws that every attention keeps, for every YAML of conf/attention and every switch of its constructor."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from attention.blocks import STEMS, read_block
from torch import Tensor, nn

from nmt.attention import LowRankAttention, MultiHeadAttention
from nmt.attention.base import Attention, Memory
from nmt.model.build import ATTENTION
from nmt.settings.plugins import locate
from nmt.testing import LAWS, LENGTHS, QUERIES, Inputs, WriteAndRead, random_inputs, write_and_read

YAMLS = {stem: read_block(stem) for stem in STEMS}
HEADS = 2
WRAPPER = YAMLS.pop("multi_head") | {"heads": HEADS}
YAMLS |= {f"multi_head of {stem}": WRAPPER | {"inner": block} for stem, block in YAMLS.items() if stem != "none"}

STATE, QUERY, MAX_LENGTH = 6, 5, 5  # one of LENGTHS is longer, as can happen after training
REFUSES_LONGER = (LowRankAttention,)  # it has no weights for later positions

# Laws by their name in LAWS, tests of this file by the first word of their name.
EXEMPT = {
    ("gradients", "none"): "nothing depends on its inputs: contexts are empty",
    ("contexts", "none"): "its empty contexts cannot differ",
    ("rounding", "none"): "it calculates nothing",
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
    maps = {block.get("feature_map"), block.get("key_feature_map") or block.get("feature_map")}
    if len(maps) == 2 and not maps <= {"elu", "features"}:
        return True
    return block.get("recall") is not None and block.get("gate") != "all"


def _options(hint: Any) -> list[Any]:
    """Return all values of a type with few values: bool, Literal, and unions of these with None."""
    if hint is bool:
        return [False, True]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_args(hint):
        return [option for part in get_args(hint) for option in ([None] if part is type(None) else _options(part))]
    return []


def build(block: dict[str, Any], query: int = QUERY) -> Attention:
    """Build the attention as the model builder does, with numbers from the YAML and small sizes, in float64."""
    torch.manual_seed(1)
    kind = locate(block["_target_"], ATTENTION)
    sizes: dict[str, Any] = {"state_size": STATE, "query_size": query}
    if "max_length" in inspect.signature(kind).parameters:
        sizes["max_length"] = MAX_LENGTH if kind not in REFUSES_LONGER else 2 * max(LENGTHS)
    numbers = {name: value for name, value in block.items() if name != "_target_"}
    if "inner" in block:
        inner = numbers["inner"]
        sizes = {"state_size": HEADS * STATE, "query_size": QUERY}
        numbers["inner"] = lambda state_size, query_size: build(inner, query=state_size)
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
            if block not in blocks.values() and "nested_memory" not in stem:  # whose switches are those of memory
                blocks[_name(stem, block)] = block
    return blocks


SETTINGS = _all_settings()


@pytest.fixture(params=SETTINGS)
def attention(request: pytest.FixtureRequest) -> Attention:
    name = request.function.__name__.removeprefix("test_").partition("_")[0]
    law = request.node.callspec.params.get("law", name)
    if reason := EXEMPT.get((law, request.param.partition(",")[0])):
        pytest.skip(reason)
    return build(SETTINGS[request.param])


def sizes_of(attention: Attention) -> tuple[int, int]:
    """Return the sizes of a state and of a query that this attention takes."""
    if isinstance(attention, MultiHeadAttention):
        return HEADS * STATE, QUERY
    return STATE, STATE if getattr(attention, "score", None) in ("dot", "scaled_dot") else QUERY


def inputs(attention: Attention, lengths: tuple[int, ...] = LENGTHS, queries: int = QUERIES) -> Inputs:
    return random_inputs(*sizes_of(attention), lengths, queries)


def assert_same(left: Tensor | None, right: Tensor | None) -> None:
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("law", LAWS)
def test_law(attention: Attention, law: str) -> None:
    LAWS[law](attention, inputs(attention))


def test_contexts_of_two_sources_differ(attention: Attention) -> None:
    """Otherwise the laws would hold for any attention."""
    assert not torch.equal(*write_and_read(attention, *inputs(attention))[0][:2])


def uniform_reads(attention: Attention) -> Attention:
    """Make the attention read all real slots equally, with the same total weight: a wrong answer to compare with."""
    reader = attention.inner if isinstance(attention, MultiHeadAttention) else attention
    read_weights = reader.read_weights

    def uniform(query: Tensor, memory: Memory) -> Tensor:
        weights = read_weights(query, memory)
        real = torch.ones_like(weights) if memory.mask is None else memory.mask[:, None].expand_as(weights).to(weights)
        return real * (weights.sum(-1, keepdim=True) / real.sum(-1, keepdim=True).clamp(min=1))

    reader.read_weights = uniform
    return attention


def sharpen(attention: Attention) -> Attention:
    """Triple all parameters, so that weights are far from uniform."""
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.mul_(3)
    return attention


def check_rounding(attention: Attention, rough: tuple[Tensor, ...]) -> None:
    """Assert that the results ``rough`` for twice the inputs are close to those of ``attention`` in float64.

    The error must be below 1/8 of the distance between the right answer and that of uniform read weights. Measured in
    units of this distance: bfloat16 at most 0.05, uniform read weights 1, no mask at least 0.6.
    """
    states, mask, query = inputs(attention)
    with torch.no_grad():
        exact = write_and_read(attention, 2 * states, mask, 2 * query)
        uniform = write_and_read(uniform_reads(attention), 2 * states, mask, 2 * query)
    for right, wrong, result in zip(exact, uniform, rough, strict=True):
        assert (result - right).norm() < (wrong - right).norm() / 8


PRECISIONS = {"autocast": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@pytest.mark.parametrize(
    "precision", ["autocast", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("bfloat16", "float16"))]
)
def test_rounding_stays_close(attention: Attention, precision: str) -> None:
    states, mask, query = inputs(attention)
    dtype = PRECISIONS[precision]
    rounded = deepcopy(sharpen(attention)).to(dtype)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        rough = write_and_read(rounded, 2 * states.to(dtype), mask, 2 * query.to(dtype))
    check_rounding(attention, rough)


class _WriteAndRead(WriteAndRead):
    """Write, read and align, with the sizes that may change after an export."""

    def example(self, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(arguments)

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


RECALLING = next(name for name, block in SETTINGS.items() if block.get("recall") == "state")
ONE_BY_ONE = {"delta", "gated_delta", RECALLING}  # deployed as one step, which is repeated
COMPILED = ["bahdanau", "memory"]  # compiling takes 3 to 8 s a kind, ten times as long as exporting


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("stem", "deploy"),
    [*((stem, _exported) for stem in [*YAMLS, RECALLING]), *((stem, _compiled) for stem in COMPILED)],
)
def test_deployed_equals_eager_at_new_sizes(deploy: Callable[..., Callable[..., Any]], stem: str) -> None:
    attention = build(SETTINGS[stem])
    module = _Append(attention) if stem.removeprefix("multi_head of ") in ONE_BY_ONE else _WriteAndRead(attention)
    with torch.no_grad():
        deployed = deploy(module, module.example(inputs(attention, lengths=(4, 3), queries=2)))
        for lengths, queries in [((5, 1, 3), 4), ((1, 9), 3), ((2,), 1)]:
            fresh = module.example(inputs(attention, lengths, queries))
            for left, right in zip(deployed(*fresh), module(*fresh), strict=True):
                assert_same(left, right)
