"""The attributes that a model needs of its parts, which may be classes of other packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from torch import nn

from nmt.settings.arguments import TypeCheck
from nmt.settings.bounds import AtLeast, Layers, Size

ENCODER = {"state_size": Size, "final_states": Layers, "dropout": Callable[..., Any]}
ATTENTION = {
    "context_size": Annotated[int, AtLeast(0)],
    "max_source_length": int | None,
    **dict.fromkeys(("reads_source", "streaming", "signed", "needs_trace", "sequential"), bool),
}
METHODS = ("init", "features", "step", "reorder")
DECODER = {"embedding": nn.Embedding, "output": nn.Linear, **dict.fromkeys(METHODS, Callable[..., Any])}


def require_attributes(part: nn.Module, group: str, types: dict[str, Any]) -> None:
    """Raise ValueError, naming the class and the attribute, unless ``part`` has all attributes with these types.

    ``group`` is the group of the configuration that names the class.
    """
    place = f"{group}._target_={type(part).__module__}.{type(part).__qualname__}"
    for name, kind in types.items():
        if not hasattr(part, name):
            raise ValueError(f"{place}: has no attribute {name!r}, which every {group} needs; set it in the class")
        for problem in TypeCheck().problems(getattr(part, name), kind, name):
            raise ValueError(f"{place}: {problem}")
