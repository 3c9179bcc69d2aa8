"""The YAML files of conf/attention and the constructors have the same defaults, and a configuration check can use
the constructors.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import pytest
import torch
from blocks import STEMS, parent_of, read_block, read_yaml

from nmt.attention import (
    CovarianceAttention,
    KernelAttention,
    LuongAttention,
    MemoryAttention,
    MultiHeadAttention,
    NoAttention,
)
from nmt.attention.base import Attention
from nmt.model.build import ATTENTION
from nmt.settings.plugins import locate

GIVEN_BY_THE_BUILDER = {"state_size", "query_size", "max_length", "inner"}
VARIANTS = {stem: parent for stem in STEMS if (parent := parent_of(stem)) is not None}


def python_defaults(block: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of the parameters that a configuration can set."""
    parameters = inspect.signature(locate(block["_target_"], ATTENTION)).parameters
    return {name: parameter.default for name, parameter in parameters.items() if name not in GIVEN_BY_THE_BUILDER}


@pytest.mark.parametrize("stem", [stem for stem in STEMS if stem not in VARIANTS])
def test_yaml_equals_the_constructor_defaults(stem: str) -> None:
    block = read_block(stem)
    assert {key: value for key, value in block.items() if key != "_target_"} == python_defaults(block)


@pytest.mark.parametrize("stem", VARIANTS)
def test_variant_differs_from_the_constructor_only_in_its_own_keys(stem: str) -> None:
    block, own_keys = read_block(stem), set(read_yaml(stem)) - {"defaults"}
    defaults = python_defaults(block)
    assert set(block) - {"_target_"} == set(defaults)
    assert {key for key, default in defaults.items() if block[key] != default} == own_keys


def build(block: dict[str, Any], state_size: int, query_size: int) -> Attention:
    """Return the attention of a block, with luong as the inner attention if it needs one."""
    kind = locate(block["_target_"], ATTENTION)
    settings = {key: value for key, value in block.items() if key != "_target_"}
    if "inner" in inspect.signature(kind).parameters:
        settings["inner"] = LuongAttention
    attention: Attention = kind(state_size=state_size, query_size=query_size, **settings)
    return attention


@pytest.mark.parametrize("stem", STEMS)
def test_constructors_work_on_the_meta_device(stem: str) -> None:
    with torch.device("meta"):
        attention = build(read_block(stem), 16, 24)
    assert all(parameter.is_meta for parameter in attention.parameters())


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (LuongAttention, {"score": "dot"}, r"attention\.score=dot.*size 4.*size 3.*score=general"),
        (MultiHeadAttention, {"inner": LuongAttention, "heads": 2}, r"heads=2: must divide decoder\.hidden_size=3"),
        (
            MultiHeadAttention,
            {"inner": LuongAttention, "heads": 8},
            r"heads=8: must divide encoder\.hidden_size=4 and decoder\.hidden_size=3; ",
        ),
        (
            MultiHeadAttention,
            {"inner": CovarianceAttention, "heads": 1, "separate_values": True},
            r"separate_values=true: attention\.inner=CovarianceAttention compares no",
        ),
        (MultiHeadAttention, {"inner": NoAttention, "heads": 1}, r"attention\.inner=NoAttention: .*attention=none"),
        (
            MultiHeadAttention,
            {"inner": partial(LuongAttention, score="dot"), "heads": 1},
            r"attention\.inner\.score=dot.*use attention\.inner\.score=general",
        ),
    ],
)
def test_impossible_sizes_are_rejected_on_the_meta_device(kind: Any, settings: dict[str, Any], message: str) -> None:
    with torch.device("meta"), pytest.raises(ValueError, match=message):
        kind(state_size=4, query_size=3, **settings)


def facts(attention: Attention) -> dict[str, Any]:
    names = ("reads_source", "streaming", "signed")
    return {name: getattr(attention, name) for name in names}


@pytest.mark.parametrize("stem", [stem for stem in STEMS if stem not in ("none", "multi_head")])
def test_heads_have_the_facts_of_their_inner_attention(stem: str) -> None:
    block = read_block(stem)
    heads = MultiHeadAttention(state_size=16, query_size=16, inner=partial(build, block), heads=2)
    assert facts(heads) == facts(build(block, 8, 8))


def test_only_no_attention_reads_no_source() -> None:
    reading = [stem for stem in STEMS if build(read_block(stem), 16, 16).reads_source]
    assert sorted(set(STEMS) - set(reading)) == ["none"]
    assert all(build(read_block(stem), 16, 16).context_size > 0 for stem in reading)


def test_streaming_advice_names_a_setting_that_streams() -> None:
    assert LuongAttention(state_size=4, query_size=4).streaming_advice == "attention=covariance"
    assert CovarianceAttention(state_size=4, query_size=4).streaming
    memory = MemoryAttention(state_size=4, query_size=4)
    assert (memory.streaming, memory.streaming_advice) == (False, "attention.position_encoding=false")
    assert MemoryAttention(state_size=4, query_size=4, position_encoding=False).streaming
    assert MemoryAttention(state_size=4, query_size=4, renormalise=None).streaming
    heads = MultiHeadAttention(state_size=4, query_size=4, heads=2, inner=MemoryAttention)
    assert heads.streaming_advice == "attention.inner.position_encoding=false"
    heads = MultiHeadAttention(state_size=4, query_size=4, heads=2, inner=LuongAttention)
    assert heads.streaming_advice == "attention=covariance"


def test_facts_depend_on_the_settings() -> None:
    assert not KernelAttention(state_size=4, query_size=4).signed
    assert KernelAttention(state_size=4, query_size=4, feature_map="identity").signed
