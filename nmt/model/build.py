"""Build a model from its settings, top-down: each size is written once and passed on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from threading import get_ident
from typing import Any

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
from nmt.model import contract
from nmt.model.contract import require_attributes
from nmt.model.decoder import Decoder
from nmt.model.encoder import RecurrentEncoder
from nmt.model.needed_memory import memory_problem
from nmt.model.seq2seq import Seq2Seq
from nmt.settings.build import ModelSettings
from nmt.settings.plugins import Block, PluginPoint, construct, locate_all, setting
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
DECODER = PluginPoint(nn.Module, ("nmt.model",), frozenset({"embedding", "attention", "encoder_layers", "state_size"}))


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
    for block, point in ((settings.encoder, ENCODER), (settings.attention, ATTENTION), (settings.decoder, DECODER)):
        locate_all(block, point, trust=trust)
    size = settings.embeddings.size
    source = nn.Embedding(source_vocabulary, size, padding_idx=PAD)
    target = source if settings.embeddings.shared else nn.Embedding(target_vocabulary, size, padding_idx=PAD)
    for embedding in (source, target):
        nn.init.normal_(embedding.weight, std=0.1)
        with torch.no_grad():
            embedding.weight[PAD] = 0
    query_size = setting(settings.decoder, "hidden_size", DECODER, trust=trust)
    try:
        encoder = _build_encoder(settings, size, longest_source, trust)
        attention = _build_attention(settings, encoder.state_size, query_size, longest_source, trust)
        decoder = _build_decoder(settings, target, attention, encoder.state_size, encoder.final_states, trust)
    except ValueError as error:
        raise UserError(str(error)) from None
    model = Seq2Seq(embedding=source, encoder=encoder, attention=attention, decoder=decoder)
    use_fast_linear(model)
    return model


def _build_encoder(
    settings: ModelSettings, embedding_size: int, max_length: int, trust: Sequence[str]
) -> RecurrentEncoder:
    sizes = {"embedding_size": embedding_size, "max_length": max_length}
    encoder: RecurrentEncoder = _construct("encoder", settings.encoder, ENCODER, trust, **sizes)
    require_attributes(encoder, "encoder", contract.ENCODER)
    return encoder


def _build_attention(
    settings: ModelSettings, state_size: int, query_size: int | None, max_length: int, trust: Sequence[str]
) -> Attention:
    sizes = {"state_size": state_size, "query_size": query_size, "max_length": max_length}
    attention: Attention = _construct("attention", settings.attention, ATTENTION, trust, **sizes)
    require_attributes(attention, "attention", contract.ATTENTION)
    return attention


def _build_decoder(
    settings: ModelSettings,
    embedding: nn.Embedding,
    attention: Attention,
    state_size: int,
    encoder_layers: int,
    trust: Sequence[str],
) -> Decoder:
    parts = {"embedding": embedding, "attention": attention}
    sizes = {"state_size": state_size, "encoder_layers": encoder_layers}
    decoder: Decoder = _construct("decoder", settings.decoder, DECODER, trust, **parts, **sizes)
    require_attributes(decoder, "decoder", contract.DECODER)
    return decoder


def _construct(name: str, block: Block, point: PluginPoint, trust: Sequence[str], **supplied: Any) -> Any:
    """Construct a part of the model. A ValueError of a class outside the toolkit gets the name of the class."""
    try:
        return construct(block, point, trust=trust, **supplied)
    except ValueError as error:
        target = block["_target_"]
        if target.startswith("nmt."):
            raise
        raise ValueError(f"{name}._target_={target}: {error}") from error


def declared_shapes(settings: ModelSettings, *, parts: int, **sizes: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of the model that ``build_model`` would return, without allocating it.

    Raises ValueError if the model would have more than ``parts`` modules and parameters: classes of other packages may
    accept ten million layers.
    """
    with torch.device("meta"), SkipInitialisation(), _limit_parts(parts):
        model = build_model(settings, **sizes)
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
    """Context in which the functions of ``torch.nn.init`` leave parameters as they are, for a model that gets others.

    They take a third of the time to load a model, and on the meta device ``normal_`` imports modules for 1.3 s.
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
def _limit_parts(limit: int) -> Iterator[None]:
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

    They run on the meta device, which allocates nothing. If the encoder is refused, the others are checked with the
    encoder size that the settings give. ``copies`` is that of ``require_memory``.
    """
    query_size = setting(settings.decoder, "hidden_size", DECODER, trust=trust)
    if query_size is None:
        yield f"decoder._target_={settings.decoder['_target_']}: must have a hidden_size, which attention is built for"
        return
    with torch.device("meta"), SkipInitialisation():
        embedding = nn.Embedding(vocabulary, settings.embeddings.size)
        encoder, layers = None, 1
        try:
            encoder = _build_encoder(settings, embedding.embedding_dim, 8, trust)
            state_size, layers = encoder.state_size, encoder.final_states
        except ValueError as error:
            yield str(error)
            state_size = setting(settings.encoder, "hidden_size", ENCODER, trust=trust)
        if state_size is None:
            return
        try:
            attention = _build_attention(settings, state_size, query_size, 8, trust)
            decoder = _build_decoder(settings, embedding, attention, state_size, layers, trust)
        except ValueError as error:
            yield str(error)
            return
    parts = {"embeddings": embedding, "attention": attention, "decoder": decoder}
    if encoder is not None and (problem := memory_problem({**parts, "encoder": encoder}, settings, copies)):
        yield problem
