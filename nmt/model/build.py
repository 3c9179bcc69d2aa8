"""Build a model from its settings, top-down: each size is written once and passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import get_ident
from typing import Annotated, Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode

from nmt.attention.base import Attention
from nmt.errors import UserError
from nmt.kernels.products import use_fast_linear
from nmt.model.seq2seq import Seq2Seq
from nmt.settings.arguments import AtLeast, Layers, Size, TypeCheck
from nmt.settings.build import ModelSettings, plain
from nmt.settings.plugins import Block, PluginPoint, construct, locate_all, setting
from nmt.system.machine import available_memory, guard_forks
from nmt.text.specials import PAD

guard_forks()

ENCODER = PluginPoint(
    nn.Module,
    ("nmt.model",),
    frozenset({"embedding_size"}),
    defaults=frozenset({"max_length"}),  # also for its self-attention
)
ATTENTION = PluginPoint(Attention, ("nmt.attention",), frozenset({"state_size", "query_size", "max_length"}))
DECODER = PluginPoint(nn.Module, ("nmt.model",), frozenset({"embedding", "attention", "encoder_layers", "state_size"}))

METHOD = Callable[..., Any]
PARTS: dict[str, tuple[PluginPoint, dict[str, Any]]] = {
    "encoder": (ENCODER, {"state_size": Size, "final_states": Layers, "dropout": METHOD}),
    "attention": (
        ATTENTION,
        {
            "context_size": Annotated[int, AtLeast(0)],
            **dict.fromkeys(("reads_source", "streaming", "signed", "needs_trace"), bool),
        },
    ),
    "decoder": (
        DECODER,
        {
            "embedding": nn.Embedding,
            "output": nn.Linear,
            **dict.fromkeys(("init", "features", "step", "reorder"), METHOD),
        },
    ),
}
"""The parts of a model, which may be classes of other packages, and the attributes that it needs of them."""

BYTES_PER_NUMBER = 4  # float32
GIGABYTE = 10**9


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
    parts, problems = _parts(settings, target, longest_source, trust)
    if problems:
        raise UserError(problems[0])
    model = Seq2Seq(embedding=source, **parts)
    use_fast_linear(model)
    return model


def _parts(
    settings: ModelSettings, embedding: nn.Embedding, longest_source: int, trust: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return encoder, attention and decoder with this embedding of the target, and the errors of their constructors.

    If the encoder is refused, the others are built for the encoder size that the settings give.
    """
    query_size = setting(settings.decoder, "hidden_size", DECODER, trust=trust)
    state_size = setting(settings.encoder, "hidden_size", ENCODER, trust=trust)
    layers = 1
    parts: dict[str, Any] = {}
    problems = []
    new = partial(_construct, settings, trust)
    try:
        parts["encoder"] = new("encoder", embedding_size=embedding.embedding_dim, max_length=longest_source)
        state_size, layers = parts["encoder"].state_size, parts["encoder"].final_states
    except ValueError as error:
        problems.append(str(error))
    if state_size is None:
        return parts, problems
    try:
        attention = new("attention", state_size=state_size, query_size=query_size, max_length=longest_source)
        decoder = new("decoder", embedding=embedding, attention=attention, state_size=state_size, encoder_layers=layers)
        parts |= {"attention": attention, "decoder": decoder}
    except ValueError as error:
        problems.append(str(error))
    return parts, problems


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
    return part


def require_attributes(part: nn.Module, group: str) -> None:
    """Raise ValueError, naming the class and the attribute, unless ``part`` has all that its ``group`` needs."""
    setting = f"{group}._target_={type(part).__module__}.{type(part).__qualname__}"
    for name, kind in PARTS[group][1].items():
        if not hasattr(part, name):
            raise ValueError(f"{setting}: has no attribute {name!r}, which every {group} needs; set it in the class")
        for problem in TypeCheck().problems(getattr(part, name), kind, name):
            raise ValueError(f"{setting}: {problem}")


def declared_shapes(settings: ModelSettings, *, limit: int, **sizes: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of the model that ``build_model`` would return, without allocating it.

    Raises ValueError if the model would have more than ``limit`` modules and parameters: classes of other packages may
    accept ten million layers.
    """
    with _limit_size(limit):
        model = build_on_meta(settings, **sizes)
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}


def build_on_meta(settings: ModelSettings, **sizes: Any) -> Seq2Seq:
    """Return the model that ``build_model`` would return, with weights on the meta device."""
    with torch.device("meta"), SkipInitialisation():
        return build_model(settings, **sizes)


def require_memory(settings: ModelSettings, copies: int, **sizes: Any) -> None:
    """Raise UserError if RAM cannot hold ``copies`` numbers for each weight of the model of ``build_model``."""
    model = build_on_meta(settings, **sizes)
    parts = {"embeddings": model.embedding, "encoder": model.encoder, "attention": model.attention}
    if problem := memory_problem({**parts, "decoder": model.decoder}, settings, copies):
        raise UserError(problem)


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


@contextmanager
def _limit_size(limit: int) -> Iterator[None]:
    thread = get_ident()
    numbers = count(1)

    def check(*registration: object) -> None:
        if get_ident() == thread and next(numbers) > limit:
            raise ValueError(f"the configuration declares more than {limit} parts")

    hooks = [register_module_module_registration_hook(check), register_module_parameter_registration_hook(check)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def size_problems(settings: ModelSettings, *, vocabulary: int, copies: int, trust: Sequence[str] = ()) -> Iterator[str]:
    """Yield the errors of the constructors of encoder, attention and decoder, and an error if the model is too large.

    They run on the meta device, which allocates nothing. ``copies`` is that of ``require_memory``.
    """
    if setting(settings.decoder, "hidden_size", DECODER, trust=trust) is None:
        yield f"decoder._target_={settings.decoder['_target_']}: must have a hidden_size, which attention is built for"
        return
    with torch.device("meta"), SkipInitialisation():
        embedding = nn.Embedding(vocabulary, settings.embeddings.size)
        parts, problems = _parts(settings, embedding, 8, trust)
    yield from problems
    if not problems and (problem := memory_problem({"embeddings": embedding, **parts}, settings, copies)):
        yield problem


def memory_problem(parts: Mapping[str, nn.Module], settings: ModelSettings, copies: int) -> str | None:
    """Return one line if RAM cannot hold ``copies`` numbers for each weight of these parts, or None.

    The parts may be on the meta device, where they take no RAM. Each has the name of its group in ``settings``.
    Training needs more than weights, gradients and the optimizer's averages, but never less.
    """
    counts = dict.fromkeys(parts, 0)
    counted = set()
    for name, part in parts.items():
        for weight in part.parameters():
            if weight not in counted:
                counted.add(weight)
                counts[name] += weight.numel()
    total = sum(counts.values())
    available = available_memory()
    needed = total * BYTES_PER_NUMBER * copies
    if available is None or needed <= available:
        return None
    largest = max(counts, key=lambda name: counts[name])
    sizes = {key: value for key, value in plain(getattr(settings, largest)).items() if type(value) is int}
    key = max(sizes, key=lambda key: sizes[key], default=None)
    setting = largest if key is None else f"{largest}.{key}={sizes[key]}"
    return (
        f"{setting}: training a model of {total:,} parameters needs {needed / GIGABYTE:,.0f} GB of memory, but "
        f"{available / GIGABYTE:,.1f} GB are free; lower the sizes of the model, its layers or its vocabulary"
    )


def numbers_per_weight(optimizer: Block, device: str, *, frozen: bool) -> int:
    """Return the float32 values in RAM for each weight: weight, gradient and moments; on a GPU, only the new weight.

    An adapter leaves the weights ``frozen``: they have no gradients and no moments.
    """
    if frozen or (device != "cpu" and torch.cuda.is_available()):
        return 1
    return 4 if "betas" in optimizer else 2  # Adam and its relatives have two moments
