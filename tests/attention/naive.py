"""Each attention as a loop over states and queries, written from its paper.

A loop takes the attention, one source h (S, E) and one query q (H,), and returns the context (D,) and alignment (S,).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import Any

import torch
from torch import Tensor

Result = tuple[Tensor, Tensor]


def softmax(scores: Tensor) -> Tensor:
    return scores.exp() / scores.exp().sum()


def unit(vector: Tensor) -> Tensor:
    return vector / (vector @ vector).sqrt()


def mix(weights: Sequence[Tensor] | Tensor, values: Sequence[Tensor] | Tensor) -> Result:
    """Return Σ_s weights_s values_s, and the weights."""
    context = sum((weight * value for weight, value in zip(weights, values, strict=True)), values[0] * 0)
    return context, torch.stack([*weights])


def none(attention: Any, h: Tensor, q: Tensor) -> Result:
    return h[0, :0], h[:, 0] * 0


def bahdanau(attention: Any, h: Tensor, q: Tensor) -> Result:
    """Bahdanau et al. (2015), appendix A.1.2."""
    return mix(softmax(torch.stack([attention.v(torch.tanh(attention.W(q) + attention.U(s)))[0] for s in h])), h)


def luong_score(attention: Any, q: Tensor, s: Tensor) -> Tensor:
    """Luong et al. (2015), eq. 8; ``scaled_dot`` is Vaswani et al. (2017), eq. 1."""
    match attention.score:
        case "dot":
            return q @ s
        case "scaled_dot":
            return q @ s / len(s) ** 0.5
        case "general":
            return q @ attention.W_a_state.weight @ s
    W_a = torch.cat([attention.W_a_query.weight, attention.W_a_state.weight], dim=1)
    return attention.v_a.weight[0] @ torch.tanh(W_a @ torch.cat([q, s]))


def luong(attention: Any, h: Tensor, q: Tensor) -> Result:
    return mix(softmax(torch.stack([luong_score(attention, q, s) for s in h])), h)


def sparse(attention: Any, h: Tensor, q: Tensor) -> Result:
    """Zhao et al. (2019), eqs. 6 and 7."""
    scores = [luong_score(attention, q, s) for s in h]
    chosen = sorted(range(len(h)), key=lambda s: -scores[s].item())[: attention.keep]
    shares = softmax(torch.stack([scores[s] for s in chosen]))
    return mix([shares[chosen.index(s)] if s in chosen else h[0, 0] * 0 for s in range(len(h))], h)


def memory(attention: Any, h: Tensor, q: Tensor) -> Result:
    """Britz et al. (2017), eqs. 7, 8, 11 and 12. Nested slots cover the source in another order."""
    score = {"softmax": softmax, "sigmoid": torch.sigmoid}
    nested = hasattr(attention, "used")
    slots = (nested and attention.used) or attention.slots
    place = [k / attention.slots for k in range(1, slots + 1)]
    if nested:
        place = [1 - int(f"0{k:b}"[::-1], 2) / 2 ** len(f"0{k:b}") for k in range(slots)]  # van der Corput
    factors = torch.ones(len(h), slots, dtype=h.dtype)
    if attention.position_encoding:
        late = [min(s, attention.max_length) / attention.max_length for s in range(1, len(h) + 1)]
        table = [[(1 - k) * (1 - s) + k * s for k in place] for s in late]
        factors = torch.tensor(table, dtype=h.dtype)
        if attention.renormalise is not None:
            factors = factors / (factors.sum(0) if attention.renormalise == "sum" else factors.mean(0))
    W_alpha, W_beta = attention.W_alpha.weight[:slots], attention.W_beta.weight[:slots]
    alpha = [score[attention.write_score](W_alpha @ s * factor) for s, factor in zip(h, factors, strict=True)]
    beta = score[attention.read_score](W_beta @ q)
    return mix([beta @ a for a in alpha], h)


def located_memory(attention: Any, h: Tensor, q: Tensor) -> Result:
    slots = attention.W_alpha.out_features
    alpha = []
    for s, state in enumerate(h):
        places = torch.tensor([(s + 0.5) / len(h) - (k + 0.5) / slots for k in range(slots)], dtype=h.dtype)
        alpha.append(softmax(attention.W_alpha(state) - attention.gamma * min(len(h), slots) ** 2 * places**2))
    phi = [a / sum(alpha) for a in alpha]
    means = sum(torch.outer(p, state) for p, state in zip(phi, h, strict=True))
    beta = softmax(attention.W_beta(q) + attention.W_c(means) @ q / len(q) ** 0.5)
    return mix([p @ beta for p in phi], h)


def stretches(length: int, slots: int) -> list[list[int]]:
    """Return the states of each stretch. When all slots are in use, the first two shortest neighbours merge."""
    found: list[list[int]] = []
    size = 1
    for state in range(length):
        if len(found) == slots and all(len(stretch) == 2 * size for stretch in found):
            size *= 2
        is_last = len(found) == slots and all(len(stretch) == 2 * size for stretch in found[:-1])
        if found and len(found[-1]) < size * (1 + is_last):
            found[-1].append(state)
            continue
        if len(found) == slots:
            first = [*map(len, found)].index(size)
            found[first : first + 2] = [found[first] + found[first + 1]]
        found.append([state])
    return found


def stretch_memory(attention: Any, h: Tensor, q: Tensor) -> Result:
    def scaled(numbers: Tensor) -> Tensor:
        return numbers / (sum(number**2 for number in numbers) / len(numbers) + 1e-6).sqrt()

    values = [scaled(attention.W_v(state)) for state in h]
    alpha = [torch.sigmoid(attention.w(state))[0] for state in h]
    parts = stretches(len(h), attention.slots)
    sums = [sum(alpha[s] * values[s] for s in part) for part in parts]
    slots = torch.stack([scaled(total) for total in sums])
    contexts, alignments = [], []
    for W_c, gamma in zip(attention.W_c.weight.chunk(attention.reads), attention.gamma, strict=True):
        beta = softmax(gamma.exp() * (slots @ W_c @ q))
        weights = [
            beta[k] * alpha[s] * (slots[k] @ sums[k]) / (sums[k] @ sums[k])
            for k, part in enumerate(parts)
            for s in part
        ]
        context, alignment = mix(weights, values)
        torch.testing.assert_close(context, beta @ slots)
        contexts.append(context)
        alignments.append(alignment)
    return torch.cat(contexts), sum(alignments) / attention.reads


def abc(attention: Any, h: Tensor, q: Tensor) -> Result:
    """Peng et al. (2022), §4, ABC_MLP."""
    alpha = [attention.W_phi(state).exp() for state in h]
    phi = [a / sum(alpha) for a in alpha]
    keys = sum(torch.outer(p, attention.W_k(state)) for p, state in zip(phi, h, strict=True))
    return mix([p @ softmax(keys @ attention.W_q(q) / keys.shape[1] ** 0.5) for p in phi], h)


def low_rank(attention: Any, h: Tensor, q: Tensor) -> Result:
    """Wang et al. (2020), eq. 7."""
    keys = sum(torch.outer(attention.E[:, s], attention.W_k(state)) for s, state in enumerate(h))
    shares = softmax(keys @ attention.W_q(q) / keys.shape[1] ** 0.5)
    return mix([shares @ attention.F[:, s] for s in range(len(h))], h)


def covariance(attention: Any, h: Tensor, q: Tensor) -> Result:
    """De Brébisson & Vincent (2016), §3 and §4."""
    size = h.shape[1]
    written: list[Tensor] = []
    values: list[Tensor] = []
    C = torch.zeros(size, size, dtype=h.dtype)
    for state in h:
        alpha = beta = torch.ones((), dtype=h.dtype)
        f = state
        if attention.gate == "value":
            f = torch.sigmoid(attention.gates(state)) * state
        elif attention.gate == "all":
            scores = attention.gates(state)
            if attention.recall is not None:
                r = C @ (state if attention.recall == "state" else torch.sigmoid(scores[2:]) * state)
                scores = scores + attention.recalled(r / (1 + r @ r).sqrt())
            alpha, beta, f = torch.sigmoid(scores[0]), torch.sigmoid(scores[1]), torch.sigmoid(scores[2:]) * state
        C = alpha * C + beta * torch.outer(f, f)
        written = [*(alpha * weights for weights in written), beta * f]
        values.append(f)
    q = (attention.project(q) if attention.project is not None else q) / (len(h) if attention.mean else 1)
    return C @ q, torch.stack([weights @ q for weights in written])


def delta(attention: Any, h: Tensor, q: Tensor) -> Result:
    """Schlag et al. (2021); gated by Yang et al. (2024), eq. 10."""
    size = attention.W_k.out_features
    written: list[Tensor] = []
    M = torch.zeros(size, h.shape[1], dtype=h.dtype)
    for state in h:
        k, beta = unit(attention.W_k(state)), torch.sigmoid(attention.beta(state))
        gate = torch.eye(size, dtype=h.dtype) - beta * torch.outer(k, k)
        if attention.alpha is not None:
            gate = torch.sigmoid(attention.alpha(state)) * gate
        M = gate @ M + beta * torch.outer(k, state)
        written = [*(gate @ weights for weights in written), beta * k]
    q = unit(attention.W_q(q))
    return M.T @ q, torch.stack([weights @ q for weights in written])


def mesa(attention: Any, h: Tensor, q: Tensor) -> Result:
    """Von Oswald et al. (2025)."""
    keys = [unit(attention.W_k(state)) for state in h]
    gram = sum((torch.outer(k, k) for k in keys), attention.ridge * torch.eye(len(keys[0]), dtype=h.dtype))
    solved = gram.inverse() @ (attention.g * unit(attention.W_q(q)))
    return mix([k @ solved for k in keys], h)


def phi(kind: str, x: Tensor) -> Tensor:
    """Katharopoulos et al. (2020), eq. 7; ``features`` is half of Zhang et al. (2024), §4.1."""
    return torch.where(x > 0, x + 1, x.exp()) if kind == "elu" else softmax(x)


def similarity(kind: str, key_kind: str, q: Tensor, k: Tensor) -> Tensor:
    """Return the weight of a key before it is divided, from the paper of each feature map."""
    match kind:
        case "taylor":  # Li et al. (2020), eq. 10, and Su Jianlin (2020)
            return 1 + unit(q) @ unit(k)
        case "taylor2":  # Arora et al. (2024), §4.1
            score = q @ k / sqrt(len(q))
            return 1 + score + score**2 / 2
        case "hedgehog":  # Zhang et al. (2024), §4.1
            return softmax(q) @ softmax(k) + softmax(-q) @ softmax(-k)
        case "scaling" | "identity":
            return q @ k
    return phi(kind, q) @ phi(key_kind, k)


def kernel_weights(kind: str, key_kind: str, q: Tensor, keys: Sequence[Tensor]) -> Tensor:
    """Return the weight (S,) of each key for a projected query."""
    if kind == "softmax":  # Shen et al. (2018), §3.2: keys over the source, queries over the features
        total = sum(key.exp() for key in keys)
        return torch.stack([softmax(q) @ (key.exp() / total) for key in keys])
    weights = torch.stack([similarity(kind, key_kind, q, key) for key in keys])
    return weights if kind == "identity" else weights / (len(keys) if kind == "scaling" else weights.sum())


def kernel(attention: Any, h: Tensor, q: Tensor) -> Result:
    keys = [attention.W_k(state) for state in h]
    return mix(kernel_weights(attention.feature_map, attention.key_feature_map, attention.W_q(q), keys), h)


def bucket_of(vector: Tensor, rotations: Tensor, directions: int) -> list[int]:
    """Return the nearest of ± the first ``directions`` axes after each rotation (hashes, axes, A)."""
    faces = []
    for rotation in rotations:
        turned = [float(axis @ vector.detach()) for axis in rotation[:directions]]
        signed = [number for value in turned for number in (value, -value)]
        faces.append(signed.index(max(signed)))
    return faces


def hashed(attention: Any, h: Tensor, q: Tensor) -> Result:
    """Kitaev et al. (2020), eqs. 4 to 6."""
    keys, query = [unit(attention.W_k(state)) for state in h], attention.W_q(q)
    directions = min(16, max(1, ceil(sqrt(2 * len(h) / attention.chunk) / 2)))
    seen: set[int] = set()
    for rotations in attention.rotations:
        buckets = [bucket_of(key, rotations, directions) for key in keys]
        order = sorted(range(len(h)), key=lambda s: (buckets[s], s))
        before = sum(bucket < bucket_of(query, rotations, directions) for bucket in buckets)
        start = min(before, max(0, len(h) - attention.chunk))
        seen |= set(order[start : start + attention.chunk])
    powers = [(key @ query).exp() if s in seen else (key @ query) * 0 for s, key in enumerate(keys)]
    return mix([power / sum(powers) for power in powers], h)
