"""Build a model from its settings, top-down: each size is written once and passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from nmt.attention.base import Attention, require_shapes
from nmt.attention.layers import LayeredAttention
from nmt.errors import UserError, reason
from nmt.model.seq2seq import Seq2Seq
from nmt.settings.build import ModelSettings
from nmt.settings.plugins import PluginPoint, construct, locate, locate_all, setting
from nmt.system.machine import guard_forks
from nmt.text.specials import PAD

guard_forks()

ENCODER = PluginPoint(
    nn.Module,
    ("nmt.model",),
    frozenset({"embedding_size"}),
    defaults=frozenset({"max_length"}),  # also for its self-attention
)
ATTENTION = PluginPoint(Attention, ("nmt.attention",), frozenset({"state_size", "query_size", "max_length"}))
DECODER = PluginPoint(nn.Module, ("nmt.model",), frozenset({"embedding", "attention", "state_size"}))

PARTS: dict[str, tuple[PluginPoint, tuple[str, ...]]] = {
    "encoder": (ENCODER, ("state_size", "dropout")),
    "attention": (ATTENTION, ("context_size",)),
    "decoder": (DECODER, ("embedding", "output", "init", "features", "step", "reorder")),
}
"""The parts of a model, which may be classes of other packages, and the attributes that it needs of them."""


def build_model(
    settings: ModelSettings,
    *,
    source_vocabulary: int,
    target_vocabulary: int,
    longest_source: int,
    trust: Sequence[str] = (),
) -> Seq2Seq:
    """Return the untrained model that ``settings`` describe.

    ``longest_source`` counts the pieces of the longest training source, ``</s>`` included: position encodings are
    scaled by it. Raises UserError if sizes do not fit each other, or, before anything is constructed, if one of the
    classes is not allowed.
    """
    for group, (point, _) in PARTS.items():
        locate_all(getattr(settings, group), point, trust=trust)
    size = settings.embeddings.size
    source = nn.Embedding(source_vocabulary, size, padding_idx=PAD)
    target = source if settings.embeddings.shared else nn.Embedding(target_vocabulary, size, padding_idx=PAD)
    for embedding in (source, target):
        nn.init.normal_(embedding.weight, std=0.1)
        with torch.no_grad():
            embedding.weight[PAD] = 0
    parts: dict[str, Any] = {}
    for problem in _fill(parts, settings, target, longest_source, trust):
        raise UserError(problem)
    return Seq2Seq(embedding=source, **parts)


def _fill(
    parts: dict[str, Any], settings: ModelSettings, embedding: nn.Embedding, longest_source: int, trust: Sequence[str]
) -> Iterator[str]:
    """Add encoder, attention and decoder with this embedding of the target; yield the errors of their constructors.

    If the encoder is refused, the others are built for the encoder size that the settings give.
    """
    new = partial(_construct, settings, trust)
    query_size = setting(settings.decoder, "hidden_size", DECODER, trust=trust)
    try:
        parts["encoder"] = new("encoder", embedding_size=embedding.embedding_dim, max_length=longest_source)
        state_size = parts["encoder"].state_size
    except ValueError as error:
        yield str(error)
        state_size = setting(settings.encoder, "hidden_size", ENCODER, trust=trust)
        if state_size is None:
            return
    try:
        sizes = {"state_size": state_size, "query_size": query_size, "max_length": longest_source}
        if getattr(locate(settings.decoder["_target_"], DECODER, trust=trust), "has_layered_attention", False):
            count = setting(settings.decoder, "layers", DECODER, trust=trust)
            attention: Attention = LayeredAttention(layers=[new("attention", **sizes) for _ in range(count)])
        else:
            attention = new("attention", **sizes)
        decoder = new("decoder", embedding=embedding, attention=attention, state_size=state_size)
        parts |= {"attention": attention, "decoder": decoder}
    except ValueError as error:
        yield str(error)


def _construct(settings: ModelSettings, trust: Sequence[str], group: str, **supplied: Any) -> Any:
    """Construct a part of the model. A ValueError of a class outside the toolkit gets the name of the class."""
    block = getattr(settings, group)
    try:
        part = construct(block, PARTS[group][0], trust=trust, **supplied)
    except ValueError as error:
        target = block["_target_"]
        if target.startswith("nmt."):
            raise
        raise ValueError(f"{group}._target_={target}: {error}") from error
    require_attributes(part, group)
    if group == "attention" and trust:
        _try_out(part, block["_target_"], **supplied)
    return part


@torch.no_grad()
def _try_out(attention: Attention, target: str, *, state_size: int, query_size: int, **_: Any) -> None:
    """Raise ValueError if an attention of a trusted package, or one inside it, fails or returns wrong shapes."""
    states, query = torch.zeros(3, 2, state_size), torch.zeros(3, 4, query_size)
    if states.is_meta:  # where code that depends on values cannot run
        return
    try:
        with torch.random.fork_rng(devices=[]):
            require_shapes(attention, states, states[..., 0] == 0, query)
    except Exception as error:
        problem = reason(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {reason(error)}"
        fix = "find the mistake with nmt.testing.check_attention"
        raise ValueError(f"attention._target_={target}: {problem}; {fix}") from error


def require_attributes(part: nn.Module, group: str) -> None:
    """Raise ValueError, naming the class and the attribute, unless ``part`` has all that its ``group`` needs."""
    for name in PARTS[group][1]:
        if not hasattr(part, name):
            setting = f"{group}._target_={type(part).__module__}.{type(part).__qualname__}"
            raise ValueError(f"{setting}: has no attribute {name!r}, which every {group} needs; set it in the class")


def declared_shapes(settings: ModelSettings, **sizes: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of the model that ``build_model`` would return, without allocating it."""
    return {name: tuple(weight.shape) for name, weight in build_on_meta(settings, **sizes).state_dict().items()}


def build_on_meta(settings: ModelSettings, **sizes: Any) -> Seq2Seq:
    """Return the model that ``build_model`` would return, with weights on the meta device."""
    with torch.device("meta"), SkipInitialisation():
        return build_model(settings, **sizes)


class SkipInitialisation(TorchFunctionMode):
    """Context without ``torch.nn.init``, for a model whose weights are loaded afterwards.

    Its functions take a third of the time to load a model. On the meta device, ``normal_`` imports modules for 1.3 s.
    """

    def __torch_function__(
        self, function: Any, types: Any, arguments: Sequence[Any] = (), settings: Mapping[str, Any] | None = None
    ) -> Any:
        settings = settings or {}
        tensor = arguments[0] if arguments else settings.get("tensor")
        if getattr(function, "__module__", None) == nn.init.__name__ and isinstance(tensor, nn.Parameter):
            return tensor
        return function(*arguments, **settings)


def size_problems(settings: ModelSettings, *, vocabulary: int, trust: Sequence[str]) -> Iterator[str]:
    """Yield the errors of the constructors of encoder, attention and decoder.

    They run on the meta device, which allocates nothing.
    """
    if setting(settings.decoder, "hidden_size", DECODER, trust=trust) is None:
        yield f"decoder._target_={settings.decoder['_target_']}: must have a hidden_size, which attention is built for"
        return
    with torch.device("meta"), SkipInitialisation():
        yield from list(_fill({}, settings, nn.Embedding(vocabulary, settings.embeddings.size), 8, trust))
