"""A model that cannot fit in memory is refused in one line before it is allocated; one that fits is not."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from builders import LUONG, random_model, refusal, tiny_config
from commands.processes import run_python

from nmt.config.compose import train_config
from nmt.errors import UserError
from nmt.model import build
from nmt.model.build import numbers_per_weight, require_memory
from nmt.settings.build import ModelSettings
from nmt.system.machine import available_memory

SIZES = {"source_vocabulary": 290, "target_vocabulary": 290, "longest_source": 40}


def set_memory(monkeypatch: pytest.MonkeyPatch, size: int | None) -> None:
    monkeypatch.setattr(build, "available_memory", lambda: size)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("optimizer", "copies"), [({"betas": [0.9, 0.98]}, 4), ({"lr": 0.1}, 2)])
def test_model_is_refused_only_if_its_weights_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, shared: bool, optimizer: dict[str, Any], copies: int
) -> None:
    """Weights and gradients, and for Adam two averages, in 4 bytes each."""
    config = tiny_config(LUONG, shared=shared)
    settings = ModelSettings.of(config)
    assert numbers_per_weight(optimizer, "cpu", frozen=False) == copies
    parameters = sum(weight.numel() for weight in random_model(config).parameters())
    for enough in (copies * 4 * parameters, None):
        set_memory(monkeypatch, enough)
        require_memory(settings, copies, **SIZES)
    set_memory(monkeypatch, copies * 4 * parameters - 1)
    with pytest.raises(UserError, match=f"training a model of {parameters:,} parameters needs .* lower the sizes"):
        require_memory(settings, copies, **SIZES)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["encoder.hidden_size=65536"], "encoder.hidden_size=65536"),
        (["decoder.hidden_size=65536"], "decoder.hidden_size=65536"),
        (["encoder.hidden_size=65536", "decoder.hidden_size=64", "attention=bahdanau"], "encoder.hidden_size=65536"),
        (["embeddings.size=65536", "tokenizer.vocab_size=1000000"], "embeddings.size=65536"),
        (["attention=kernel", "attention.key_size=65536", "encoder.hidden_size=9000"], "attention.key_size=65536"),
    ],
)
def test_largest_part_is_named_before_anything_is_allocated(
    monkeypatch: pytest.MonkeyPatch, settings: list[str], named: str
) -> None:
    set_memory(monkeypatch, 8 * 10**9)
    started = time.process_time()
    message = refusal(train_config, settings)
    assert time.process_time() - started < 5
    assert message.startswith(f"{named}: training a model of ")
    assert (
        f"but 8.0 GB are free; lower the sizes of the model, its layers or its vocabulary (conf/{named[:6]}" in message
    )


def test_available_memory_is_part_of_the_machine() -> None:
    everything = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    available = available_memory()
    assert available is not None and 10**7 < available <= 2 * everything  # swap counts too


def test_limit_of_the_process_counts() -> None:
    resource = pytest.importorskip("resource")
    code = "from nmt.system.machine import available_memory; print(available_memory())"
    limit = 512 * 2**20
    run = run_python(code, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert int(run.stdout) <= limit, run.stderr
