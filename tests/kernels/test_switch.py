"""The switch NMT_KERNELS: short trainings with the fast paths on and off have the same losses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from builders import BAHDANAU, loss_curve, random_model, tiny_config

from nmt import kernels
from nmt.errors import UserError
from nmt.kernels import operators

pytestmark = pytest.mark.thorough

PRIVATE = ("onednn_linear", "onednn_pack", "sigmoid_backward", "tanh_backward")


@pytest.fixture
def private_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the private operators that were called."""
    calls: list[str] = []

    def counted(name: str) -> Callable[..., torch.Tensor]:
        original = getattr(operators, name)
        return lambda *args, **kwargs: calls.append(name) or original(*args, **kwargs)

    for name in PRIVATE:
        monkeypatch.setattr(operators, name, counted(name))
    return calls


@pytest.mark.usefixtures("fast_paths")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("output_layer", ["attentional", "direct"])
@pytest.mark.parametrize("input_feeding", [False, True])
def test_training_has_the_same_losses(
    input_feeding: bool, output_layer: str, dtype: torch.dtype, private_calls: list[str]
) -> None:
    decoder = {"layers": 2, "input_feeding": input_feeding, "output_layer": output_layer}
    config = tiny_config(BAHDANAU, encoder={"layers": 2}, decoder=decoder)

    def losses() -> list[float]:
        return loss_curve(random_model(config, vocabulary=30).to(dtype))

    with kernels.disabled():
        plain = losses()
    assert private_calls == []
    fast = losses()
    expected = set(PRIVATE if dtype == torch.float32 else PRIVATE[2:])
    assert set(private_calls) == (expected if input_feeding else expected & {"onednn_linear"})
    assert fast == pytest.approx(plain, rel=1e-12 if dtype == torch.float64 else 1e-5)
    assert plain[-1] < 0.9 * plain[0]


@pytest.mark.parametrize(("value", "expected"), [(None, True), ("", True), ("on", True), ("off", False)])
def test_values_of_the_variable(value: str | None, expected: bool) -> None:
    assert kernels.read_switch(value) is expected


def test_unknown_value_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="NMT_KERNELS=maybe: must be on or off"):
        kernels.read_switch("maybe")
    command = [sys.executable, "-c", "from nmt.commands.programs import train; train()"]
    environment = {**os.environ, "NMT_KERNELS": "maybe"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stderr.splitlines() == [
        "error: NMT_KERNELS=maybe: must be on or off; correct or unset this environment variable"
    ]
    assert list(tmp_path.iterdir()) == []


def test_disabled_ends_with_its_block() -> None:
    before = kernels.enabled()
    with pytest.raises(ZeroDivisionError), kernels.disabled():
        with kernels.disabled():
            assert not kernels.enabled()
        assert not kernels.enabled()
        raise ZeroDivisionError
    assert kernels.enabled() is before


@pytest.mark.usefixtures("fast_paths")
def test_backward_works_on_either_side_of_the_switch() -> None:
    """A graph that was recorded with the fast paths on can be differentiated with them off, and the reverse."""
    config = tiny_config(BAHDANAU, decoder={"input_feeding": True})
    ids, mask = torch.randint(4, 30, (3, 5)), torch.ones(3, 5, dtype=torch.bool)
    gradients = []
    for switch_before_backward in (False, True):
        model = random_model(config, vocabulary=30)
        loss = model.features(ids, mask, ids).square().sum()
        if switch_before_backward:
            with kernels.disabled():
                loss.backward()
        else:
            loss.backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
