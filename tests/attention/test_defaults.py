"""YAML files and constructors have the same defaults, and refuse what cannot be; a new attention needs no edit."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from attention.blocks import STEMS, parent_of, read_block, read_yaml

import nmt.attention
from nmt.attention import (
    LuongAttention,
    MultiHeadAttention,
    NoAttention,
)
from nmt.attention.base import Attention
from nmt.model.build import ATTENTION
from nmt.settings.plugins import locate

GIVEN_BY_THE_BUILDER = {"state_size", "query_size", "max_length", "inner"}


@pytest.mark.parametrize("stem", STEMS)
def test_yaml_has_the_defaults_of_the_constructor_except_for_the_keys_of_a_variant(stem: str) -> None:
    block = read_block(stem)
    parameters = inspect.signature(locate(block.pop("_target_"), ATTENTION)).parameters
    defaults = {name: item.default for name, item in parameters.items() if name not in GIVEN_BY_THE_BUILDER}
    own_keys = set(read_yaml(stem)) - {"defaults", "_target_"} if parent_of(stem) else set()
    assert set(block) == set(defaults)
    assert {key for key, default in defaults.items() if block[key] != default} == own_keys


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (LuongAttention, {"score": "dot"}, r"attention\.score=dot.*size 4.*size 3.*score=general"),
        (MultiHeadAttention, {"inner": LuongAttention, "heads": 3}, r"heads=3: must divide encoder\.hidden_size=4"),
        (MultiHeadAttention, {"inner": NoAttention, "heads": 1}, r"attention\.inner=NoAttention: .*attention=none"),
        (
            MultiHeadAttention,
            {"inner": partial(MultiHeadAttention, inner=LuongAttention, heads=3), "heads": 2},
            r"attention\.inner\.heads=3: must divide",
        ),
    ],
)
def test_impossible_sizes_are_rejected_on_the_meta_device(kind: Any, settings: dict[str, Any], message: str) -> None:
    with torch.device("meta"), pytest.raises(ValueError, match=message):
        kind(state_size=4, query_size=3, **settings)


@pytest.mark.parametrize("name", ["MemoryAttention", "HashedAttention"])
def test_queries_of_another_shape_are_rejected(name: str) -> None:
    attention = getattr(nmt.attention, name)(state_size=8, query_size=8)
    memory = attention.write(torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^query of shape \(2, 8\)"):
        attention.read(torch.randn(2, 8), memory)


def test_attention_in_a_new_file_needs_no_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from nmt.attention.base import Attention\n\n\nclass NewcomerAttention(Attention): ...\n"
    (tmp_path / "newcomer.py").write_text(source)
    monkeypatch.setattr(nmt.attention, "__path__", [*nmt.attention.__path__, str(tmp_path)])
    assert issubclass(locate("nmt.attention.newcomer.NewcomerAttention", ATTENTION), Attention)  # type: ignore[arg-type]
    sys.modules.pop("nmt.attention.newcomer")
