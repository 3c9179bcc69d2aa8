"""Network of ``completion.py``: causal self-attention layers that predict the next symbol of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import torch
from torch import Tensor, nn

from nmt.model.transformer import EncoderLayer, PositionedEmbeddings
from nmt.self_attention import (
    HashedSelfAttention,
    LinearSelfAttention,
    PooledSelfAttention,
    SelfAttention,
    SoftmaxSelfAttention,
    StridedSelfAttention,
    WindowSelfAttention,
)

SIZE, LAYERS, HEADS = 64, 2, 2
BATCH, RATE = 32, 2e-3
KINDS: dict[str, Callable[..., SelfAttention]] = {
    "softmax": SoftmaxSelfAttention,
    "linear, elu": LinearSelfAttention,
    "linear, taylor": partial(LinearSelfAttention, feature_map="taylor"),
    "window, w = 16": partial(WindowSelfAttention, window=16),
    "strided, l = 10": partial(StridedSelfAttention, stride=10),  # a divisor of N / 2 would show each copy directly
    "hashed, chunk = 16": partial(HashedSelfAttention, chunk=16),
    "pooled, m = 3": PooledSelfAttention,
}

PAPER = ("softmax", "linear, elu", "linear, taylor")
"""Kinds of the papers, for longer trainings."""
Choose = Callable[[Tensor], Tensor]  # next symbols (B,) of logits (B, V)


class Network(nn.Module):
    """Causal self-attention layers over ``symbols`` different symbols, which predict the next symbol."""

    def __init__(self, kind: Callable[..., SelfAttention], symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, SIZE)
        nn.init.normal_(self.embedding.weight, std=0.1)  # as in ``build_model``: positions stay visible beside symbols
        self.inputs = PositionedEmbeddings(embedding_size=SIZE, size=SIZE)
        self.layers = nn.ModuleList(
            EncoderLayer(size=SIZE, heads=HEADS, inner_size=2 * SIZE, dropout=0.0, self_attention=kind)
            for _ in range(LAYERS)
        )
        self.output = nn.Sequential(nn.LayerNorm(SIZE), nn.Linear(SIZE, symbols))

    def forward(self, sequences: Tensor) -> Tensor:
        """Return logits (B, N, V) of the symbol after each of ``sequences`` (B, N)."""
        states = self.inputs(self.embedding(sequences), torch.arange(sequences.shape[1]))
        for layer in self.layers:
            states = layer.transform(states + layer.self_attention(layer.self_attention_norm(states)))
        return self.output(states)

    def generate(self, seen: Tensor, choose: Choose) -> Iterator[Tensor]:
        """Yield the symbols (B,) after ``seen`` (B, N), one position after the other, without an end."""
        states = [layer.self_attention.start(self.embedding.weight.new_zeros(len(seen), SIZE)) for layer in self.layers]
        symbol, position = seen[:, 0], 0
        while True:
            x = self.inputs(self.embedding(symbol)[:, None], torch.full((1,), position))
            for number, layer in enumerate(self.layers):
                output, states[number] = layer.self_attention.step(layer.self_attention_norm(x), states[number])
                x = layer.transform(x + output)
            position += 1
            if position < seen.shape[1]:
                symbol = seen[:, position]
            else:
                symbol = choose(self.output(x)[:, 0])
                yield symbol


def new_network(kind: str, symbols: int, seed: int) -> Network:
    """Return a network with random weights, the same for the same seed."""
    torch.manual_seed(seed)
    return Network(KINDS[kind], symbols)


def train(network: Network, batches: Iterator[Tensor], updates: int, first: int) -> None:
    """Train with ``updates`` batches of sequences (B, N), on the symbols from position ``first`` on."""
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, updates, pct_start=0.1)
    for _ in range(updates):
        loss = loss_of(network, next(batches), first)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def loss_of(network: Network, sequences: Tensor, first: int) -> Tensor:
    """Return the mean cross-entropy, in nats, of the symbols from position ``first`` on, each after those before it."""
    logits = network(sequences[:, :-1])[:, first - 1 :]
    return nn.functional.cross_entropy(logits.flatten(0, 1), sequences[:, first:].flatten())


def complete(network: Network, seen: Tensor, count: int, choose: Choose) -> Tensor:
    """Return ``count`` symbols (B, count) after ``seen`` (B, N)."""
    with torch.inference_mode():
        return torch.stack(list(islice(network.generate(seen, choose), count)), dim=1)


def most_likely(logits: Tensor) -> Tensor:
    return logits.argmax(-1)


def drawn(logits: Tensor) -> Tensor:
    return torch.distributions.Categorical(logits=logits).sample()
