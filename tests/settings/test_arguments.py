"""Constructors called from Python refuse arguments outside their documented range, in one line that names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import torch
import yaml
from builders import expect_error
from torch import nn

import nmt.attention
from nmt.attention import LuongAttention, MultiHeadAttention
from nmt.attention.base import Attention
from nmt.model import LSTMDecoder, LSTMEncoder
from nmt.search.options import SearchOptions
from nmt.settings.arguments import Above, AtLeast, AtMost, Below, TypeCheck, check_arguments, violations
from nmt.settings.plugins import PluginPoint, locate

CONF = Path(__file__).resolve().parents[2] / "conf"
SIZES = {"state_size": 8, "query_size": 8}
# Values that are wrong whatever the bounds are, by the text of the annotation, and a part of each message.
TOO_LARGE = (10**12, "must be at most")
TOO_SMALL = (0, "must be at least 1")
NOT_WHOLE = [(value, "must be a whole number") for value in ("many", 1.5, None, True, [3])]
BAD = {
    "Size": [*NOT_WHOLE, TOO_SMALL, TOO_LARGE, (-3, "must be at least 1"), (65_537, "must be at most 65536")],
    "Layers": [*NOT_WHOLE, TOO_SMALL, TOO_LARGE, (101, "must be at most 100")],
    "Count": [*NOT_WHOLE, TOO_SMALL, TOO_LARGE],
    "bool": [(value, "must be true or false") for value in ("yes", 1, 0.0, None)],
    "Share": [("half", "must be a number"), (1.0, "less than 1"), (-0.1, "at least 0"), (float("nan"), "at least 0")],
    "Annotated[float, AtLeast(0.001)]": [("little", "must be a number"), (0.0, "must be at least 0.001")],
    "choice": [(value, "must be ") for value in ("foo", 3, True, "")],
}


def attention_classes() -> dict[str, type[Attention]]:
    """Return the class of each YAML in conf/attention by its name."""
    point = PluginPoint(Attention, ("nmt.attention",))
    targets = [yaml.safe_load(file.read_text()).get("_target_") for file in sorted((CONF / "attention").glob("*.yaml"))]
    classes: list[Any] = [locate(target, point) for target in targets if target is not None]
    return {kind.__name__: kind for kind in classes}


CLASSES: dict[str, Any] = {**attention_classes(), "LSTMEncoder": LSTMEncoder, "LSTMDecoder": LSTMDecoder}


def supplied(kind: type[Any]) -> dict[str, Any]:
    """Return valid values of the arguments that have no default."""
    if kind is LSTMEncoder:
        return {"embedding_size": 8}
    if kind is LSTMDecoder:
        attention = LuongAttention(**SIZES)
        return {"embedding": nn.Embedding(9, 8), "attention": attention, "state_size": 8}
    return {**SIZES, **({"inner": LuongAttention} if kind is MultiHeadAttention else {})}


def cases() -> Iterator[Any]:
    for name, kind in CLASSES.items():
        for parameter in inspect.signature(kind).parameters.values():
            text = str(parameter.annotation)
            choice = "Literal" in text or text.removesuffix(" | None") in ("Score", "FeatureMap", "Directions")
            if values := BAD.get("choice" if choice else text.removesuffix(" | None")):
                wrong = [case for case in values if case[0] is not None or "None" not in text]
                yield pytest.param(kind, parameter.name, wrong, id=f"{name}-{parameter.name}")


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ValueError) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250
    return str(caught.value)


def test_every_class_and_every_option_is_tested() -> None:
    tested = {case.values[:2] for case in cases()}
    for kind in CLASSES.values():
        untested = {name for name in inspect.signature(kind).parameters if (kind, name) not in tested}
        assert untested <= {"inner", "embedding", "attention"}, kind
    offered = {name for name in dir(nmt.attention) if name.endswith("Attention")}
    assert offered - {"Attention", "DecayingAttention", "SourceAttention"} == CLASSES.keys() - {
        "LSTMEncoder",
        "LSTMDecoder",
    }


@pytest.mark.parametrize(("kind", "name", "wrong"), list(cases()))
def test_wrong_argument_is_refused_by_name(kind: type[Any], name: str, wrong: list[tuple[Any, str]]) -> None:
    for value, problem in wrong:
        message = refusal(partial(kind, **{**supplied(kind), name: value}))
        assert message.startswith(f"{kind.__name__}: {name}={value!r}: ") and problem in message


def test_close_choices_are_suggested() -> None:
    inner = partial(LuongAttention, score="doot")
    assert refusal(lambda: MultiHeadAttention(**SIZES, inner=inner)).endswith("; did you mean dot?")


def test_numbers_of_numpy_are_accepted() -> None:
    kind = CLASSES["MemoryAttention"]
    assert kind(state_size=np.int64(8), query_size=np.int32(8), slots=np.int64(3)).slots == 3


def test_attention_of_another_package_is_checked_by_its_own_annotations() -> None:
    class Mine(Attention):
        def __init__(self, *, state_size: int, query_size: int, reach: Annotated[int, AtLeast(2), AtMost(4)] = 3):
            super().__init__()
            self.context_size, self.reach = state_size, reach

    class Child(Mine):  # its constructor is Mine's
        pass

    assert refusal(lambda: Child(**SIZES, reach=5)) == "Child: reach=5: must be at most 4"
    assert Child(**SIZES, reach=4).reach == 4
    assert str(inspect.signature(Mine).parameters["reach"].default) == "3"
    with pytest.raises(TypeError, match="unexpected keyword argument 'rich'"):
        Mine(**SIZES, rich=3)


def test_arguments_are_checked_before_the_constructor_runs() -> None:
    ran = []

    class Mine:
        @check_arguments
        def __init__(self, first: int, *, kind: Literal["a", "b"] | None = None) -> None:
            ran.append(first)

    assert refusal(lambda: Mine(first="1")) == "Mine: first='1': must be a whole number"
    assert refusal(lambda: Mine(1, kind="c")) == "Mine: kind='c': must be a | b"
    assert ran == []
    Mine(1)
    Mine(2, kind="b")
    assert ran == [1, 2]


@pytest.mark.parametrize("option", fields(SearchOptions), ids=lambda option: option.name)
def test_wrong_search_option_is_refused_by_name(option: Any) -> None:
    for value in (object(), -1, inf):
        settings = {"temperature": 1.0, option.name: value}
        expect_error(f"search.{option.name}", SearchOptions, **settings)


def test_values_of_unknown_types_are_accepted() -> None:
    assert list(TypeCheck().problems(object(), dict, "x")) == []
    assert list(TypeCheck().problems(torch.zeros(1), Any, "x")) == []


@pytest.mark.parametrize(
    ("bound", "accepted", "rejected", "message"),
    [
        (AtLeast(1), (1, 1.5, 9), (0, 0.99, -inf), "must be at least 1"),
        (Above(0), (1e-9, 3), (0, -1, -inf), "must be greater than 0"),
        (AtMost(2**32 - 1), (-inf, 0, 4294967295), (4294967296, inf), "must be at most 4294967295"),
        (Below(1), (0, 0.999), (1, inf), "must be less than 1"),
    ],
)
def test_each_bound_accepts_what_it_describes(bound: Any, accepted: Any, rejected: Any, message: str) -> None:
    assert [violations(value, [bound]) for value in accepted] == [[]] * len(accepted)
    assert [violations(value, [bound]) for value in (*rejected, nan)] == [[message]] * (len(rejected) + 1)


def test_other_annotations_and_infinity() -> None:
    assert violations(5, [AtLeast(6), AtMost(4)]) == ["must be at least 6", "must be at most 4"]
    assert violations(-1, ["a note", AtLeast(0)]) == ["must be at least 0"]
    assert violations(inf, [AtLeast(1)]) == ["must be finite"] and violations(inf, ["a note"]) == []
