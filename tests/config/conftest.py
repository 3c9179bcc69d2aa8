"""An outside package with a plug-in for every place in the configuration, and YAML files that name them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = '''
"""A package outside nmt with a plug-in for every place. ``calls`` collects the names of those that were called."""

from __future__ import annotations

from typing import Annotated

from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from nmt.attention import LuongAttention
from nmt.settings.arguments import AtLeast
from nmt.model import LSTMEncoder

calls = []


class ScaledAttention(LuongAttention):
    def __init__(self, *, state_size: int, query_size: int, scale: float = 1.0) -> None:
        calls.append("ScaledAttention")
        super().__init__(state_size=state_size, query_size=query_size)
        self.scale = scale

    def scores(self, query, memory):
        return self.scale * super().scores(query, memory)


class ScaledEncoder(LSTMEncoder):
    def __init__(self, *, embedding_size: int, hidden_size: int = 8, scale: float = 1.0) -> None:
        calls.append("ScaledEncoder")
        super().__init__(embedding_size=embedding_size, hidden_size=hidden_size, bidirectional=False)
        self.scale = scale

    def forward(self, embedded, *arguments, **options):
        return super().forward(self.scale * embedded, *arguments, **options)


class SignDescent(Optimizer):
    def __init__(self, params, lr: float = 0.01, *, decay: float = 0.0) -> None:
        calls.append("SignDescent")
        if decay < 0:
            raise ValueError(f"decay={decay} is negative")
        super().__init__(params, {"lr": lr, "decay": decay})

    def step(self, closure=None):
        loss = closure() if closure else None
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.data.mul_(1 - group["decay"]).sub_(group["lr"] * weight.grad.sign())
        return loss


class Halving(LRScheduler):
    def __init__(self, optimizer, *, every: Annotated[int, AtLeast(1)], patience: int = 0) -> None:
        calls.append("Halving")
        self.every, self.patience = every, patience
        super().__init__(optimizer)

    def get_lr(self):
        return [rate * 0.5 ** (self.last_epoch // self.every) for rate in self.base_lrs]


def letters(*, pairs: Annotated[int, AtLeast(1)], reverse: bool = False) -> dict[str, object]:
    calls.append("letters")
    texts = [" ".join("abcdefgh"[n % 7 :][: n % 5 + 1]) for n in range(pairs)]
    return {part: ((text, text[::-1] if reverse else text) for text in texts) for part in ("train", "valid", "test")}


class Letters:
    def __init__(self, *, pairs: int) -> None:
        calls.append("Letters")
        if pairs < 1:
            raise ValueError(f"data.pairs={pairs}: must be at least 1, or there is nothing to learn")
        self.pairs = pairs

    def __call__(self) -> dict[str, object]:
        calls.append("Letters()")
        return letters(pairs=self.pairs)


class Unrelated:
    def __init__(self, **settings: object) -> None:
        calls.append("Unrelated")
'''

# group, name, settings
YAMLS = [
    ("attention", "scaled", "_target_: mine.ScaledAttention\nscale: 0.5"),
    ("encoder", "scaled", "_target_: mine.ScaledEncoder\nhidden_size: 8\nscale: 2"),
    ("data", "letters", "_target_: mine.letters\npairs: 60\nreverse: true\nlowercase: true\nmax_length: 50"),
    ("data", "letters_class", "_target_: mine.Letters\npairs: 60\nlowercase: false"),
    ("optimizer", "sign", "_target_: mine.SignDescent\nlr: 0.004"),
    ("optimizer", "sgd", "_target_: torch.optim.SGD\nlr: 0.25\nmomentum: 0.5"),
    ("schedule", "halving", "_target_: mine.Halving\nevery: 3\npatience: 9"),
    ("schedule", "cosine", "_target_: torch.optim.lr_scheduler.CosineAnnealingLR\nT_max: 2"),
    ("schedule", "one_cycle", "_target_: torch.optim.lr_scheduler.OneCycleLR\nmax_lr: 0.25"),
    ("schedule", "torch_plateau", "_target_: torch.optim.lr_scheduler.ReduceLROnPlateau"),
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make the package ``mine`` importable, without importing it, and change to ``tmp_path``. Yield its name."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "mine.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.chdir(tmp_path)
    yield "mine"
    sys.modules.pop("mine", None)


@pytest.fixture
def words(package: str, tmp_path: Path) -> list[str]:
    """Return arguments that offer every YAML above and trust the package; they choose none of the YAMLs."""
    for group, name, text in YAMLS:
        (tmp_path / "my_conf" / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / "my_conf" / group / f"{name}.yaml").write_text(f"{text}\n")
    return ["--config-dir", "my_conf", f"trust=[{package}]"]
