"""A part of a model from another package that lacks what the others need is refused in one line that names it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from builders import LUONG, refusal, tiny_config
from torch import nn

from nmt.attention import LuongAttention, NoAttention
from nmt.config.compose import train_config
from nmt.inference.model_folder import TrainedModel
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


MISSING = object()


@pytest.mark.parametrize(
    ("group", "name", "value", "problem"),
    [
        *(("encoder", name, MISSING, "") for name in ("state_size", "dropout")),
        ("attention", "context_size", MISSING, ""),
        *(("decoder", name, MISSING, "") for name in ("embedding", "output")),
        *(("decoder", name, None, "must be a class or function") for name in ("init", "features", "step", "reorder")),
        ("encoder", "state_size", 0, "must be at least 1"),
        ("encoder", "state_size", 8.0, "must be a whole number"),
        ("encoder", "dropout", 0.1, "must be a class or function"),
    ],
)
def test_missing_attribute_and_one_of_a_wrong_type_are_named(
    monkeypatch: pytest.MonkeyPatch, group: str, name: str, value: Any, problem: str
) -> None:
    def change(part: nn.Module) -> None:
        with suppress(AttributeError):  # a method belongs to the class
            delattr(part, name)
        if value is not MISSING:
            setattr(part, name, value)

    expected = f"{name}={value!r}: {problem}"
    if value is MISSING:
        expected = f"has no attribute '{name}', which every {group} needs; set it in the class"
    for message in refusals(group, put(monkeypatch, changed(PARTS[group], change))):
        assert message.startswith(f"{group}._target_=mine.Part: {expected}")


def test_attention_itself_says_whether_it_reads_the_source() -> None:
    class Constant(NoAttention):  # contexts that do not depend on the source, and hence no alignment
        def __init__(self) -> None:
            super().__init__(state_size=8, query_size=8)
            self.context_size = 3

    model: Any = SimpleNamespace(attention=Constant())
    config = {"data": {"lowercase": False}}
    nothing: Any = None
    trained = TrainedModel(model=model, source=nothing, target=nothing, config=config, longest_source=9)
    assert not trained.properties.attention.reads_source
