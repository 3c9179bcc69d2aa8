"""Laws of the CPU that hold on a GPU too. Tests on a GPU are skipped by name without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attention.blocks import STEMS, read_block
from builders import loss_curve, random_model, tiny_config
from training.tiny import TINY, check_resumed

from nmt.commands.train import train
from nmt.config.compose import compose_train
from nmt.inference.torch_engine import TorchEngine
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.search.search import search

GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))
SOURCES = [[4, 9, 7, 12, 5, 3], [8, 3], [6, 6, 11, 3]]
UNITS = ["embeddings.size=8", "encoder.hidden_size=8", "decoder.hidden_size=8"]
LINES = ["Ban des", "kor Gin Gin", "", "Gin des Ban kor"]


def block(attention: str) -> dict[str, Any]:
    inner = {"inner": read_block("luong")} if attention == "multi_head" else {}
    return {**read_block(attention), **inner}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("device", "input_feeding"),
    [("cpu", False), *(pytest.param("cuda", feeding, marks=GPU.marks) for feeding in (False, True))],
)
@pytest.mark.parametrize("attention", STEMS)
def test_losses_are_those_of_double_precision_on_the_cpu(
    attention: str, input_feeding: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # torch rounds the products of LSTMs to 10 bits
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


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize(
    "words",
    [f"attention={attention}" for attention in STEMS]
    + [f"encoder={encoder}" for encoder in ("bigru", "gru", "lstm", "covariance_gru", "transformer")]
    + [f"decoder={decoder}" for decoder in ("gru", "mingru", "ssru", "transformer")]
    + ["decoder.input_feeding=true encoder.layers=2 decoder.layers=2"],
)
def test_beam_search_finds_what_it_finds_on_the_cpu(words: str, device: str) -> None:
    heads = ["attention.heads=2"] if "multi_head" in words else []
    config = compose_train([*UNITS, *words.split(), *heads])
    options = SearchOptions(beam_size=3, n_best=3, max_length=8, coverage_penalty=0.2, keep_weights=True)
    models = [random_model(config, vocabulary=30, scale=3).double().to(place) for place in ("cpu", device)]
    results = [search(TorchEngine(model, trace=True), SOURCES, options) for model in models]
    for expected, hypotheses in zip(*results, strict=True):
        assert [hypothesis.tokens for hypothesis in hypotheses] == [hypothesis.tokens for hypothesis in expected]
        for hypothesis, other in zip(hypotheses, expected, strict=True):
            assert hypothesis.score == pytest.approx(other.score, rel=1e-5)
            assert hypothesis.alignment == pytest.approx(other.alignment, abs=1e-5)


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize(
    "words",
    ["decoder.layers=2", "encoder=transformer encoder.layers=1", "decoder.input_feeding=true", "precision=bf16"],
)
def test_stopped_run_equals_the_uninterrupted_one(
    words: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_resumed([*TINY, "batches.max_tokens=300", *words.split(), f"device={device}"], [25])
