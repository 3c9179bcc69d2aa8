"""Low-rank adaptation: a frozen model whose matrices W are used as W + (α / r) B A, where only A and B are trained.

Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models, arXiv 2106.09685, §4.1.

The updates are parametrisations (``torch.nn.utils.parametrize``): reading ``layer.weight`` gives the sum. Code that
reads weights directly therefore uses the updates too, such as ``nmt.kernels``, the steps of the LSTM decoder, and a
tied output layer. Inside ``parametrize.cached()`` each sum is computed once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from nmt.model.seq2seq import Seq2Seq

PARTS = ("encoder", "decoder", "attention", "embeddings")
ADAPTABLE = (nn.Linear, nn.RNNBase, nn.Embedding)
UPDATE_NAME = re.compile(r"\.parametrizations\.\w+\.0\.[AB]$")


class Matrix(NamedTuple):
    """A matrix of a model, and the (module, name) of each use: a tied output layer uses the table."""

    weight: Tensor
    uses: list[tuple[nn.Module, str]]


class LowRankUpdate(nn.Module):
    """Parametrisation that returns W + (α / r) B A for a frozen matrix W (out, in), with A (r, in) and B (out, r).

    A starts with normal random numbers and B with 0, so the sum starts as W. r is at most the shorter side of W.
    """

    def __init__(self, weight: Tensor, *, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = weight.shape
        used = min(rank, rows, columns)
        self.scale = alpha / rank
        kind: Any = {"dtype": weight.dtype, "device": weight.device}
        self.A = nn.Parameter(torch.randn(used, columns, **kind) * columns**-0.5)
        self.B = nn.Parameter(torch.zeros(rows, used, **kind))

    def forward(self, weight: Tensor) -> Tensor:
        with torch.autocast(weight.device.type, enabled=False):  # the sum is stored in float32 when it is merged
            return torch.addmm(weight, self.B, self.A, alpha=self.scale)


def matrices(model: Seq2Seq, parts: Collection[str] = PARTS) -> dict[str, Matrix]:
    """Return the matrices in the linear layers, LSTMs and embeddings of these parts, by their names in the model.

    A table that several modules share is in the result once, under the name of the embedding. It counts as a part of
    the embeddings only. Biases, normalisations and other parameters are left out.
    """
    named: dict[int, tuple[str, Matrix]] = {}
    for module_name, module in model.named_modules():
        if not isinstance(module, ADAPTABLE):
            continue
        for name, weight in module.named_parameters(recurse=False):
            if weight.ndim == 2:
                full_name = f"{module_name}.{name}"
                _, matrix = named.setdefault(id(weight), (full_name, Matrix(weight, [])))
                matrix.uses.append((module, name))
    return {name: matrix for name, matrix in named.values() if _part(name) in parts}


def _part(name: str) -> str:
    """Return the part of the model that the parameter ``name`` belongs to."""
    if name.startswith(("embedding.", "decoder.embedding.")):
        return "embeddings"
    return name.partition(".")[0]


def adapt_problem(model: Seq2Seq, *, rank: int, parts: Collection[str]) -> str | None:
    """Return the problem if ``adapt`` cannot give the model updates of this rank, or None. Works on the meta device."""
    sides = [min(matrix.weight.shape) for matrix in matrices(model, parts).values()]
    if not sides:
        return f"adapt.to=[{','.join(parts)}]: no matrices to adapt there; add another part of {', '.join(PARTS)}"
    if rank > max(sides):
        names = ", ".join(parts)
        return f"adapt.rank={rank}: larger than the shorter side of every matrix in {names}; use {max(sides)} or less"
    return None


def adapt(model: Seq2Seq, *, rank: int, alpha: float, parts: Collection[str] = PARTS) -> None:
    """Freeze the model and add a trainable update to each matrix of these parts.

    The ``state_dict`` of the model then holds A and B of the updates only, and loading one changes nothing else. Raises
    ValueError if no matrix can get an update of this rank.
    """
    if problem := adapt_problem(model, rank=rank, parts=parts):
        raise ValueError(problem)
    chosen = matrices(model, parts)
    model.requires_grad_(False)
    for weight, uses in chosen.values():
        update = LowRankUpdate(weight, rank=rank, alpha=alpha)
        for module, name in uses:
            parametrize.register_parametrization(module, name, update)
    model.register_state_dict_post_hook(_drop_frozen)  # type: ignore[no-untyped-call]
    model.register_load_state_dict_post_hook(_accept_missing)  # type: ignore[no-untyped-call]


def updates(model: nn.Module) -> dict[str, LowRankUpdate]:
    """Return the updates of an adapted model, by the names of their matrices in the model without updates."""
    return {
        name.replace(".parametrizations", "").removesuffix(".0"): module
        for name, module in model.named_modules()
        if isinstance(module, LowRankUpdate)
    }


@torch.no_grad()
def merge(model: Seq2Seq) -> None:
    """Add the updates to the weights, so that the model is a plain one again."""
    updated: dict[int, tuple[Tensor, nn.Module]] = {}
    for module in filter(parametrize.is_parametrized, list(model.modules())):
        parametrizations: Any = module.parametrizations
        for name, (update, *_) in list(parametrizations.items()):
            if isinstance(update, LowRankUpdate):
                weight = parametrizations[name].original
                updated[id(weight)] = weight, update  # once, although modules can share it
                parametrize.remove_parametrizations(module, name, leave_parametrized=False)
    for weight, update in updated.values():
        weight.copy_(update(weight))
    model.requires_grad_(True)


@torch.no_grad()
def add_updates(model: Seq2Seq, tensors: Mapping[str, tuple[Tensor, Tensor]], *, scale: float) -> None:
    """Add ``scale`` · B A to each matrix of a plain model, for ``tensors`` that map its name to (A, B)."""
    named = matrices(model)
    for name, (a, b) in tensors.items():
        weight = named[name].weight
        weight.addmm_(b.to(weight), a.to(weight), alpha=scale)


def _drop_frozen(model: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Remove everything but the updates from the ``state_dict`` of an adapted model."""
    if updates(model):  # not yet merged
        for name in [name for name in state if name.startswith(prefix) and not UPDATE_NAME.search(name)]:
            del state[name]


def _accept_missing(model: nn.Module, keys: Any) -> None:
    """Let a state without frozen weights be loaded into an adapted model."""
    if updates(model):  # not yet merged
        keys.missing_keys[:] = [name for name in keys.missing_keys if UPDATE_NAME.search(name)]
