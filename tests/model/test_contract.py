"""A part of a model from another package that lacks what the others need is refused in one line that names it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from builders import LUONG, refusal, tiny_config
from torch import nn

from nmt.attention import LuongAttention
from nmt.config.compose import train_config
from nmt.model import LSTMDecoder, LSTMEncoder
from nmt.model.build import build_model
from nmt.settings.build import ModelSettings

SIZES = {"source_vocabulary": 290, "target_vocabulary": 290, "longest_source": 40}
PARTS: dict[str, Any] = {"encoder": LSTMEncoder, "attention": LuongAttention, "decoder": LSTMDecoder}


def put(monkeypatch: pytest.MonkeyPatch, part: type[nn.Module]) -> str:
    """Make the class importable from a package ``mine``, and return its name there."""
    package: Any = ModuleType("mine")
    package.Part, part.__module__, part.__qualname__ = part, "mine", "Part"
    monkeypatch.setitem(sys.modules, "mine", package)
    return "mine.Part"


def changed(base: type[nn.Module], change: Callable[[nn.Module], None]) -> type[nn.Module]:
    """Return a subclass with the same arguments that calls ``change`` on each new instance."""

    @functools.wraps(base.__init__)
    def construct(self: nn.Module, **settings: Any) -> None:
        base.__init__(self, **settings)
        change(self)

    return type("Part", (base,), {"__init__": construct})


def refusals(group: str, target: str) -> list[str]:
    """Return the messages of a configuration check and of building a model."""
    config = tiny_config(LUONG)
    config[group] = {**config[group], "_target_": target}
    return [
        refusal(build_model, ModelSettings.of(config), **SIZES, trust=["mine"]),
        refusal(train_config, ["attention=luong", f"{group}._target_={target}", "trust=[mine]"]),
    ]


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("encoder", "state_size"),
        ("encoder", "dropout"),
        ("attention", "context_size"),
        ("decoder", "embedding"),
        ("decoder", "output"),
    ],
)
def test_missing_attribute_is_named(monkeypatch: pytest.MonkeyPatch, group: str, name: str) -> None:
    part = changed(PARTS[group], lambda part: delattr(part, name))
    for message in refusals(group, put(monkeypatch, part)):
        assert message.startswith(f"{group}._target_=mine.Part: has no attribute '{name}'")
