"""Attentions are imported from nmt.attention by their name."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

import nmt.attention
from nmt.attention.base import Attention


def test_type_checkers_see_every_attention() -> None:
    text = Path(nmt.attention.__file__).read_text(encoding="utf-8")
    visible = set(re.findall(r"import (\w+) as \w+$", text, flags=re.MULTILINE))
    kinds = {
        name
        for name, value in nmt.attention._classes().items()
        if issubclass(value, Attention) and value.__module__.rpartition(".")[2] != "base"
    }
    assert visible == kinds <= set(dir(nmt.attention))


@pytest.mark.parametrize("name", ["MemoryAttention", "HashedAttention", "MultiHeadAttention"])
def test_queries_of_another_shape_are_rejected(name: str) -> None:
    heads = {"inner": nmt.attention.LuongAttention, "heads": 2} if name == "MultiHeadAttention" else {}
    attention = getattr(nmt.attention, name)(state_size=8, query_size=8, **heads)
    memory = attention.write(torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^query of shape \(2, 8\)"):
        attention.read(torch.randn(2, 8), memory)


def test_unknown_attention_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'LoungAttention'"):
        nmt.attention.LoungAttention  # noqa: B018


def test_attention_in_a_new_file_needs_no_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from nmt.attention.base import Attention\n\n\nclass NewcomerAttention(Attention): ...\n"
    (tmp_path / "newcomer.py").write_text(source)
    monkeypatch.setattr(nmt.attention, "__path__", [*nmt.attention.__path__, str(tmp_path)])
    nmt.attention._classes.cache_clear()
    try:
        assert nmt.attention.NewcomerAttention.__module__ == "nmt.attention.newcomer"
    finally:
        nmt.attention._classes.cache_clear()
        sys.modules.pop("nmt.attention.newcomer", None)
