"""Laws of the CPU that hold on a GPU too. Tests on a GPU are skipped by name without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attention.blocks import STEMS, read_block
from builders import loss_curve, random_model, tiny_config
from training.tiny import TINY

from nmt.commands.train import train
from nmt.inference.translator import Translator

GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))
LINES = ["Ban des", "kor Gin Gin", "", "Gin des Ban kor"]


def block(attention: str) -> dict[str, Any]:
    inner = {"inner": read_block("luong")} if attention == "multi_head" else {}
    return {**read_block(attention), **inner}


@pytest.mark.thorough
@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("input_feeding", [False, True], ids=["unfed", "fed"])
@pytest.mark.parametrize("attention", STEMS)
def test_losses_are_those_of_double_precision_on_the_cpu(attention: str, input_feeding: bool, device: str) -> None:
    config = tiny_config(block(attention), decoder={"input_feeding": input_feeding})
    exact = loss_curve(random_model(config, vocabulary=30, scale=3).double(), updates=4)
    losses = loss_curve(random_model(config, vocabulary=30, scale=3).to(device), updates=4)
    assert losses == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.slow), GPU])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_trained_model_translates_alike_on_the_cpu(
    precision: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train([*TINY, f"device={device}", f"precision={precision}", "training.max_epochs=1"])
    texts = [Translator.load(Path("runs/demo"), device=place).texts(LINES) for place in (device, "cpu")]
    assert texts[0] == texts[1]
