"""A part of a model from another package that lacks what the others need is refused in one line that names it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from builders import tiny_config, trained_model
from torch import nn

from nmt.attention import LuongAttention, NoAttention
from nmt.attention.base import Attention
from nmt.config import train_config
from nmt.errors import UserError
from nmt.model import LSTMDecoder, LSTMEncoder
from nmt.model.build import build_model
from nmt.settings.build import ModelSettings

LUONG = {"_target_": "nmt.attention.LuongAttention"}
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
    with pytest.raises(UserError) as built:
        build_model(ModelSettings.of(config), **SIZES, trust=["mine"])
    with pytest.raises(UserError) as checked:
        train_config(["attention=luong", f"{group}._target_={target}", "trust=[mine]"])
    return [str(error.value) for error in (built, checked)]


@pytest.mark.parametrize(
    ("group", "name"),
    [
        *(("encoder", name) for name in ("state_size", "final_states", "dropout")),
        *(("decoder", name) for name in ("embedding", "output")),
    ],
)
def test_missing_attribute_is_named(monkeypatch: pytest.MonkeyPatch, group: str, name: str) -> None:
    part = changed(PARTS[group], lambda self: delattr(self, name))
    for message in refusals(group, put(monkeypatch, part)):
        problem = f"has no attribute '{name}', which every {group} needs; set it in the class"
        assert message.startswith(f"{group}._target_=mine.Part: {problem}") and "\n" not in message


def test_attention_without_context_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Part(Attention):
        def __init__(self, *, state_size: int, query_size: int, score: str = "") -> None:
            super().__init__()

    for message in refusals("attention", put(monkeypatch, Part)):
        assert message.startswith("attention._target_=mine.Part: has no attribute 'context_size', which every")


def test_attention_itself_says_whether_it_reads_the_source() -> None:
    class Constant(NoAttention):  # contexts that do not depend on the source, and hence no alignment
        def __init__(self) -> None:
            super().__init__(state_size=8, query_size=8)
            self.context_size = 3

    model: Any = SimpleNamespace(attention=Constant(), max_source_length=None)
    config = {"data": {"lowercase": False}}
    trained = trained_model(config, None, model, longest_source=9)  # type: ignore[arg-type]
    assert not trained.properties.attention.reads_source


@pytest.mark.parametrize("method", ["init", "features", "step", "reorder"])
def test_decoder_without_a_method_is_refused(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    class Part(LSTMDecoder):
        pass

    setattr(Part, method, None)
    for message in refusals("decoder", put(monkeypatch, Part)):
        assert message.startswith(f"decoder._target_=mine.Part: {method}=None: must be a class or function")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("state_size", 0, "must be at least 1"),
        ("state_size", 8.0, "must be a whole number"),
        ("final_states", None, "must be a whole number"),
        ("dropout", 0.1, "must be a class or function"),
    ],
)
def test_attribute_of_a_wrong_type_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, problem: str
) -> None:
    def change(encoder: nn.Module) -> None:
        delattr(encoder, name)
        setattr(encoder, name, value)

    for message in refusals("encoder", put(monkeypatch, changed(LSTMEncoder, change))):
        assert message.startswith(f"encoder._target_=mine.Part: {name}={value!r}: {problem}") and "\n" not in message
